"""What stands for the sums of a dataset that has none: size and modification time of each value's file, by row.

They lie beside each shard, in no hash, since times are not the samples' own: `<shard>.stat` has for each row of the
shard, and in it for each column of references in the order of shards, two little-endian int64: the size and the time in
nanoseconds, both -1 where there is no value.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import CorruptTableError, NotFoundError
from toolkit.storage.store import NoObjectError, Store

__all__ = ["encode_stats", "read_stats", "stat_path"]

_VALUE = np.dtype("<i8")
_AGAIN = "Index the source again, or copy the file from where the dataset was made"


def stat_path(shard: str) -> str:
    """Return where the sizes and times of a shard's files lie, from its path inside the dataset."""
    return f"{shard.removesuffix('.arrow')}.stat"


def encode_stats(columns: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> bytes:
    """Return the file of one shard, from sizes and times (int64, one a row) of each column of references."""
    return np.stack([np.stack(pair, axis=1) for pair in columns], axis=1).astype(_VALUE).tobytes()


def read_stats(store: Store, shard: str, columns: int, start: int, rows: int) -> NDArray[np.int64]:
    """Return int64 (rows, columns, 2) of rows `start` … of a shard with so many columns of references.

    Raises:
        CorruptTableError: The file isn't there, or is too short.
    """
    name, width = stat_path(shard), columns * 2 * _VALUE.itemsize
    place = store.place(name)
    try:
        data = store.read_range(name, start * width, rows * width)
    except (NotFoundError, NoObjectError) as error:
        raise CorruptTableError(
            f"{place} is missing, which has the sizes and times of the files that shard {shard} refers to. {_AGAIN}"
        ) from error
    if len(data) != rows * width:
        raise CorruptTableError(f"{place} ends before row {start + rows} of shard {shard}. {_AGAIN}")
    return np.frombuffer(data, _VALUE).astype(np.int64).reshape(rows, columns, 2)
