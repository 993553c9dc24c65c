"""The rows of a file of delimited text, block by block, with the line that each stands on."""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import csv

from toolkit.errors import SourceError
from toolkit.sources.tables.delimited.dialect import NO_QUOTE, Dialect
from toolkit.sources.tables.delimited.structure import Fault, RowsFound, find_rows
from toolkit.sources.tables.stream import BLOCK_BYTES, BYTE_ORDER_MARK, TextFile, place_of

__all__ = ["Block", "parse", "read_blocks"]


@dataclass(frozen=True, slots=True)
class Block:
    """Whole rows of a file, with which nothing is wrong but perhaps how many fields they have.

    Attributes:
        data: Their text.
        found: Where they are in it.
        start: Where they begin in the file's text.
        line: The line that they begin on, from 1.
    """

    data: bytes
    found: RowsFound
    start: int
    line: int

    @property
    def lines(self) -> NDArray[np.int64]:
        """The line that each row begins on."""
        return self.line + np.cumsum(self.found.lines) - self.found.lines

    def row(self, number: int) -> bytes:
        """Return the text of a row."""
        start = int(self.found.ends[number - 1]) if number else 0
        return self.data[start : int(self.found.ends[number])]


def read_blocks(
    text: TextFile, dialect: Dialect, most: int, *, start: int = 0, end: int | None = None, line: int = 1
) -> Iterator[Block]:
    """Yield the rows of a file from `start`, which is on `line`, to `end`, in blocks of about BLOCK_BYTES.

    A row of more than `most` bytes is an error: a quote that is never closed makes one row of all that follows.

    Raises:
        SourceError: The text can't be read in one way only; names file and line.
        StorageError: It can't be read.
    """
    parts = text.blocks(start, end)
    data, at, final = b"", start, False
    while not final:
        more, final = _read(parts, len(data))
        data += more
        if at == 0 and data.startswith(BYTE_ORDER_MARK):
            data, at = data[len(BYTE_ORDER_MARK) :], len(BYTE_ORDER_MARK)
        _check_utf8(text, data, at, line, final=final)
        found = find_rows(data, dialect.delimiter_byte, dialect.quote_byte, final=final)
        if found.fault is not None:
            raise _error(text, found.fault, line, dialect)
        _check_lengths(text, found, len(data), line, most)
        if len(found.ends):
            yield Block(data, found, at, line)
            line += int(found.lines.sum())
            at += found.end
            data = data[found.end :]


def parse(
    block: Block, keep: NDArray[np.bool_], names: Sequence[str], wanted: Sequence[str], dialect: Dialect
) -> pa.RecordBatch:
    """Return the fields `wanted` of the rows that `keep` tells, as text; each of these rows has the fields `names`.

    An empty field is null; a quoted one without anything in it is the empty text.
    """
    count = int(keep.sum())
    included = list(wanted or names[:1])
    schema = pa.schema([pa.field(name, pa.string()) for name in included])
    if not count:
        return pa.RecordBatch.from_arrays([pa.nulls(0, pa.string()) for _ in wanted], names=list(wanted))
    data = block.data[: block.found.end] if keep.all() else _kept(block, keep)
    # Arrow passes over a mark at the front, which would be text of the first field here.
    data = BYTE_ORDER_MARK + data if data.startswith(BYTE_ORDER_MARK) else data
    table = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(data)),
        parse_options=csv.ParseOptions(
            delimiter=dialect.delimiter,
            quote_char=dialect.quote or False,
            double_quote=dialect.quote is not None,
            escape_char=False,
            newlines_in_values=True,
            ignore_empty_lines=False,
        ),
        convert_options=csv.ConvertOptions(
            check_utf8=False,  # it was
            column_types=schema,
            include_columns=included,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    if table.num_rows != count:
        raise AssertionError(f"{count} rows were found, and {table.num_rows} read")
    return table.combine_chunks().to_batches()[0].select(list(wanted))


def _read(parts: Iterator[bytes], waiting: int) -> tuple[bytes, bool]:
    """Return more text, and whether that is all: as much as waits, or a long row would be looked at very often."""
    pieces: list[bytes] = []
    size = 0
    while size < max(BLOCK_BYTES, waiting):
        part = next(parts, None)
        if part is None:
            return b"".join(pieces), True
        pieces.append(part)
        size += len(part)
    return b"".join(pieces), False


def _check_utf8(text: TextFile, data: bytes, at: int, line: int, *, final: bool) -> None:
    try:
        codecs.utf_8_decode(data, "strict", final)
    except UnicodeDecodeError as error:
        lines = line + data.count(b"\n", 0, error.start)
        raise SourceError(
            f"{place_of(text, lines)}: byte {at + error.start} of the text (0x{data[error.start]:02x}) is not UTF-8. "
            "Say which encoding it is, as with --encoding latin-1 or --encoding cp1252, or mend the file"
        ) from error


def _check_lengths(text: TextFile, found: RowsFound, size: int, line: int, most: int) -> None:
    lengths = np.diff(found.ends, prepend=0, append=size)
    long = np.flatnonzero(lengths > most)
    if len(long):
        at = line + int(found.lines[: long[0]].sum())
        raise SourceError(
            f"{place_of(text, at)}: a row of more than {most} bytes begins here. If a quote in it is never closed, "
            "close it; else --max-value-bytes says how many a row may have"
        )


def _error(text: TextFile, fault: Fault, line: int, dialect: Dialect) -> SourceError:
    if fault.is_quote:
        sign = dialect.quote
        advice = (
            f"A field with a {sign} in it is written {sign}like {sign}{sign}this{sign}{sign}{sign}; where quotes mean "
            f"nothing, give --quote {NO_QUOTE}"
        )
    else:
        advice = "Write it with line ends LF or CR LF, in UTF-8, or say which encoding it is with --encoding"
    return SourceError(f"{place_of(text, line + fault.line)}: {fault.reason}. {advice}")


def _kept(block: Block, keep: NDArray[np.bool_]) -> bytes:
    return b"".join(block.row(int(number)) for number in np.flatnonzero(keep))
