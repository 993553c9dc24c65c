"""Pack one slice: its rows become shards of its own, published under their hashes, and one line in the journal."""

from __future__ import annotations

import contextlib
import mmap
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
import xxhash

from toolkit.format.commit import Transaction
from toolkit.format.schema import KEY
from toolkit.format.shard import ShardRecord, ShardWriter
from toolkit.format.sizes import row_bytes
from toolkit.format.tables import encode_schema_table, sha256
from toolkit.pack.journal import Journal, SliceResult
from toolkit.pack.shape import Shaper
from toolkit.sources.base import Slice
from toolkit.sources.reject import Reject
from toolkit.storage.local import storage_errors

__all__ = ["Cancelled", "SlicePacker"]


class Cancelled(Exception):  # noqa: N818 - not an error: another slice failed, or the user said stop
    """The pack is stopping; what this slice had not finished was removed."""


class SlicePacker:
    """Packs slices of one survey, shaped. Its pack() runs on several threads, each with its own slice.

    Attributes:
        cancelled: Set it, and running slices stop.
        on_read: Called with (samples, bytes read) as slices go on.
    """

    def __init__(
        self,
        shaper: Shaper,
        schema: pa.Schema,
        transaction: Transaction,
        journal: Journal,
        shard_bytes: int,
    ) -> None:
        self._shaper = shaper
        self._schema = schema
        self._transaction = transaction
        self._journal = journal
        self._shard_bytes = shard_bytes
        self._schema_hash = sha256(encode_schema_table(schema))
        self.cancelled = threading.Event()
        self.on_read: Callable[[int, int], None] = lambda rows, nbytes: None

    def fingerprint(self, part: Slice) -> str:
        """Return a hash of the slice as it was listed (files, sizes, times) and of the schema."""
        return sha256(
            repr((part.split, part.number, part.samples, part.bytes, part.payload, self._schema_hash)).encode()
        )

    def pack(self, part: Slice) -> SliceResult:
        """Write the slice's shards and its journal entry; return what it came to.

        Raises:
            StorageError: A shard can't be written, or the source's disk fails.
            Cancelled: The pack is stopping.
        """
        with _KeyHashes(self._journal.folder) as hashes:
            result = self._written(part, hashes)
            with hashes.mapped() as data:
                self._journal.record(result, data)
        return result

    def _written(self, part: Slice, hashes: _KeyHashes) -> SliceResult:
        """Publish the slice's shards; add its keys to `hashes`."""
        shards = _RollingShards(self._transaction, part, self._schema, self._shard_bytes)
        rejects: list[Reject] = []
        labels: dict[str, Counter[int | None]] = {name: Counter() for name in self._shaper.survey.classes}
        try:
            for rows in self._shaper.rows(part):
                if self.cancelled.is_set():
                    raise Cancelled
                rejects += rows.rejects
                shards.write(rows.batch)
                for name, counter in labels.items():
                    counter.update(rows.batch.column(name).to_pylist())
                hashes.add(rows.batch.column(KEY).to_pylist())
                self.on_read(rows.batch.num_rows + len(rows.rejects), rows.read_bytes)
            records = shards.finish()
        except BaseException:
            shards.abort()
            raise
        self._transaction.sync_shards()
        return SliceResult(
            split=part.split,
            number=part.number,
            source=part.source,
            fingerprint=self.fingerprint(part),
            rows=sum(record.rows for record in records),
            records=tuple(records),
            labels={name: tuple(counter.items()) for name, counter in labels.items()},
            rejects=tuple(rejects),
        )


class _KeyHashes:
    """A 128-bit hash of each key of a slice, in a file: millions of tiny rows have more than belongs into memory."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._bytes = 0
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

    def add(self, keys: list[str]) -> None:
        with storage_errors("write", self._folder):
            self._bytes += self._file.write(b"".join(xxhash.xxh3_128_digest(key.encode()) for key in keys))

    @contextlib.contextmanager
    def mapped(self) -> Iterator[bytes | mmap.mmap]:
        """Give all hashes, not read into memory."""
        with storage_errors("write", self._folder):
            self._file.flush()
        if not self._bytes:  # nothing can't be mapped
            yield b""
            return
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield data


class _RollingShards:
    """Writes rows to shards, opening the next one where a row would take the present one over its size."""

    def __init__(self, transaction: Transaction, part: Slice, schema: pa.Schema, shard_bytes: int) -> None:
        self._transaction = transaction
        self._part = part
        self._schema = schema
        self._limit = shard_bytes
        self._used = 0
        self._writer: ShardWriter | None = None
        self._records: list[ShardRecord] = []

    def write(self, rows: pa.RecordBatch) -> None:
        sizes = row_bytes(rows)
        start = 0
        while start < rows.num_rows:
            ends = self._used + np.cumsum(sizes[start:])
            fit = int(np.searchsorted(ends, self._limit, side="right"))
            if fit == 0 and self._used == 0:
                fit = 1  # a row bigger than a shard gets one of its own
            if fit:
                self._open().write(rows.slice(start, fit), sizes[start : start + fit])
                self._used = int(ends[fit - 1])
                start += fit
            if start < rows.num_rows:
                self._close()

    def finish(self) -> list[ShardRecord]:
        self._close()
        return self._records

    def abort(self) -> None:
        if self._writer is not None:
            self._writer.abort()

    def _open(self) -> ShardWriter:
        if self._writer is None:
            name = f"{self._part.split}-{self._part.number:06d}-{len(self._records)}"
            self._writer = ShardWriter(self._transaction.shard_temporary(name), self._schema)
        return self._writer

    def _close(self) -> None:
        if self._writer is None:
            return
        record = self._writer.close()
        name = f"{self._part.split}-{self._part.number:06d}-{record.sha256.hex()[:16]}.arrow"
        path = self._transaction.publish_shard(self._writer.path, name)
        self._records.append(replace(record, path=path))
        self._writer, self._used = None, 0
