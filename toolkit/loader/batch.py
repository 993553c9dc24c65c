"""What a loader delivers: a mapping of columns, with the keys and positions of its samples."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from toolkit.loader.fetch import Fetcher

__all__ = ["Batch"]


class Batch(Mapping[str, Any]):
    """Columns of a batch by name. The arrays are the consumer's own: writable, and valid as long as they are held.

    Bytes that no slot reads are a BytesColumn: a sequence of bytes in one block.

    Attributes:
        epoch: The epoch it belongs to.
        positions: int64 (n,): positions of its samples in the epoch's order; -1 where it is padded.
        rows: int64 (n,): rows of the split; -1 where it is padded.
        mask: bool (n,): True where a sample was delivered; elsewhere arrays hold zeros, lists and bytes None.
        present: bool (n,) for each optional slot: False where its value was missing and `fill` stands for it.
    """

    def __init__(
        self,
        columns: dict[str, Any],
        fetcher: Fetcher,
        epoch: int,
        positions: NDArray[np.int64],
        rows: NDArray[np.int64],
        mask: NDArray[np.bool_],
        present: Mapping[str, NDArray[np.bool_]],
        token: object,
    ) -> None:
        """`token` is kept: the batch's lists count as held until it is gone."""
        self._columns = columns
        self._fetcher = fetcher
        self.epoch = epoch
        self.positions = positions
        self.rows = rows
        self.mask = mask
        self.present = present
        self._token = token

    def __getitem__(self, column: str) -> Any:
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"<toolkit.Batch epoch {self.epoch}, {len(self.rows)} samples, columns {', '.join(self._columns)}>"

    @property
    def sample_keys(self) -> list[str | None]:
        """Keys of the samples, of skipped ones too, None where it is padded; read from the dataset when asked for."""
        real = self.rows[self.rows >= 0]
        keys: list[str | None] = [*self._fetcher.keys(self._fetcher.locate(real))]
        return keys + [None] * (len(self.rows) - len(real))
