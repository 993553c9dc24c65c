"""Files of delimited text that are one table together: each read once, with types that fit the values of all."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import pyarrow as pa

from toolkit.format.kinds import Kind
from toolkit.sources.file_names import TSV
from toolkit.sources.files import InputFile
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips
from toolkit.sources.tables.asked import asked_kinds
from toolkit.sources.tables.delimited.dialect import Dialect, make_dialect
from toolkit.sources.tables.delimited.field_types import FieldType
from toolkit.sources.tables.delimited.table import DelimitedTable, scan_delimited
from toolkit.sources.tables.table import TableFacts

__all__ = ["dialect_of", "read_delimited"]

_WRITTEN = ("delimiter", "quote", "encoding", "field_names")
_AS_TEXT = (Kind.TEXT, Kind.JSON, Kind.IMAGE)


def dialect_of(name: str, options: SourceOptions) -> Dialect:
    """Return how a file of that name is written. Raises UsageError: an option says what can't be."""
    return make_dialect(options, "\t" if name.lower().endswith(TSV) else ",")


def read_delimited(
    files: Sequence[InputFile],
    options: SourceOptions,
    skips: Skips,
    *,
    as_text: Collection[str] = (),
    may_lack: bool = False,
) -> dict[str, DelimitedTable]:
    """Return a table for each file, by its path.

    Args:
        files: The files.
        options: How they are written, what is asked of fields, and how many bytes a row may have.
        skips: Where to note blank lines and what has no row.
        as_text: Fields that are text whatever they hold, besides those that options ask for.
        may_lack: A file may lack fields that others have: they are null in it.

    Raises:
        SourceError: A file can't be read in one way only; names file and line.
        StorageError: A file can't be read.
    """
    types: dict[str, FieldType] = {}
    scans = [scan_delimited(file, dialect_of(file.name, options), types, options.max_value_bytes) for file in files]
    text = {field for field, kind in asked_kinds(options).items() if kind in _AS_TEXT} | {*as_text}
    shaping = {name: getattr(options, name) for name in _WRITTEN if getattr(options, name) is not None}
    shaping = {name: list(value) if isinstance(value, tuple) else value for name, value in shaping.items()}
    known = {name: pa.string() if name in text else one.type for name, one in types.items()}
    every = dict.fromkeys(name for scanned in scans for name in scanned.fields)
    tables: dict[str, DelimitedTable] = {}
    for scanned in scans:
        path = scanned.text.file.path
        skips.count("blank_lines", scanned.blank_lines)
        if "" in scanned.names:
            skips.add("pandas_index", scanned.text.file.name)
        names = every if may_lack else scanned.fields
        schema = pa.schema([pa.field(name, known.get(name, pa.string())) for name in names])
        tables[path] = DelimitedTable(scanned, schema, TableFacts(options=shaping))
    return tables
