"""Open one shard for reading: identity and non-body hash checked, bodies mapped and left to checked copies."""

from __future__ import annotations

import base64
import binascii
import enum
import hashlib

import numpy as np

from toolkit._native.shards.body import (
    READ_CRC,
    READ_FAULT,
    READ_ITEMS,
    READ_RANGE,
    READ_TEXT,
    Body,
)
from toolkit.errors import CorruptShardError, NotFoundError, UsageError, did_you_mean
from toolkit.escapes import short
from toolkit.format.layout import BatchShape
from toolkit.format.message import BatchMessage, parse_batch_message
from toolkit.format.shard import SUMS_KEY
from toolkit.format.tables import ShardIndex
from toolkit.storage.mapped import ShardFile
from toolkit.storage.store import NoObjectError, Store, local_path_of

__all__ = ["ShardReader", "Verify", "read_failure"]

_PIECE_BYTES = 1 << 20
_ALIGNMENT = 8

_FAILURES = {
    READ_CRC: "a chunk's bytes have another CRC32C than when they were packed",
    READ_FAULT: "the file was cut short, or its disk failed, while it was open",
    READ_RANGE: "a value's offsets point outside its buffer",
    READ_TEXT: "a text is not UTF-8",
    READ_ITEMS: "a list has more items than format 1 allows of a type that takes no bytes",
}


class Verify(enum.Enum):
    """When a chunk's CRC32C is checked: when first touched, anew once the file may have changed; or at every read."""

    TOUCH = "touch"
    ALWAYS = "always"

    @classmethod
    def named(cls, value: str) -> Verify:
        """Return the member of that value. Raises UsageError with the nearest."""
        try:
            return cls(value)
        except ValueError:
            known = [member.value for member in cls]
            hint = did_you_mean(value, known) if isinstance(value, str) else ""
            raise UsageError(
                f"verify must be one of {', '.join(known)}, got {short(value, 80, quoted=True)}.{hint}"
            ) from None


def read_failure(status: int, chunk: int) -> str:
    """Say in words what a READ_ status means; `chunk` is the 16 KiB chunk of the body."""
    return f"{_FAILURES[status]} (chunk {chunk} of the record batch)" if chunk >= 0 else _FAILURES[status]


class ShardReader:
    """An open shard. Owns its map for as long as it or one of its bodies is alive; safe from any thread.

    The file is checked when it is opened (size, sha256 of all bytes outside bodies); what lies in bodies is checked as
    it is copied. The descriptor is not kept: a shard that was replaced or removed by name still delivers what was
    planned, and one that was rewritten in place is noticed by check_identity(). When `identity` changed otherwise, what
    was checked before proves nothing any more: the shard is to be opened anew.
    """

    def __init__(
        self, store: Store, index: ShardIndex, shard: int, shape: BatchShape, verify: Verify = Verify.TOUCH
    ) -> None:
        """Open shard number `shard` of `index` in the dataset's store; `shape` is of its record batches.

        The index is one that was checked (toolkit.format.contents).

        Raises:
            CorruptShardError: It is missing, has another size, or other metadata than when it was packed.
            StorageError: The file system refuses.
            UsageError: The store has no local files.
        """
        self.path = index.shard_path(shard)
        self._index = index
        self._shape = shape
        self._remember = verify is Verify.TOUCH
        self._first = int(index.shard_first_batch[shard])
        self._last = int(index.shard_first_batch[shard + 1])
        expected = int(index.shard_bytes[shard])
        with self._open(local_path_of(store, self.path)) as file:
            if file.bytes != expected:
                raise self._corrupt(f"it has {file.bytes} bytes, packed were {expected}")
            self.identity = file.identity
            self._messages = self._read_nonbody(file, expected, index.nonbody_sha256[shard].as_py())
            self._map = file.map()
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
        if self.identity.rewritten():
            raise self._corrupt("it was changed while it was open")

    def _open(self, path: str) -> ShardFile:
        try:
            return ShardFile(path)
        except NotFoundError as error:
            raise self._corrupt("it is missing") from error
        except NoObjectError as error:
            raise self._corrupt("it is no regular file") from error

    def _read_nonbody(self, file: ShardFile, size: int, expected: bytes) -> list[bytes]:
        """Read everything outside the bodies, check its hash, and return each batch's message metadata."""
        digest = hashlib.sha256()
        messages = []
        position = 0
        for batch in range(self._first, self._last):
            offset, metadata_bytes = int(self._index.batch_offset[batch]), int(self._index.batch_metadata_bytes[batch])
            for start in range(position, offset, _PIECE_BYTES):  # of any length, in a file with holes
                digest.update(file.read_range(start, min(_PIECE_BYTES, offset - start)))
            messages.append(file.read_range(offset, metadata_bytes))
            digest.update(messages[-1])
            position = offset + metadata_bytes + int(self._index.batch_body_bytes[batch])
        for start in range(position, size, _PIECE_BYTES):
            digest.update(file.read_range(start, min(_PIECE_BYTES, size - start)))
        if digest.digest() != expected:
            raise self._corrupt("its schema, batch metadata or footer has changed since it was packed")
        return messages

    def _parse(self, batch: int) -> Body:
        place = batch - self._first
        try:
            message = parse_batch_message(self._messages[place])
            self._check(message, batch)
            sums = base64.b64decode(message.metadata[SUMS_KEY], validate=True)
            return Body(
                self._map,
                int(self._index.batch_offset[batch] + self._index.batch_metadata_bytes[batch]),
                message.body_bytes,
                message.rows,
                sums,
                np.ascontiguousarray(message.buffers),
                self._remember,
            )
        except (ValueError, KeyError, binascii.Error) as error:
            raise self._corrupt(f"record batch {place} has unreadable metadata: {error}") from error

    def _check(self, message: BatchMessage, batch: int) -> None:
        """Raise ValueError when the message contradicts the shard table or the schema."""
        rows, body_bytes = int(self._index.batch_rows[batch]), int(self._index.batch_body_bytes[batch])
        if message.rows != rows:
            raise ValueError(f"{message.rows} rows, its shard table says {rows}")
        if message.body_bytes != body_bytes:
            raise ValueError(f"a body of {message.body_bytes} bytes, its shard table says {body_bytes}")
        if len(message.buffers) != self._shape.buffers:
            raise ValueError(f"{len(message.buffers)} buffers, its schema has {self._shape.buffers}")
        if (message.buffers[:, 0] % _ALIGNMENT).any():
            raise ValueError(f"a buffer at no multiple of {_ALIGNMENT} bytes")
        if message.buffers[self._shape.empty, 1].any():
            raise ValueError("nulls in a column that has none")

    def _corrupt(self, what: str) -> CorruptShardError:
        return CorruptShardError(
            f"shard {self.path}: {what}. Copy it again from a good copy of the dataset, or pack again", shard=self.path
        )
