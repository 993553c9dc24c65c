"""A table that lies in memory: what small files, annotations, arrays and frames are read into."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.compact import compact_batch
from toolkit.format.schema import stored_type
from toolkit.format.sizes import row_bytes
from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.files import InputFile
from toolkit.sources.names import printable
from toolkit.sources.reject import Reject
from toolkit.sources.tables.table import Table, TableFacts

__all__ = ["MemoryTable"]

_MOST_ROWS = 65536  # of a piece: their files and checks are looked at together


class MemoryTable(Table):
    """A Table over a pa.Table. Dictionaries, views and extension types become what they are stored as."""

    def __init__(
        self,
        file: InputFile,
        table: pa.Table,
        facts: TableFacts,
        rejects: Sequence[Reject] = (),
        lines: NDArray[np.int64] | None = None,
    ) -> None:
        """`lines`: the line of the file that each row begins in, from 1.

        Raises:
            SourceError: Two fields have one name, or values can't be stored.
        """
        self.file = file
        self.facts = facts
        self.rejects = tuple(rejects)
        self._lines = lines
        self._table = _as_stored(table, file)
        self.schema = self._table.schema
        self._batches = [piece for batch in self._table.to_batches() for piece in _cut(batch)]
        self.pieces = tuple((batch.num_rows, batch.nbytes) for batch in self._batches)
        self._hashes: dict[int, bytes] = {}

    def __reduce__(self) -> tuple[object, ...]:
        return MemoryTable, (self.file, self._table, self.facts, self.rejects, self._lines)

    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the pieces' rows."""
        for batch in self._batches[first : first + count]:
            yield batch.select(list(fields))

    def fingerprint(self, first: int, count: int) -> str:
        """Return a hash of the rows."""
        digest = hashlib.sha256()
        for number in range(first, min(first + count, len(self._batches))):
            digest.update(self._hash(number))
        return digest.hexdigest()

    def narrowed(self, fields: Sequence[str]) -> Table:
        """Return the table without its other fields."""
        wanted = {*fields}
        kept = [name for name in self.schema.names if name in wanted]
        return MemoryTable(self.file, self._table.select(kept), self.facts, self.rejects, self._lines)

    def place(self, row: int) -> str:
        """Return file and line, or row where lines aren't known."""
        if self._lines is None:
            return super().place(row)
        return f"{self.file.path}, line {self._lines[row]}"

    def _hash(self, number: int) -> bytes:
        if number not in self._hashes:
            # Compact: a slice of an array has the buffers of the whole.
            sink = _Hashing()
            with pa.ipc.new_stream(pa.PythonFile(sink, "w"), self.schema) as stream:
                stream.write_batch(compact_batch(self._batches[number]))
            self._hashes[number] = sink.digest.digest()
        return self._hashes[number]


class _Hashing:
    """A file that keeps nothing but the hash of what is written to it."""

    closed = False

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return len(data)

    def flush(self) -> None:
        """Do nothing: there is nothing to flush."""

    def close(self) -> None:
        """Do nothing: the hash stays."""


def _as_stored(table: pa.Table, file: InputFile) -> pa.Table:
    names = table.schema.names
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise SourceError(f"{printable(file.path)!r} has several fields called {twice!r}: rename one of them")
    fields, columns = [], []
    for name, column in zip(names, table.columns, strict=True):
        try:
            dtype = stored_type(column.type)
        except TypeError as error:
            raise SourceError(f"field {name!r} of {printable(file.path)!r}: {error}") from error
        fields.append(pa.field(name, dtype))
        columns.append(column.cast(dtype))
    return pa.table(columns, schema=pa.schema(fields)) if fields else table


def _cut(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch where its rows fill a piece."""
    ends = np.cumsum(row_bytes(batch)) if batch.num_rows else np.zeros(0, np.int64)
    start = 0
    while start < batch.num_rows:
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + PIECE_BYTES, side="right"))
        stop = min(max(start + 1, stop), start + _MOST_ROWS)
        yield batch.slice(start, min(stop, batch.num_rows) - start)
        start = stop
