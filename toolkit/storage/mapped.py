"""Local files as memory: a shard that is open for reading, and whole files that are mapped."""

from __future__ import annotations

import mmap
import os
from types import TracebackType
from typing import Self

from toolkit._native.shards.body import ShardMap
from toolkit._native.shards.locate import FileIdentity
from toolkit.storage.files import open_regular, read_range, storage_error, storage_errors
from toolkit.storage.local import read_error

__all__ = ["ShardFile", "map_file", "mapped"]


class ShardFile:
    """A shard's file, open: all that is asked is of one and the same file. Owns the descriptor in its `with` block.

    Attributes:
        bytes: Its size when it was opened.
        identity: What it was when it was opened.
    """

    __slots__ = ("_fd", "_path", "bytes", "identity")

    def __init__(self, path: str) -> None:
        """Open it. Raises NotFoundError, NoObjectError, StorageError."""
        self._path = path
        try:
            self._fd = open_regular(path)
            status = os.fstat(self._fd)
        except OSError as error:
            raise read_error(path, error) from error
        self.bytes = status.st_size
        self.identity = FileIdentity(os.fsencode(path), status)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._fd)

    def read_range(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes at `offset`; fewer only at the end. Raises StorageError."""
        try:
            return read_range(self._fd, offset, length)
        except OSError as error:
            raise storage_error("read", self._path, error) from error

    def map(self) -> ShardMap:
        """Map all of it, for guarded copies; the map outlives the descriptor. Raises StorageError."""
        try:
            return ShardMap(self._fd, self.bytes)
        except OSError as error:
            raise storage_error("map", self._path, error) from error


def map_file(path: str) -> mmap.mmap:
    """Return a map of a file that has at least one byte. Raises StorageError."""
    with storage_errors("read", path), open(path, "rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def mapped(path: str) -> bytes | mmap.mmap:
    """Return what a file holds, not read into memory. Raises StorageError."""
    with storage_errors("read", path):
        return map_file(path) if os.path.getsize(path) else b""  # nothing can't be mapped
