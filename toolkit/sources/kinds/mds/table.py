"""An MDS shard as a table: its columns, and batches of its samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from toolkit.format.arrays import to_array
from toolkit.sources.base import LARGEST_VALUE, PIECE_BYTES, ROW_OVERHEAD_BYTES
from toolkit.sources.files import InputFile
from toolkit.sources.kinds.mds.encodings import Encoding
from toolkit.sources.kinds.mds.shards import ShardReader
from toolkit.sources.names import printable
from toolkit.sources.tables.table import FAULT, Table, TableFacts

__all__ = ["MDSTable"]

_MOST_ROWS = 4096


class MDSTable(Table):
    """The samples of a shard."""

    def __init__(self, file: InputFile, reader: ShardReader, encodings: Mapping[str, Encoding], most: int) -> None:
        """Read nothing.

        Args:
            file: What the shard is called, whatever its samples are read from.
            reader: Reads it.
            encodings: Its columns by name, without those that can't be read.
            most: Bytes of a value at the most.
        """
        self.file = file
        self._reader = reader
        self._encodings = dict(encodings)
        self._most = min(most, LARGEST_VALUE)
        self.schema = pa.schema([pa.field(name, encoding.type) for name, encoding in encodings.items()])
        kinds = {name: encoding.kind for name, encoding in encodings.items() if encoding.kind is not None}
        self.facts = TableFacts(kinds=kinds)
        self.pieces = tuple(_pieces(reader))

    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the samples of the pieces."""
        shard = self._reader.shard
        numbers = {name: number for number, (name, *_) in enumerate(shard.columns)}
        wanted = sorted(fields, key=numbers.__getitem__)
        start = sum(rows for rows, _ in self.pieces[:first])
        rows = sum(rows for rows, _ in self.pieces[first : first + count])
        samples: list[tuple[Sequence[memoryview], str]] = []
        size = 0
        for sample in self._reader.samples(start, rows, [numbers[name] for name in wanted], self._most):
            samples.append(sample)
            size += sum(map(len, sample[0])) + ROW_OVERHEAD_BYTES
            if size >= PIECE_BYTES or len(samples) == _MOST_ROWS:
                yield self._batch(samples, wanted).select([*fields, FAULT])
                samples, size = [], 0
        if samples:
            yield self._batch(samples, wanted).select([*fields, FAULT])

    def fingerprint(self, first: int, count: int) -> str:
        """Return what the file was like when it was found, and what the index says of the shard."""
        return f"{self._reader.state} {self._reader.shard}"

    def place(self, row: int) -> str:
        """Return the file that is read and the sample's number in it."""
        return f"{printable(self._reader.path)}, sample {row}"

    def _batch(self, samples: Sequence[tuple[Sequence[memoryview], str]], fields: Sequence[str]) -> pa.RecordBatch:
        faults: list[str | None] = [fault or None for _, fault in samples]
        arrays = []
        for i, name in enumerate(fields):
            values = [None if fault else each[i] for each, fault in samples]
            array, found = self._encodings[name].column(values)
            arrays.append(array)
            for row, reason in found.items():
                faults[row] = faults[row] or f"column {name!r}: {reason}"
        return pa.RecordBatch.from_arrays([*arrays, to_array(faults, pa.string())], names=[*fields, FAULT])


def _pieces(reader: ShardReader) -> Iterator[tuple[int, int]]:
    """Yield samples and bytes of each piece; a compressed shard is one, since it can only be read from its front."""
    samples, size = reader.shard.samples, reader.shard.raw.bytes
    if reader.is_compressed:
        if samples:
            yield samples, size
        return
    of_piece = max(1, math.ceil(samples * PIECE_BYTES / max(1, size)))
    for start in range(0, samples, of_piece):
        rows = min(of_piece, samples - start)
        yield rows, math.ceil(size * rows / samples)
