"""Open one shard for reading: identity and non-body hash checked, bodies mapped and left to checked copies."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from pathlib import PurePosixPath

import numpy as np

from toolkit._native.chunks import READ_CRC, READ_FAULT, READ_RANGE, Body, ShardMap
from toolkit._native.locate import FileIdentity
from toolkit.errors import CorruptShardError, StorageError
from toolkit.format.message import parse_batch_message
from toolkit.format.shard import SUMS_KEY
from toolkit.format.tables import ShardIndex
from toolkit.storage.local import read_range

__all__ = ["ShardReader", "read_failure"]

_FAILURES = {
    READ_CRC: "a chunk's bytes have another CRC32C than when they were packed",
    READ_FAULT: "the file was cut short, or its disk failed, while it was open",
    READ_RANGE: "a value's offsets point outside its buffer",
}


def read_failure(status: int, chunk: int) -> str:
    """Say in words what a READ_ status means; `chunk` is the 16 KiB chunk of the body."""
    return f"{_FAILURES[status]} (chunk {chunk} of the record batch)" if chunk >= 0 else _FAILURES[status]


class ShardReader:
    """An open shard. Owns its map for as long as it or one of its bodies is alive; safe from any thread.

    The file is checked when it is opened (size, sha256 of all bytes outside bodies); what lies in bodies is checked as
    it is copied. The descriptor is not kept: a shard that was replaced or removed by name still delivers what was
    planned, and one that was rewritten in place is noticed by check_identity().
    """

    def __init__(self, root: str, index: ShardIndex, shard: int) -> None:
        """Open shard number `shard` of `index` below the dataset folder `root`.

        Raises:
            CorruptShardError: It is missing, has another size, or other metadata than when it was packed.
            StorageError: The file system refuses.
        """
        self.path = index.shard_path(shard)
        self._file = os.path.join(root, self.path)
        self._index = index
        self._first = int(index.shard_first_batch[shard])
        self._last = int(index.shard_first_batch[shard + 1])
        if PurePosixPath(self.path).is_absolute() or ".." in PurePosixPath(self.path).parts:
            raise CorruptShardError(f"shard path {self.path!r} leaves the dataset folder", shard=self.path)
        expected = int(index.shard_bytes[shard])
        fd = self._open()
        try:
            stat = os.fstat(fd)
            if stat.st_size != expected:
                raise self._corrupt(f"it has {stat.st_size} bytes, packed were {expected}")
            self.identity = FileIdentity(
                os.fsencode(self._file), stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns
            )
            self._messages = self._read_nonbody(fd, expected, index.nonbody_sha256[shard].as_py())
            self._map = ShardMap(fd, expected)
        except OSError as error:
            raise StorageError(f"can't read {self._file}: {error.strerror}") from error
        finally:
            os.close(fd)
        self._bodies: dict[int, Body] = {}

    def body(self, batch: int) -> Body:
        """Return the body of record batch number `batch` of the split (not of the shard)."""
        body = self._bodies.get(batch)
        return body if body is not None else self._bodies.setdefault(batch, self._parse(batch))

    def message(self, batch: int) -> bytes:
        """Return the checked metadata message of record batch number `batch` of the split."""
        return self._messages[batch - self._first]

    def check_identity(self) -> None:
        """Raise CorruptShardError when the file under this name was rewritten or cut short since it was opened."""
        if self.identity.changed():
            raise self._corrupt("it was changed while it was open")

    def _open(self) -> int:
        try:
            return os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise self._corrupt("it is missing") from error
        except OSError as error:
            raise StorageError(f"can't open {self._file}: {error.strerror}") from error

    def _read_nonbody(self, fd: int, size: int, expected: bytes) -> list[bytes]:
        """Read everything outside the bodies, check its hash, and return each batch's message metadata."""
        digest = hashlib.sha256()
        messages = []
        position = 0
        for batch in range(self._first, self._last):
            offset, metadata_bytes = int(self._index.batch_offset[batch]), int(self._index.batch_metadata_bytes[batch])
            gap = read_range(fd, position, offset + metadata_bytes - position)
            digest.update(gap)
            messages.append(gap[offset - position :])
            position = offset + metadata_bytes + int(self._index.batch_body_bytes[batch])
        digest.update(read_range(fd, position, size - position))
        if digest.digest() != expected:
            raise self._corrupt("its schema, batch metadata or footer has changed since it was packed")
        return messages

    def _parse(self, batch: int) -> Body:
        place = batch - self._first
        try:
            message = parse_batch_message(self._messages[place])
            sums = base64.b64decode(message.metadata[SUMS_KEY], validate=True)
            return Body(
                self._map,
                int(self._index.batch_offset[batch] + self._index.batch_metadata_bytes[batch]),
                message.body_bytes,
                message.rows,
                sums,
                np.ascontiguousarray(message.buffers),
            )
        except (ValueError, KeyError, binascii.Error) as error:
            raise self._corrupt(f"record batch {place} has unreadable metadata: {error}") from error

    def _corrupt(self, what: str) -> CorruptShardError:
        return CorruptShardError(
            f"shard {self.path}: {what}. Copy it again from a good copy of the dataset, or pack again", shard=self.path
        )
