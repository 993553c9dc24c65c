"""What stands for the sums of a dataset that has none: size and modification time of each value's file, by row.

They lie beside each shard, in no hash, since times are not the samples' own: `<shard>.stat` has for each row of the
shard, and in it for each column of references in the order of shards, two little-endian int64: the size and the time in
nanoseconds, both -1 where there is no value.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import CorruptTableError, NotFoundError
from toolkit.storage.mapped import ShardFile
from toolkit.storage.store import NoObjectError, Store, local_path_of

__all__ = ["FileStats", "encode_stats", "stat_path"]

_VALUE = np.dtype("<i8")
_PAIR = struct.Struct("<qq")
_AGAIN = "Index the source again, or copy the file from where the dataset was made"


def stat_path(shard: str) -> str:
    """Return where the sizes and times of a shard's files lie, from its path inside the dataset."""
    return f"{shard.removesuffix('.arrow')}.stat"


def encode_stats(columns: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> bytes:
    """Return the file of one shard, from sizes and times (int64, one a row) of each column of references."""
    return np.stack([np.stack(pair, axis=1) for pair in columns], axis=1).astype(_VALUE).tobytes()


class FileStats:
    """The sizes and times of one shard's files. Owns a map; safe from any thread."""

    def __init__(self, store: Store, shard: str, columns: int, rows: int) -> None:
        """Open the file of a shard, given by its path, with so many columns of references and so many rows.

        Raises:
            CorruptTableError: It isn't there, or has another size.
            StorageError: The file system refuses.
        """
        name = stat_path(shard)
        self._width = columns * 2 * _VALUE.itemsize
        self._columns = columns
        self._place = store.place(name)
        try:
            with ShardFile(local_path_of(store, name)) as file:
                if file.bytes != rows * self._width:
                    raise CorruptTableError(
                        f"{self._place} has {file.bytes} bytes, and {rows * self._width} are the sizes and times of "
                        f"shard {shard}'s files. {_AGAIN}"
                    )
                self._map = file.map()
        except (NotFoundError, NoObjectError) as error:
            raise CorruptTableError(
                f"{self._place} is missing, which has the sizes and times of the files that shard {shard} refers to. "
                f"{_AGAIN}"
            ) from error

    def one(self, row: int, column: int) -> tuple[int, int]:
        """Return size and time of one file. Raises as read()."""
        piece = self._map.read(row * self._width, self._width)
        if piece is None:
            raise self._cut()
        size, mtime_ns = _PAIR.unpack_from(piece, column * _PAIR.size)
        return size, mtime_ns

    def read(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64 (rows, columns, 2) of these rows of the shard. Raises CorruptTableError when the file fails."""
        pieces = [self._map.read(row * self._width, self._width) for row in rows.tolist()]
        known = [piece for piece in pieces if piece is not None]
        if len(known) < len(pieces):
            raise self._cut()
        return np.frombuffer(b"".join(known), _VALUE).astype(np.int64).reshape(len(rows), self._columns, 2)

    def _cut(self) -> CorruptTableError:
        return CorruptTableError(f"{self._place} was cut short, or its disk failed, while it was open. {_AGAIN}")
