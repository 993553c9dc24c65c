"""New keys for samples whose key another one has: KEY#1, KEY#2, …, the first number that no sample has yet."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.format.schema import KEY

__all__ = ["Renames", "plain_key", "renamed_key"]


@dataclass(frozen=True, slots=True)
class Renames:
    """The samples of a slice that get a new key: int64 `rows` within the slice, ascending, and each one's number."""

    rows: NDArray[np.int64]
    numbers: NDArray[np.int64]

    @property
    def digest(self) -> str:
        """A hash of what is renamed to what."""
        return hashlib.sha256(self.rows.tobytes() + self.numbers.tobytes()).hexdigest()

    def apply(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return `batch` with its new keys; its first row is row `first` of the slice."""
        start, stop = np.searchsorted(self.rows, [first, first + batch.num_rows]).tolist()
        if start == stop:
            return batch
        place = batch.schema.get_field_index(KEY)
        keys = batch.column(place).to_pylist()
        for row, number in zip((self.rows[start:stop] - first).tolist(), self.numbers[start:stop], strict=True):
            keys[row] = renamed_key(keys[row], int(number))
        return batch.set_column(place, batch.schema.field(place), pa.array(keys, pa.string()))


def renamed_key(key: str, number: int) -> str:
    """Return the key of the sample that is the `number`-th to be renamed."""
    return f"{key}#{number}"


def plain_key(key: str) -> str:
    """Return what renamed_key() was given."""
    return key.rpartition("#")[0]
