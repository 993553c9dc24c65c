"""Open one shard for reading: messages checked by their hash when they are needed, bodies left to checked copies."""

from __future__ import annotations

import enum
import hashlib

from toolkit._native.shards.body import (
    CHUNK_BYTES,
    READ_CRC,
    READ_FAULT,
    READ_ITEMS,
    READ_RANGE,
    READ_TEXT,
    Body,
)
from toolkit._native.shards.message import BatchMessage, decode_base64
from toolkit.errors import CorruptShardError, NotFoundError, UsageError, did_you_mean
from toolkit.escapes import short
from toolkit.format.index import BatchInfo, ShardIndex
from toolkit.format.layout import BatchShape
from toolkit.format.shard import SUMS_KEY
from toolkit.storage.mapped import ShardFile
from toolkit.storage.store import NoObjectError, Store, local_path_of

__all__ = ["ShardReader", "Verify", "read_failure"]

_PIECE_BYTES = 1 << 20
_AHEAD = 4  # record batches whose heads are asked for when they are read one after the other
_WANTED_BYTES = 1 << 17  # of a head, asked for together with its message: what a page fault would read at once

_COPY = "Copy it again from a good copy of the dataset, or pack again"
_NO_COPY = "No copy of it is right: pack again"

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

    Its size is checked when it is opened, and a record batch's message when that record batch is first asked for; what
    lies in bodies is checked as it is copied. The descriptor is not kept: a shard that was replaced or removed by name
    still delivers what was planned, and one that was rewritten in place is noticed by check_identity(). When `identity`
    changed otherwise, what was checked before proves nothing any more: the shard is to be opened anew.
    """

    def __init__(
        self, store: Store, index: ShardIndex, shard: int, shape: BatchShape, verify: Verify = Verify.TOUCH
    ) -> None:
        """Open shard number `shard` of `index` in the dataset's store; `shape` is of its record batches.

        The index is one that was checked (toolkit.format.contents).

        Raises:
            CorruptTableError: The table that names it can't be read.
            CorruptShardError: It is missing, or has another size than when it was packed.
            StorageError: The file system refuses.
            UsageError: The store has no local files.
        """
        self._info = info = index.shard(shard)
        self.path = info.path
        self._index = index
        self._shape = shape
        self._remember = verify is Verify.TOUCH
        with self._open(local_path_of(store, self.path)) as file:
            if file.bytes != info.file_bytes:
                raise self._corrupt(f"it has {file.bytes} bytes, packed were {info.file_bytes}")
            self.identity = file.identity
            self._map = file.map()
        self._bodies: dict[int, Body] = {}
        self._wanted: dict[int, BatchInfo] = {}  # asked for ahead of time

    def body(self, batch: int) -> Body:
        """Return the body of record batch number `batch` of the split (not of the shard).

        Raises:
            CorruptShardError: Its message isn't the one that was packed, or contradicts the shard table.
        """
        body = self._bodies.get(batch)
        if body is not None:
            return body
        info = self.want(batch)
        if batch - 1 in self._bodies:  # one after the other: the disk may work ahead
            for ahead in range(batch + 1, min(batch + 1 + _AHEAD, self._info.batches.stop)):
                self.want(ahead)
        body = self._bodies.setdefault(batch, self._trusted(info))
        self._wanted.pop(batch, None)
        return body

    def want(self, batch: int) -> BatchInfo:
        """Begin to read the message and the head of a record batch, in one go, and don't wait; return what is known."""
        info = self._wanted.get(batch)
        if info is None:
            info = self._wanted[batch] = self._index.batch(batch)
            head_bytes = -(-info.head_bytes // CHUNK_BYTES) * CHUNK_BYTES
            self._map.will_need(info.offset, info.metadata_bytes + min(head_bytes, info.body_bytes, _WANTED_BYTES))
        return info

    def check_nonbody(self) -> None:
        """Raise CorruptShardError unless all bytes outside of bodies are as they were packed: other tools read them."""
        digest, position = hashlib.sha256(), 0
        bodies = [(batch.body_offset, batch.body_bytes) for batch in map(self._index.batch, self._info.batches)]
        for offset, length in (*bodies, (self._info.file_bytes, 0)):
            for start in range(position, offset, _PIECE_BYTES):  # of any length, in a file with holes
                digest.update(self._read(start, min(_PIECE_BYTES, offset - start)))
            position = offset + length
        if digest.digest() != self._info.nonbody_sha256:
            raise self._corrupt("its schema, batch metadata or footer has changed since it was packed")

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

    def _trusted(self, batch: BatchInfo) -> Body:
        """Return the body of a record batch whose message was read and checked."""
        data = self._read(batch.offset, batch.metadata_bytes)
        if hashlib.sha256(data).digest() != batch.metadata_sha256:
            raise self._corrupt(f"the metadata of record batch {batch.number} has changed since it was packed")
        try:
            message = BatchMessage(data)
            fault = self._fault(message, batch)
            if fault is not None:
                raise self._corrupt(f"record batch {batch.number} contradicts its shard table: {fault}", _NO_COPY)
            return Body(
                self._map,
                batch.body_offset,
                message.body_bytes,
                message.rows,
                decode_base64(message.metadata[SUMS_KEY]),
                message.buffers,
                self._remember,
            )
        except (ValueError, KeyError) as error:
            raise self._corrupt(f"record batch {batch.number} has unreadable metadata: {error}") from error

    def _read(self, offset: int, length: int) -> bytes:
        data = self._map.read(offset, length)
        if data is None:
            raise self._corrupt(_FAILURES[READ_FAULT])
        return data

    def _fault(self, message: BatchMessage, batch: BatchInfo) -> str | None:
        """Say in what the message contradicts the shard table or the schema, or None."""
        if len(message.buffers) != self._shape.buffers:
            return f"{len(message.buffers)} buffers, its schema has {self._shape.buffers}"
        if message.rows != batch.rows:
            return f"{message.rows} rows, its shard table says {batch.rows}"
        if message.body_bytes != batch.body_bytes:
            return f"a body of {message.body_bytes} bytes, its shard table says {batch.body_bytes}"
        head_bytes = self._shape.head_bytes(message.buffers, message.body_bytes)
        if head_bytes != batch.head_bytes:
            return f"a head of {head_bytes} bytes, its shard table says {batch.head_bytes}"
        tokens = self._shape.token_count(message.buffers)
        if tokens != batch.tokens:
            return f"{tokens} tokens, its shard table says {batch.tokens}"
        in_head = self._shape.buffers if self._shape.head is None else self._shape.head
        return message.places_fault(self._shape.empty, in_head, head_bytes)

    def _corrupt(self, what: str, advice: str = _COPY) -> CorruptShardError:
        return CorruptShardError(f"shard {self.path}: {what}. {advice}", shard=self.path)
