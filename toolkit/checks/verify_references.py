"""Check what references lead to: that each file is there and large enough, or that it has the bytes it should have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.shards.body import READ_NULL, READ_OK
from toolkit.format.arrays import bool_array, valid_rows
from toolkit.format.layout import leaf_name
from toolkit.format.references import UNHASHED
from toolkit.format.schema import DIGEST, KEY, stored_order
from toolkit.loader.api import Dataset
from toolkit.loader.dataset.located import Located
from toolkit.loader.dataset.referenced import References
from toolkit.pipelines.media import held_medium, medium_of

__all__ = ["PackedRows", "ReferenceChecks"]

_PIECE_BYTES = 16 * 1024 * 1024  # of values that are in memory at a time
_PIECE_ROWS = 4096
_MOST_NAMED = 10_000  # of each split; of a folder that is gone there may be millions


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Some rows as a pack would store them.

    Attributes:
        start: Their first row in the record batch.
        records: The rows: columns in the order of a packed shard, the digest, then derived columns.
        faults: Row in `records` -> why its value can't be trusted; it is empty there. None for those that are counted
            alone.
    """

    start: int
    records: pa.RecordBatch
    faults: dict[int, str | None] = field(default_factory=dict)


class ReferenceChecks:
    """The columns of references of a split. Its methods are for any thread.

    Attributes:
        columns: Their names.
        is_hashed: Whether there are sums and digests to check bytes by.
        more: How many faults have no words, since so many have.
    """

    def __init__(self, dataset: Dataset, references: References) -> None:
        """`references` are those of the split."""
        part = dataset.stored.parts[0]
        self._references = references
        self._lock = threading.Lock()
        self._left = _MOST_NAMED
        self.more = 0
        self._fetcher = dataset.fetcher
        self.columns = references.columns
        self.is_hashed = UNHASHED not in part.version.manifest.requires
        media = {one.name: medium_of(one.kind) for one in dataset.manifest.columns}
        types = {one.name: dataset.schema.field(one.name).type for one in dataset.manifest.columns}
        self._types = {name: medium.stored.source_form.type for name, medium in media.items() if medium is not None}
        self._types = {name: self._types[name] for name in self.columns}
        self._payloads = {
            name: leaf_name(name, held.form.payload)
            for one in dataset.manifest.columns
            if (name := one.name) in self.columns and (held := held_medium(one.kind, types[name])) is not None
        }
        fixed, texts, large = stored_order(dataset.manifest.columns, {**types, **self._types})
        self._order = [KEY, *fixed, *texts, *large, DIGEST, *(one.name for one in dataset.manifest.derived)]

    def look(self, first: int, rows: int) -> Iterator[tuple[int, str | None]]:
        """Yield each row, from `first` on, whose file can't be the one that was indexed, and why. No value is read.

        Raises:
            UsageError, NotFoundError: A root may not be followed, or isn't there.
        """
        for start in range(first, first + rows, _PIECE_ROWS):
            located = self._fetcher.locate(np.arange(start, min(first + rows, start + _PIECE_ROWS)))
            for name in self.columns:
                statuses, chunks = self._references.look(self._fetcher, self._payloads[name], located)
                yield from self._faults(name, located, statuses, chunks)

    def packed(self, records: pa.RecordBatch, first: int) -> Iterator[PackedRows]:
        """Yield the rows of a record batch, whose first row is `first`, with the values that they refer to.

        Raises as look().
        """
        lengths = np.zeros(records.num_rows, np.int64)
        for name in self.columns:
            column = records.column(name)
            lengths += np.where(valid_rows(column), column.field("length").fill_null(0).to_numpy(), 0)
        start = 0
        while start < records.num_rows:
            held = np.cumsum(np.clip(lengths[start : start + _PIECE_ROWS], 0, _PIECE_BYTES))
            count = max(1, int(np.searchsorted(held, _PIECE_BYTES, side="right")))
            yield self._read(records.slice(start, count), first + start, start)
            start += count

    def _read(self, records: pa.RecordBatch, first: int, start: int) -> PackedRows:
        arrays = dict(zip(records.schema.names, records.columns, strict=True))
        located = self._fetcher.locate(np.arange(first, first + records.num_rows))
        faults: dict[int, str | None] = {}
        for name in self.columns:
            values, statuses, chunks = self._references.take(self._fetcher, self._payloads[name], located)
            faults.update((row - first, what) for row, what in self._faults(name, located, statuses, chunks))
            column, dtype = records.column(name), self._types[name]
            there = valid_rows(column)
            data = pa.array(
                [b"" if value is None and there[i] else value for i, value in enumerate(values)], pa.binary()
            )
            children = [data, column.field("name")]
            mask = None if there.all() else bool_array(~there)
            arrays[name] = pa.StructArray.from_arrays(children, fields=list(dtype), mask=mask)
        packed = pa.RecordBatch.from_arrays([arrays[name] for name in self._order], names=self._order)
        return PackedRows(start, packed, faults)

    def _faults(
        self, name: str, located: Located, statuses: NDArray[np.int32], chunks: NDArray[np.int64]
    ) -> Iterator[tuple[int, str | None]]:
        for i in np.flatnonzero((statuses != READ_OK) & (statuses != READ_NULL)).tolist():
            row = int(located.rows[i])
            with self._lock:
                is_named = self._left > 0
                self._left -= is_named
                self.more += not is_named
            if not is_named:
                yield row, None
                continue
            yield row, str(self._fetcher.corrupt(row, self._payloads[name], int(statuses[i]), int(chunks[i])))
