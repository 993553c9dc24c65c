"""Read a column's stored values for a part of a batch: numbers as an array, anything else as a list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.shards.fetch import FetchBuffer
from toolkit.format.layout import leaf_name
from toolkit.loader.dataset.decoded import DecodedColumn
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.dataset.located import Located
from toolkit.pipelines.media import Held

__all__ = ["BINARY_TYPES", "ColumnReader", "Stored", "make_reader"]

_TEXT = (pa.string(), pa.large_string())
BINARY_TYPES = (pa.binary(), pa.large_binary())


@dataclass(frozen=True, slots=True)
class Stored:
    """Values of a part.

    Attributes:
        values: Array (n,), or a list of n.
        present: bool (n,): where there is one. Elsewhere `values` has zero or None.
        nbytes: What was fetched of variable-length values.
    """

    values: NDArray[Any] | list[Any]
    present: NDArray[np.bool_]
    nbytes: int = 0


class ColumnReader(ABC):
    """Reads one column. Stateless; used by every worker at once.

    Attributes:
        dtype: Of the array that it reads, or None for a list.
    """

    dtype: np.dtype[Any] | None = None

    def __init__(self, column: str, fetcher: Fetcher) -> None:
        self.column = column
        self.fetcher = fetcher

    @abstractmethod
    def read(self, located: Located, buffer: FetchBuffer) -> Stored:
        """Return checked values of their own. Raises CorruptShardError."""


class _NumberReader(ColumnReader):
    def __init__(self, column: str, dtype: np.dtype[Any], fetcher: Fetcher) -> None:
        super().__init__(column, fetcher)
        self.dtype: np.dtype[Any] = dtype

    def read(self, located: Located, buffer: FetchBuffer) -> Stored:
        values = np.empty(len(located.rows), self.dtype)
        null = self.fetcher.fixed(self.column, located, values.view(np.uint8))
        return Stored(values, ~null)


class _BoolReader(ColumnReader):
    dtype: np.dtype[Any] = np.dtype(np.bool_)

    def read(self, located: Located, buffer: FetchBuffer) -> Stored:
        values = self.fetcher.values(self.column, located)
        return Stored(np.array([bool(value) for value in values], np.bool_), _there(values))


class _BytesReader(ColumnReader):
    """Bytes, or with `text` str."""

    def __init__(self, column: str, leaf: str, text: bool, fetcher: Fetcher) -> None:
        super().__init__(column, fetcher)
        self._leaf = leaf
        self._text = text

    def read(self, located: Located, buffer: FetchBuffer) -> Stored:
        taken = self.fetcher.bytes(self._leaf, located)
        values = self.fetcher.texts(self._leaf, located, taken) if self._text else taken
        return Stored(values, _there(taken), sum(len(t) for t in taken if t is not None))


class _ArrayReader(ColumnReader):
    """Arrays of a medium that is stored decoded."""

    def __init__(self, column: str, held: Held, fetcher: Fetcher) -> None:
        super().__init__(column, fetcher)
        self._arrays = DecodedColumn(fetcher, column, held)

    def read(self, located: Located, buffer: FetchBuffer) -> Stored:
        payloads = self._arrays.payloads(located, buffer)
        values = [None if array is None else array.copy() for array in self._arrays.arrays(located, payloads)]
        return Stored(values, _there(values), int(payloads.lengths[payloads.lengths > 0].sum()))


class _ValueReader(ColumnReader):
    """Python values, of any type."""

    def read(self, located: Located, buffer: FetchBuffer) -> Stored:
        values = self.fetcher.values(self.column, located)
        return Stored(values, _there(values))


def make_reader(
    column: str, dtype: pa.DataType, held: Held | None, fetcher: Fetcher, *, as_bytes: bool = False
) -> ColumnReader:
    """Return the reader of a column of that stored type; `held` is the medium it holds.

    `as_bytes` reads text as its UTF-8 bytes.
    """
    if held is not None:
        if held.form.is_decoded:
            return _ArrayReader(column, held, fetcher)
        return _BytesReader(column, leaf_name(column, held.form.payload), False, fetcher)
    if dtype in _TEXT or dtype in BINARY_TYPES:
        return _BytesReader(column, column, dtype in _TEXT and not as_bytes, fetcher)
    if pa.types.is_boolean(dtype):
        return _BoolReader(column, fetcher)
    if pa.types.is_integer(dtype) or pa.types.is_floating(dtype):
        return _NumberReader(column, np.dtype(dtype.to_pandas_dtype()), fetcher)
    return _ValueReader(column, fetcher)


def _there(values: list[Any]) -> NDArray[np.bool_]:
    return np.array([value is not None for value in values], np.bool_)
