"""The 128-bit hashes of keys, in files: millions of tiny rows have more of them than belongs into memory."""

from __future__ import annotations

import mmap
from collections.abc import Sequence

import numpy as np
import xxhash
from numpy.typing import NDArray

from toolkit.storage.mapped import mapped
from toolkit.storage.scratch import NamelessFile

__all__ = ["HASH_BYTES", "Hashes", "KeyHashes", "key_hash", "mapped_hashes"]

HASH_BYTES = 16

Hashes = NDArray[np.uint64]
"""uint64 (n, 2)."""


def key_hash(key: str) -> bytes:
    """Return HASH_BYTES that stand for a key."""
    return xxhash.xxh3_128_digest(key.encode())


def mapped_hashes(path: str) -> Hashes:
    """Return the hashes in a file as numbers; pages of them come in as they are read. Raises StorageError."""
    return _numbers(mapped(path))


class KeyHashes(NamelessFile):
    """A hash of each key of a slice, in a nameless file until they are wanted."""

    def __init__(self, folder: str | None) -> None:
        super().__init__(folder)
        self.rows = 0

    def add(self, keys: Sequence[str]) -> None:
        """Add the hashes of some keys. Raises StorageError."""
        self.write(b"".join(key_hash(key) for key in keys))
        self.rows += len(keys)

    def numbers(self) -> Hashes:
        """Return all hashes as numbers, not read into memory."""
        return _numbers(self.mapped())


def _numbers(data: bytes | mmap.mmap) -> Hashes:
    return np.frombuffer(data, np.uint64).reshape(-1, 2)
