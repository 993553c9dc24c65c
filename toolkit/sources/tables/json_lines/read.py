"""Files of JSON lines that are one table together: each read once, with the fields and types of all."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from toolkit.errors import SourceError
from toolkit.format.kinds import Kind
from toolkit.sources.files import InputFile
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips
from toolkit.sources.tables.asked import asked_kinds
from toolkit.sources.tables.json_lines.field_types import FieldType
from toolkit.sources.tables.json_lines.table import JsonLinesTable, scan_json_lines
from toolkit.sources.tables.stream import check_encoding
from toolkit.sources.tables.table import Table, TableFacts

__all__ = ["read_json_lines"]


def read_json_lines(
    files: Sequence[InputFile],
    options: SourceOptions,
    skips: Skips,
    *,
    as_text: Collection[str] = (),
) -> dict[str, Table]:
    """Return a table for each file, by its path.

    Args:
        files: The files.
        options: What is asked of fields; the encoding; the bytes that a line may have.
        skips: Where to note blank lines.
        as_text: Fields that are text whatever they hold, besides those that options ask for.

    Raises:
        SourceError: A file can't be read to its end, or a field has values of several types; names files and lines.
        StorageError: A file can't be read.
    """
    asked = asked_kinds(options)
    json = {field for field, kind in asked.items() if kind is Kind.JSON}
    text = {field for field, kind in asked.items() if kind in (Kind.TEXT, Kind.IMAGE)} | {*as_text}
    types: dict[str, FieldType] = {}
    encoding = check_encoding(options.encoding)
    scans = [
        scan_json_lines(file, types, options.max_value_bytes, encoding=encoding, as_json=json, as_text=text)
        for file in files
    ]
    schema = _schema(types, options)
    shaping = {} if options.encoding is None else {"encoding": encoding}
    kinds = {name: Kind.JSON for name in schema.names if types[name].is_nested}
    tables: dict[str, Table] = {}
    for scanned in scans:
        skips.count("blank_lines", scanned.blank_lines)
        facts = TableFacts(kinds=kinds, options=shaping)
        tables[scanned.text.file.path] = JsonLinesTable(scanned, schema, facts)
    return tables


def _schema(types: Mapping[str, FieldType], options: SourceOptions) -> pa.Schema:
    """Return the fields; one that options leave out is there only if it has a type."""
    chosen = options.map is not None or options.columns is not None
    asked = {*(options.map or {}).values(), *(options.columns or ()), *(options.image_column or ()), options.key}
    fields = []
    for name, one in types.items():
        try:
            fields.append(pa.field(name, one.type_of(name)))
        except SourceError:
            if not chosen or name in asked:
                raise
    return pa.schema(fields)
