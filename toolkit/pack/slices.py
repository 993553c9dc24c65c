"""Pack one slice: its rows become shards of its own, published under their hashes, and one entry of the journal."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Protocol, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.key_hashes import KeyHashes, mapped_hashes
from toolkit.format.schema import KEY
from toolkit.format.shard import ShardRecord, ShardWriter
from toolkit.format.sizes import row_bytes
from toolkit.format.tables import encode_schema_table, sha256
from toolkit.pack.ahead import read_ahead
from toolkit.pack.derive import STATS, Finisher
from toolkit.pack.journal import Journal, SliceResult
from toolkit.pack.renames import Renames
from toolkit.sources.base import Rows, Slice, Survey
from toolkit.sources.reject import Reject
from toolkit.storage.store import NewObject

__all__ = ["Cancelled", "OpenSlice", "ShardFolder", "SlicePacker", "SliceRows", "fingerprint"]


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

    def write_stats(self, shard: str, data: bytes) -> None:
        """Write what lies beside the shard that is going to have that name."""

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
        reads_ahead: Each slice's next piece is read on another thread: where there are more threads than slices.
    """

    def __init__(
        self,
        source: SliceRows,
        schema: pa.Schema,
        folder: ShardFolder,
        journal: Journal,
        shard_bytes: int,
        finisher: Finisher,
    ) -> None:
        self._source = source
        self._finisher = finisher
        self._schema = schema
        self._schema_hash = sha256(encode_schema_table(schema))
        self._folder = folder
        self._journal = journal
        self._shard_bytes = shard_bytes
        self.cancelled = threading.Event()
        self.on_read: Callable[[int, int], None] = lambda rows, nbytes: None
        self.renames: Mapping[tuple[str, int], Renames] | None = None
        self.reads_ahead = False

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
        pieces = self._source.rows(part)
        with self.begin(part.split, part.number) as open_slice, contextlib.ExitStack() as reading:
            if self.reads_ahead:
                pieces = reading.enter_context(contextlib.closing(read_ahead(pieces)))
            for rows in pieces:
                if self.cancelled.is_set():
                    raise Cancelled
                finish = functools.partial(self._finisher.finished, places=rows.places)
                open_slice.add(rows.batch, rows.rejects, finish=finish)
                self.on_read(rows.batch.num_rows + len(rows.rejects), rows.read_bytes)
            return open_slice.finish(part)

    def begin(self, split: str, number: int) -> OpenSlice:
        """Begin a slice whose rows are brought, rather than read."""
        labels = tuple(self._source.survey.counted)
        shards = _RollingShards(self._folder, f"{split}-{number:06d}", self._schema, self._shard_bytes)
        renames = (self.renames or {}).get((split, number))
        return OpenSlice(shards, self._folder, self._journal, labels, self._schema_hash, renames)

    def _renames_of(self, part: Slice) -> Renames | None:
        return (self.renames or {}).get((part.split, part.number))


