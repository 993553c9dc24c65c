"""Write one shard: rows -> record batches -> an Arrow IPC file with chunk sums, and its line of a shard table."""

from __future__ import annotations

import base64
import hashlib
import io
import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.shards.message import BatchMessage
from toolkit._native.shards.sums import ChunkSums
from toolkit.errors import SourceError
from toolkit.format.arrays import to_array
from toolkit.format.compact import compact_batch
from toolkit.format.digest import sample_digests
from toolkit.format.layout import batch_shape
from toolkit.format.schema import DIGEST, DIGEST_BYTES, KEY, columns_of
from toolkit.format.sizes import MOST_EMPTY_ITEMS, empty_items, padding_bytes, row_bytes
from toolkit.storage.store import NewObject

__all__ = ["BATCH_BODY_BYTES", "SUMS_KEY", "BatchPlace", "ShardRecord", "ShardWriter"]

BATCH_BODY_BYTES = 16 * 1024 * 1024
SUMS_KEY = "toolkit.crc32c"
_OPTIONS = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V5, compression=None, use_threads=False)


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """A record batch in a shard: where its message starts, bytes of metadata, body and its head; what it holds."""

    offset: int
    metadata_bytes: int
    head_bytes: int
    body_bytes: int
    rows: int
    tokens: int
    metadata_sha256: bytes


@dataclass(frozen=True, slots=True)
class ShardRecord:
    """A shard's line in a shard table. `path` is inside the dataset."""

    path: str
    rows: int
    file_bytes: int
    sha256: bytes
    nonbody_sha256: bytes
    batches: tuple[BatchPlace, ...]

    @property
    def tokens(self) -> int:
        """Tokens of the shard."""
        return sum(batch.tokens for batch in self.batches)


class ShardWriter:
    """Writes rows to one new object. Owns it until close(); the caller publishes it.

    Record batches are cut greedily by row, whatever pieces the rows come in: a row that would take the body over 16 MiB
    opens the next batch.
    """

    def __init__(self, file: NewObject, schema: pa.Schema, *, batch_body_bytes: int = BATCH_BODY_BYTES) -> None:
        """Write nothing yet. `schema` is the shard's own, with __digest__, which the writer fills."""
        self._schema = schema
        self._batch_limit = batch_body_bytes - padding_bytes(schema)
        self._pending: list[pa.RecordBatch] = []
        self._pending_bytes = 0
        self._rows = 0
        self._shape = batch_shape(schema, columns_of(schema))
        self._batches: list[BatchPlace] = []
        self._names = [name for name in schema.names if name != DIGEST]
        self._file = file
        self._summer = _BodySummer(schema)
        self._sink = _HashingSink(self._file)
        self._writer = pa.ipc.new_file(pa.PythonFile(self._sink, mode="w"), schema, options=_OPTIONS)

    @property
    def rows(self) -> int:
        """Rows added so far."""
        return self._rows

    def write(self, rows: pa.RecordBatch, sizes: NDArray[np.int64] | None = None) -> None:
        """Append rows: every column of the schema but __digest__, in its order. `sizes`: row_bytes(rows), if known.

        All rows may bring digests too, where theirs are not of what is stored: of values that lie elsewhere.
        """
        start = total = 0
        for i, size in enumerate((row_bytes(rows) if sizes is None else sizes).tolist()):
            if self._pending_bytes + total + size > self._batch_limit and (self._pending or i > start):
                self._keep(rows.slice(start, i - start), total)
                self._flush()
                start, total = i, 0
            total += size
        self._keep(rows.slice(start), total)
        self._rows += rows.num_rows

    def close(self) -> ShardRecord:
        """Write what is left, the footer, and fsync; return the record, its path still empty."""
        self._flush()
        self._writer.close()
        digest = self._file.close()
        return ShardRecord(
            path="",
            rows=self._rows,
            file_bytes=self._sink.position,
            sha256=digest,
            nonbody_sha256=self._sink.nonbody.digest(),
            batches=tuple(self._batches),
        )

    def abort(self) -> None:
        """Close and remove the unfinished file. Does nothing after close()."""
        self._sink.discard()
        self._file.abort()

    def _keep(self, rows: pa.RecordBatch, size: int) -> None:
        if rows.num_rows:
            self._pending.append(rows)
            self._pending_bytes += size

    def _flush(self) -> None:
        if not self._pending:
            return
        rows = compact_batch(self._pending[0] if len(self._pending) == 1 else pa.concat_batches(self._pending))
        for field, column in zip(rows.schema, rows.columns, strict=True):
            if rows.num_rows == 1 and empty_items(column) > MOST_EMPTY_ITEMS:  # several rows are cut before
                key = rows.column(KEY)[0].as_py()
                raise SourceError(
                    f"the sample {key!r} has {empty_items(column):,} items that take no bytes, in column "
                    f"{field.name!r}: at most {MOST_EMPTY_ITEMS:,} can be stored: leave the column or the sample out"
                )
        arrays = {field.name: column for field, column in zip(rows.schema, rows.columns, strict=True)}
        if DIGEST not in arrays:
            arrays[DIGEST] = to_array(sample_digests(rows.select(self._names)), pa.binary(DIGEST_BYTES))
        batch = pa.RecordBatch.from_arrays([arrays[name] for name in self._schema.names], schema=self._schema)
        sums = base64.b64encode(self._summer.sums(batch)).decode()
        self._sink.begin_batch()
        self._writer.write_batch(batch, custom_metadata={SUMS_KEY: sums})
        self._sink.end_batch()
        self._batches.append(self._place(batch.num_rows))
        self._pending = []
        self._pending_bytes = 0

    def _place(self, rows: int) -> BatchPlace:
        """Return the place of the record batch that was written last."""
        sink = self._sink
        message = sink.message
        buffers = BatchMessage(message).buffers
        return BatchPlace(
            offset=sink.message_start,
            metadata_bytes=len(message),
            head_bytes=self._shape.head_bytes(buffers, sink.body_bytes),
            body_bytes=sink.body_bytes,
            rows=rows,
            tokens=self._shape.token_count(buffers),
            metadata_sha256=hashlib.sha256(message).digest(),
        )


