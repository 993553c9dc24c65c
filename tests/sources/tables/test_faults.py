"""A table that knows which of its rows can't be used says so, and those are rejected alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from toolkit.sources.files import InputFile
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips
from toolkit.sources.tables.memory import MemoryTable
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import FAULT, Table, TableFacts


class Doubting(MemoryTable):
    """A table that can use no row whose number is odd."""

    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        for batch in super().read(fields, first, count):
            faults = [f"column 'n': {n} is odd" if n % 2 else None for n in batch.column("n").to_pylist()]
            yield pa.RecordBatch.from_arrays([*batch.columns, pa.array(faults, pa.string())], names=[*fields, FAULT])

    def narrowed(self, fields: Sequence[str]) -> Table:
        return self


class DoubtingSource(TableSource):
    kind = "doubting"

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        table = pa.table({"n": range(6), "text": ["a", "b", None, "d", "e", "f"]})
        return {"train": [Doubting(InputFile("/in/x.rows", "x.rows", 9), table, TableFacts())]}


def test_rows_with_a_fault_are_rejected_and_others_are_not() -> None:
    for options in ({}, {"columns": ("n",)}, {"columns": ("n",), "limit": 5}):
        source = DoubtingSource(SourceOptions(paths=("/in",), slice_bytes=1 << 20, **options))
        survey = source.survey()
        (rows,) = (rows for part in survey.slices for rows in source.read(survey, part))
        assert rows.batch.column("n").to_pylist() == [0, 2, 4]
        assert FAULT not in rows.batch.schema.names
        odd = [1, 3] if "limit" in options else [1, 3, 5]
        assert [(reject.source, reject.key, reject.reason) for reject in rows.rejects] == [
            (f"/in/x.rows, row {n}", f"x.rows#{n}", f"column 'n': {n} is odd") for n in odd
        ]
