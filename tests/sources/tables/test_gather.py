from __future__ import annotations

import pyarrow as pa
import pytest

from toolkit.sources.tables.gather import Gathered

SCHEMA = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("boxes", pa.list_(pa.list_(pa.float64(), 2))),
        pa.field("polygons", pa.list_(pa.list_(pa.float64()))),
        pa.field("flags", pa.list_(pa.int64())),
    ]
)


@pytest.mark.parametrize("rows", [0, 1, 3, 5000, 8192])
def test_rows_are_what_was_added(rows: int) -> None:
    gathered = Gathered(SCHEMA)
    added = []
    for i in range(rows):
        row = (f"{i}", [[i, i + 0.5]] * (i % 3), [[0.5] * (i % 4)], [None, i][: i % 3] if i % 5 else None)
        assert len(gathered) == i
        gathered.add(row)
        added.append(dict(zip(SCHEMA.names, row, strict=True)))
    table = gathered.table()
    table.validate(full=True)
    assert table.schema == SCHEMA
    assert table.to_pylist() == added
