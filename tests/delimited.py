"""Tables read from text that tests write: every field and row, with the lines they stand on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from toolkit.sources.files import InputFile
from toolkit.sources.tables.delimited.dialect import Dialect
from toolkit.sources.tables.delimited.field_types import FieldType
from toolkit.sources.tables.delimited.table import DelimitedTable, scan_delimited
from toolkit.sources.tables.json_lines.field_types import FieldType as JsonType
from toolkit.sources.tables.json_lines.table import JsonLinesTable, scan_json_lines
from toolkit.sources.tables.table import TableFacts

CSV = Dialect(",", '"', None, None)


def csv_table(path: Path, content: bytes | None = None, dialect: Dialect = CSV, most: int = 1 << 20) -> DelimitedTable:
    """Write the file, and read it as a table."""
    if content is not None:
        path.write_bytes(content)
    types: dict[str, FieldType] = {}
    scanned = scan_delimited(_file(path), dialect, types, most)
    schema = pa.schema([pa.field(name, types.get(name, FieldType()).type) for name in scanned.fields])
    return DelimitedTable(scanned, schema, TableFacts())


def json_table(path: Path, content: bytes | None = None, most: int = 1 << 20, **asked: Any) -> JsonLinesTable:
    """Write the file, and read it as a table."""
    if content is not None:
        path.write_bytes(content)
    types: dict[str, JsonType] = {}
    scanned = scan_json_lines(_file(path), types, most, **asked)
    schema = pa.schema([pa.field(name, one.type_of(name)) for name, one in types.items()])
    return JsonLinesTable(scanned, schema, TableFacts())


def rows(table: DelimitedTable | JsonLinesTable) -> list[dict[str, Any]]:
    """Read all rows."""
    batches = table.read(table.schema.names, 0, len(table.pieces))
    return [row for batch in batches for row in batch.to_pylist()]


def lines(table: DelimitedTable | JsonLinesTable) -> list[int]:
    """The line that each row begins on."""
    count = sum(rows for rows, _ in table.pieces)
    return [int(table.place(row).rpartition(" ")[2]) for row in range(count)]


def _file(path: Path) -> InputFile:
    return InputFile(str(path), path.name, path.stat().st_size)
