"""Pack one slice: its rows become shards of its own, published under their hashes, and one line in the journal."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Protocol

import numpy as np
import pyarrow as pa

from toolkit.errors import SourceError
from toolkit.format.key_hashes import KeyHashes, mapped_hashes
from toolkit.format.schema import KEY
from toolkit.format.shard import ShardRecord, ShardWriter
from toolkit.format.sizes import row_bytes
from toolkit.format.tables import encode_schema_table, sha256
from toolkit.pack.derive import Deriver
from toolkit.pack.journal import Journal, SliceResult
from toolkit.pack.renames import Renames
from toolkit.sources.base import Rows, Slice, Survey
from toolkit.sources.reject import Reject
from toolkit.storage.store import NewObject

__all__ = ["Cancelled", "ShardFolder", "SlicePacker", "SliceRows", "fingerprint"]


class Cancelled(Exception):  # noqa: N818 - not an error: another slice failed, or the user said stop
    """The pack is stopping; what this slice had not finished was removed."""


class SliceRows(Protocol):
    """What slices are packed from: a source's rows, shaped; or the rows that a first pass staged."""

    @property
    def survey(self) -> Survey:
        """The slices, and what their rows are."""

    def rows(self, part: Slice) -> Iterator[Rows]:
        """Yield the rows of a slice in pieces of some MiB. Called from several threads, each with its own slice."""


class ShardFolder(Protocol):
    """Where shards are written and get their names: a Transaction, or the stage of a first pass."""

    def new_shard(self, name: str) -> NewObject:
        """Begin a shard whose hash, and so its name, isn't known yet; `name` is unique among those being written."""

    def publish_shard(self, shard: NewObject, name: str) -> str:
        """Give a finished shard its name; return its path inside the dataset."""

    def sync_shards(self) -> None:
        """Make the names of the shards durable."""


def fingerprint(part: Slice, schema_hash: str) -> str:
    """Return a hash of the slice as it was listed (files, sizes, times) and of the schema."""
    return sha256(repr((part.split, part.number, part.samples, part.bytes, part.payload, schema_hash)).encode())


class SlicePacker:
    """Packs slices of one survey. Its pack() runs on several threads, each with its own slice.

    Attributes:
        cancelled: Set it, and running slices stop.
        on_read: Called with (samples, bytes read) as slices go on.
        renames: New keys, by split and number of the slice; None while they aren't known.
    """

    def __init__(
        self,
        source: SliceRows,
        schema: pa.Schema,
        folder: ShardFolder,
        journal: Journal,
        shard_bytes: int,
        deriver: Deriver,
    ) -> None:
        self._source = source
        self._deriver = deriver
        self._schema = schema
        self._schema_hash = sha256(encode_schema_table(schema))
        self._folder = folder
        self._journal = journal
        self._shard_bytes = shard_bytes
        self.cancelled = threading.Event()
        self.on_read: Callable[[int, int], None] = lambda rows, nbytes: None
        self.renames: Mapping[tuple[str, int], Renames] | None = None

    def is_done(self, part: Slice, entry: SliceResult) -> bool:
        """Tell whether a journal entry is of this slice as it is now."""
        if entry.fingerprint != fingerprint(part, self._schema_hash):
            return False
        mine = self._renames_of(part)
        return self.renames is None or entry.renames == ("" if mine is None else mine.digest)

    def pack(self, part: Slice) -> SliceResult:
        """Write the slice's shards and its journal entry; return what it came to.

        Raises:
            SourceError: With renames: the slice no longer has the keys that they were found from.
            StorageError: A shard can't be written, or the source's disk fails.
            Cancelled: The pack is stopping.
        """
        with KeyHashes(self._journal.folder) as hashes:
            result = self._written(part, hashes)
            self._journal.record(result, hashes.mapped())
        return result

    def _written(self, part: Slice, hashes: KeyHashes) -> SliceResult:
        """Publish the slice's shards; add its keys, as the source has them, to `hashes`."""
        renames = self._renames_of(part)
        shards = _RollingShards(self._folder, part, self._schema, self._shard_bytes)
        rejects: list[Reject] = []
        labels: dict[str, Counter[int | None]] = {name: Counter() for name in self._source.survey.counted}
        try:
            for rows in self._source.rows(part):
                if self.cancelled.is_set():
                    raise Cancelled
                rejects += rows.rejects
                batch = rows.batch if renames is None else renames.apply(rows.batch, hashes.rows)
                shards.write(self._deriver.added(batch))
                for name, counter in labels.items():
                    counter.update(rows.batch.column(name).to_pylist())
                hashes.add(rows.batch.column(KEY).to_pylist())
                self.on_read(rows.batch.num_rows + len(rows.rejects), rows.read_bytes)
            if renames is not None:
                self._check_keys(part, hashes)
            records = shards.finish()
        except BaseException:
            shards.abort()
            raise
        self._folder.sync_shards()
        return SliceResult(
            split=part.split,
            number=part.number,
            source=part.source,
            fingerprint=fingerprint(part, self._schema_hash),
            rows=sum(record.rows for record in records),
            records=tuple(records),
            labels={name: tuple(counter.items()) for name, counter in labels.items()},
            rejects=tuple(rejects),
            renames="" if renames is None else renames.digest,
            renamed=0 if renames is None else len(renames.rows),
        )

    def _renames_of(self, part: Slice) -> Renames | None:
        return (self.renames or {}).get((part.split, part.number))

    def _check_keys(self, part: Slice, hashes: KeyHashes) -> None:
        before = mapped_hashes(self._journal.keys_path(part.split, part.number))
        if not np.array_equal(before, hashes.numbers()):
            raise SourceError(f"{part.source or 'the input'} changed during the pack: run it again")


class _RollingShards:
    """Writes rows to shards, opening the next one where a row would take the present one over its size."""

    def __init__(self, folder: ShardFolder, part: Slice, schema: pa.Schema, shard_bytes: int) -> None:
        self._folder = folder
        self._part = part
        self._schema = schema
        self._limit = shard_bytes
        self._used = 0
        self._shard: NewObject | None = None
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
            self._shard = self._folder.new_shard(name)
            self._writer = ShardWriter(self._shard, self._schema)
        return self._writer

    def _close(self) -> None:
        if self._shard is None or self._writer is None:
            return
        record = self._writer.close()
        name = f"{self._part.split}-{self._part.number:06d}-{record.sha256.hex()[:16]}.arrow"
        path = self._folder.publish_shard(self._shard, name)
        self._records.append(replace(record, path=path))
        self._writer, self._used = None, 0