class OpenSlice:
    """A slice that is being packed. Leaving the block removes what wasn't published. For one thread."""

    def __init__(
        self,
        shards: _RollingShards,
        folder: ShardFolder,
        journal: Journal,
        labels: Sequence[str],
        schema_hash: str,
        renames: Renames | None,
    ) -> None:
        """`labels` are the label columns."""
        self._shards = shards
        self._folder = folder
        self._journal = journal
        self._schema_hash = schema_hash
        self._renames = renames
        self._hashes = KeyHashes(journal.folder)
        self._rejects: list[Reject] = []
        self._labels: dict[str, Counter[int | None]] = {name: Counter() for name in labels}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.abort()

    def add(
        self,
        rows: pa.RecordBatch,
        rejects: Sequence[Reject] = (),
        sizes: NDArray[np.int64] | None = None,
        finish: Callable[[pa.RecordBatch], pa.RecordBatch] = lambda rows: rows,
    ) -> None:
        """Add rows, and samples that were left out.

        Args:
            rows: With their derived columns, or what `finish` makes into that.
            rejects: The others.
            sizes: row_bytes(rows), if known.
            finish: Called with the rows when they have their own keys.

        Raises:
            StorageError: A shard can't be written.
        """
        self._rejects += rejects
        renamed = rows if self._renames is None else self._renames.apply(rows, self._hashes.rows)
        stored = finish(renamed)
        self._shards.write(stored, sizes if stored is rows else None)
        for name, counter in self._labels.items():
            counter.update(rows.column(name).to_pylist())
        self._hashes.add(rows.column(KEY).to_pylist())

    def reject(self, reject: Reject) -> None:
        """Note a sample that is left out."""
        self._rejects.append(reject)

    def finish(self, part: Slice) -> SliceResult:
        """Publish the shards and write the journal entry of `part`, which the slice is; return what it came to.

        Raises:
            SourceError: With renames: the slice no longer has the keys that they were found from.
            StorageError: The disk fails.
        """
        if self._renames is not None:
            self._check_keys(part)
        records = self._shards.finish()
        self._folder.sync_shards()
        result = SliceResult(
            split=part.split,
            number=part.number,
            source=part.source,
            fingerprint=fingerprint(part, self._schema_hash),
            rows=sum(record.rows for record in records),
            records=tuple(records),
            labels={name: tuple(counter.items()) for name, counter in self._labels.items()},
            rejects=tuple(self._rejects),
            renames="" if self._renames is None else self._renames.digest,
            renamed=0 if self._renames is None else len(self._renames.rows),
        )
        self._journal.record(result, self._hashes.mapped())
        return result

    def abort(self) -> None:
        """Remove what isn't published. Does nothing more behind finish()."""
        self._shards.abort()
        self._hashes.__exit__(None, None, None)

    def _check_keys(self, part: Slice) -> None:
        before = mapped_hashes(self._journal.keys_path(part.split, part.number))
        if not np.array_equal(before, self._hashes.numbers()):
            raise SourceError(f"{part.source or 'the input'} changed during the pack: run it again")


class _RollingShards:
    """Writes rows to shards, opening the next one where a row would take the present one over its size."""

    def __init__(self, folder: ShardFolder, name: str, schema: pa.Schema, shard_bytes: int) -> None:
        self._folder = folder
        self._name = name  # of the slice
        self._schema = schema
        self._limit = shard_bytes
        self._used = 0
        self._shard: NewObject | None = None
        self._writer: ShardWriter | None = None
        self._records: list[ShardRecord] = []
        self._stats = bytearray()  # of the present shard

    def write(self, rows: pa.RecordBatch, sizes: NDArray[np.int64] | None = None) -> None:
        stats = None
        if STATS in rows.schema.names:
            stats, rows = rows.column(STATS), rows.drop_columns([STATS])
        sizes = row_bytes(rows) if sizes is None else sizes
        start = 0
        while start < rows.num_rows:
            ends = self._used + np.cumsum(sizes[start:])
            fit = int(np.searchsorted(ends, self._limit, side="right"))
            if fit == 0 and self._used == 0:
                fit = 1  # a row bigger than a shard gets one of its own
            if fit:
                self._open().write(rows.slice(start, fit), sizes[start : start + fit])
                if stats is not None:
                    self._stats += _fixed_bytes(stats.slice(start, fit))
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
            self._shard = self._folder.new_shard(f"{self._name}-{len(self._records)}")
            self._writer = ShardWriter(self._shard, self._schema)
        return self._writer

    def _close(self) -> None:
        if self._shard is None or self._writer is None:
            return
        record = self._writer.close()
        name = f"{self._name}-{record.sha256.hex()[:16]}.arrow"
        if self._stats:
            self._folder.write_stats(name, bytes(self._stats))
            self._stats.clear()
        path = self._folder.publish_shard(self._shard, name)
        self._records.append(replace(record, path=path))
        self._writer, self._used = None, 0


def _fixed_bytes(array: pa.Array) -> memoryview:
    """Return what the rows of a column of a fixed width hold, one behind another."""
    width = array.type.byte_width
    return memoryview(array.buffers()[1])[array.offset * width : (array.offset + len(array)) * width]
