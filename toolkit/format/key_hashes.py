"""The 128-bit hashes of keys, in files: millions of tiny rows have more of them than belongs into memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from toolkit.storage.local import storage_errors

__all__ = ["HASH_BYTES", "Hashes", "KeyHashes", "key_hash", "mapped", "mapped_hashes"]

HASH_BYTES = 16

Hashes = NDArray[np.uint64]
"""uint64 (n, 2)."""


def key_hash(key: str) -> bytes:
    """Return HASH_BYTES that stand for a key."""
    return xxhash.xxh3_128_digest(key.encode())


def mapped(path: str) -> bytes | mmap.mmap:
    """Return what a file of hashes holds, not read into memory. Raises StorageError."""
    with storage_errors("read", path), open(path, "rb") as file:
        return _mapped(file.fileno())


def mapped_hashes(path: str) -> Hashes:
    """Return the hashes in a file as numbers; pages of them come in as they are read. Raises StorageError."""
    return _numbers(mapped(path))


class KeyHashes:
    """A hash of each key of a slice, in a nameless file until they are wanted."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.rows = 0
        with storage_errors("write", folder):
            self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A full disk was told already; what is left in the buffer is for nobody.
        with contextlib.suppress(OSError):
            self._file.close()

    def add(self, keys: Sequence[str]) -> None:
        """Add the hashes of some keys."""
        with storage_errors("write", self._folder):
            self._file.write(b"".join(key_hash(key) for key in keys))
        self.rows += len(keys)

    def mapped(self) -> bytes | mmap.mmap:
        """Return all hashes, not read into memory."""
        with storage_errors("write", self._folder):
            self._file.flush()
            return _mapped(self._file.fileno())

    def numbers(self) -> Hashes:
        """Return all hashes as numbers, not read into memory."""
        return _numbers(self.mapped())


def _numbers(data: bytes | mmap.mmap) -> Hashes:
    return np.frombuffer(data, np.uint64).reshape(-1, 2)


def _mapped(fd: int) -> bytes | mmap.mmap:
    # Nothing can't be mapped.
    return mmap.mmap(fd, 0, access=mmap.ACCESS_READ) if os.fstat(fd).st_size else b""
