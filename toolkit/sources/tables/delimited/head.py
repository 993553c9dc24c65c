"""The first rows of a file of delimited text, to see what its columns are."""

from __future__ import annotations

from toolkit.errors import SourceError
from toolkit.sources.files import InputFile
from toolkit.sources.options import SourceOptions
from toolkit.sources.tables.delimited.dialect import Dialect, fields_of
from toolkit.sources.tables.delimited.read import dialect_of
from toolkit.sources.tables.delimited.structure import find_rows
from toolkit.sources.tables.stream import BYTE_ORDER_MARK, open_text

__all__ = ["read_head"]

_ROWS = 16
_BYTES = 256 * 1024
_MOST_BYTES = 64 * 1024 * 1024  # where the first rows are long: of that much, one is none to look at


def read_head(table: InputFile, options: SourceOptions) -> tuple[list[str], list[list[str]]]:
    """Return the names of a file's fields, and its first rows; of a file without any, neither.

    Raises:
        SourceError: Something is wrong with it, which whoever reads it tells better.
        UsageError: An option says what can't be.
        StorageError: It can't be read.
    """
    dialect = dialect_of(table.name, options)
    most = _BYTES
    rows, final = _rows(table, dialect, most)
    while len(rows) < 2 and not final and most < _MOST_BYTES:
        most *= 16
        rows, final = _rows(table, dialect, most)
    names = list(dialect.names) if dialect.names is not None else rows.pop(0) if rows else []
    return names, rows


def _rows(table: InputFile, dialect: Dialect, most: int) -> tuple[list[list[str]], bool]:
    """Return the rows in the first `most` bytes, and whether these are all bytes."""
    data = b""
    blocks = open_text(table, dialect.encoding).blocks()
    try:
        for block in blocks:
            data += block
            if len(data) >= most:
                break
    finally:
        blocks.close()  # type: ignore[attr-defined]
    final = len(data) < most
    head = data[:most].removeprefix(BYTE_ORDER_MARK)
    found = find_rows(head, dialect.delimiter_byte, dialect.quote_byte, final=final)
    if found.fault is not None:
        raise SourceError(found.fault.reason)
    rows: list[list[str]] = []
    start = 0
    for end, width in zip(found.ends.tolist(), found.widths.tolist(), strict=True):
        if width:
            try:
                rows.append(fields_of(head[start:end], dialect))
            except UnicodeDecodeError as error:
                raise SourceError("not UTF-8") from error
        start = end
        if len(rows) > _ROWS:
            break
    return rows, final
