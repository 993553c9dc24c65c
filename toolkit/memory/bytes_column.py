"""Values of bytes in one block: what a batch has of a column of bytes, or of encoded images that no slot decodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["BytesColumn"]


class BytesColumn(Sequence[bytes | None]):
    """A sequence of n bytes, None where a value is null, padded or skipped; equal to a list of the same.

    The values lie one behind the other in one block, which the batch shares with whoever keeps `data` or a view().
    An item is a copy of its own, made when it is asked for: `for value in column` makes one at a time.

    Attributes:
        data: uint8 (total,): all bytes, the consumer's own to write. What is None has no bytes, or zeros if skipped.
        offsets: int64 (n + 1,): value i is data[offsets[i] : offsets[i + 1]].
        present: bool (n,): where there is a value.
    """

    __slots__ = ("data", "offsets", "present")

    def __init__(self, values: Iterable[bytes | None]) -> None:
        """Copy `values` to a block of their own."""
        given = list(values)
        self.present: NDArray[np.bool_] = np.array([value is not None for value in given], np.bool_)
        self.offsets: NDArray[np.int64] = np.zeros(len(given) + 1, np.int64)
        np.cumsum([len(value or b"") for value in given], out=self.offsets[1:])
        self.data: NDArray[np.uint8] = np.frombuffer(bytearray().join(value or b"" for value in given), np.uint8)

    @classmethod
    def over(cls, data: NDArray[np.uint8], offsets: NDArray[np.int64], present: NDArray[np.bool_]) -> Self:
        """Return a column over arrays, as its attributes describe them; they are not copied."""
        column = cls.__new__(cls)
        column.data, column.offsets, column.present = data, offsets, present
        return column

    def __len__(self) -> int:
        return len(self.present)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...
    @overload
    def __getitem__(self, index: slice) -> list[bytes | None]: ...
    def __getitem__(self, index: int | slice) -> bytes | list[bytes | None] | None:
        """Return a copy of a value, or of several as a list. Raises IndexError."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        view = self.view(index)
        return None if view is None else bytes(view)

    def __iter__(self) -> Iterator[bytes | None]:
        data, offsets = self.data.data, self.offsets.tolist()
        for i, present in enumerate(self.present.tolist()):
            yield bytes(data[offsets[i] : offsets[i + 1]]) if present else None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BytesColumn | list | tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # equal to lists, which have none

    def __repr__(self) -> str:
        return f"<toolkit.BytesColumn {len(self)} values, {len(self.data)} bytes>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self),)

    def view(self, index: int) -> memoryview | None:
        """Return value `index` without a copy; it keeps the whole block. Raises IndexError."""
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"value {index} of {n}")
        index %= n
        if not self.present[index]:
            return None
        return self.data.data[self.offsets[index] : self.offsets[index + 1]]