class _MessageSink(io.RawIOBase):
    """A sink that tells a record batch's body from everything else that pyarrow writes.

    The writers are lazy: the first batch brings the file's magic and the schema message with it. A message is the
    marker 0xFFFFFFFF, an int32 length, that many bytes of metadata, and, for a batch, the body.
    """

    def __init__(self, magic_bytes: int) -> None:
        super().__init__()
        self.position = 0
        self.message_start = 0
        self.body_bytes = 0
        self._lead = magic_bytes
        self._messages = 2  # the schema's, then the first batch's
        self._prefix = bytearray()
        self._metadata_left = 0
        self._in_batch = False

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.position

    def begin_batch(self) -> None:
        """What is written next is a record batch message, with the schema in front if it is the first."""
        self._in_batch, self.body_bytes = True, 0

    def end_batch(self) -> None:
        """The body is complete; what follows is another batch or the footer."""
        self._in_batch, self._messages = False, 1

    def write(self, data: object) -> int:
        """Take what pyarrow writes; hand it on as body or not."""
        view = memoryview(data).cast("B")  # type: ignore[arg-type]
        size = view.nbytes
        front = self._nonbody_part(view) if self._in_batch else size
        if front:
            self.on_nonbody(view[:front])
        if front < size:
            self.on_body(view[front:])
            self.body_bytes += size - front
        self.position += size
        return size

    def _nonbody_part(self, view: memoryview) -> int:
        """Return how many leading bytes of `view` come before the body."""
        taken = 0
        while taken < view.nbytes and (self._lead or self._metadata_left or self._messages):
            if self._lead:
                step = min(self._lead, view.nbytes - taken)
                self._lead -= step
            elif self._metadata_left:
                step = min(self._metadata_left, view.nbytes - taken)
                self._metadata_left -= step
            else:
                if not self._prefix:
                    self.message_start = self.position + taken
                step = min(8 - len(self._prefix), view.nbytes - taken)
                self._prefix += view[taken : taken + step]
                if len(self._prefix) == 8:
                    self._metadata_left = struct.unpack("<Ii", self._prefix)[1]
                    self._prefix.clear()
                    self._messages -= 1
            taken += step
        return taken

    def on_body(self, view: memoryview) -> None:
        """Take a piece of a body."""
        raise NotImplementedError

    def on_nonbody(self, view: memoryview) -> None:
        """Take a piece of anything else."""


class _SummingSink(_MessageSink):
    """Sums body chunks and keeps nothing."""

    def __init__(self) -> None:
        super().__init__(magic_bytes=0)
        self.sums = ChunkSums()

    def on_body(self, view: memoryview) -> None:
        self.sums.update(view)


class _BodySummer:
    """Sums the body that a batch is going to have, by writing it to nowhere: the sums must stand in front of it."""

    def __init__(self, schema: pa.Schema) -> None:
        self._sink = _SummingSink()
        self._writer = pa.ipc.new_stream(pa.PythonFile(self._sink, mode="w"), schema, options=_OPTIONS)

    def sums(self, batch: pa.RecordBatch) -> bytes:
        """Return the CRC32C of each chunk as little-endian uint32."""
        self._sink.sums = ChunkSums()
        self._sink.begin_batch()
        self._writer.write_batch(batch)
        self._sink.end_batch()
        return self._sink.sums.digest()


class _HashingSink(_MessageSink):
    """Writes through to a file, hashing everything but bodies."""

    def __init__(self, file: NewObject) -> None:
        super().__init__(magic_bytes=8)
        self.nonbody = hashlib.sha256()
        self._file = file
        self._front = bytearray()  # what was written since the last body
        self._discarding = False

    @property
    def message(self) -> bytes:
        """The message of the record batch that was written last."""
        return bytes(self._front[self.message_start - self.position + self.body_bytes :])

    def begin_batch(self) -> None:
        """What is written next is a record batch message, with the schema in front if it is the first."""
        super().begin_batch()
        self._front.clear()

    def discard(self) -> None:
        """Take no further bytes."""
        self._discarding = True

    def on_body(self, view: memoryview) -> None:
        self._put(view)

    def on_nonbody(self, view: memoryview) -> None:
        self.nonbody.update(view)
        self._front += view
        self._put(view)

    def _put(self, view: memoryview) -> None:
        if not self._discarding:
            self._file.write(view)
