"""A file of JSON lines as a table: read once whole, for its rows and types; then piece by piece."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from toolkit.errors import SourceError
from toolkit.sources.files import InputFile
from toolkit.sources.names import printable
from toolkit.sources.reject import Reject
from toolkit.sources.tables.json_lines.field_types import FieldType, convert
from toolkit.sources.tables.json_lines.line import LineError, parse_line
from toolkit.sources.tables.lines import LineTable, Piece, ScannedLines
from toolkit.sources.tables.stream import BYTE_ORDER_MARK, TextFile, open_text, place_of
from toolkit.sources.tables.table import TableFacts

__all__ = ["JsonLinesTable", "Scanned", "scan_json_lines"]

_MOST_FIELDS = 10_000
_MOST_REJECTS = 10_000


@dataclass(frozen=True, kw_only=True)
class Scanned(ScannedLines):
    """What is found in a file by reading it once.

    Attributes:
        as_json, as_text: Fields whose values are kept as they are written, as JSON or as text.
    """

    as_json: frozenset[str]
    as_text: frozenset[str]


class _Row(NamedTuple):
    line: int
    fields: dict[str, Any]


def scan_json_lines(
    file: InputFile,
    types: dict[str, FieldType],
    most: int,
    *,
    encoding: str | None = None,
    as_json: Collection[str] = (),
    as_text: Collection[str] = (),
) -> Scanned:
    """Read a file once.

    Args:
        file: Where it is.
        types: What the values of each field are so far, by its name; those of the file are added.
        most: Bytes that a line may have.
        encoding: As toolkit.sources.tables.stream.check_encoding() gives it.
        as_json, as_text: Fields whose values are kept as they are written, as JSON or as text.

    Raises:
        SourceError: It can't be read to its end; names file and line.
        StorageError: It can't be read.
    """
    text = open_text(file, encoding)
    asked = frozenset(as_json), frozenset(as_text)
    pieces: list[Piece] = []
    rejects: list[Reject] = []
    blank = 0
    for block in _blocks(text, most):
        rows, bad, empty = _parse(block, *asked, text)
        rejects += bad
        blank += empty
        if len(rejects) > _MOST_REJECTS:
            raise SourceError(
                f"{text.shown}: more than {_MOST_REJECTS} lines are no row, the first of them "
                f"{rejects[0].source.rpartition(', ')[2]} ({rejects[0].reason}): is it JSON lines at all?"
            )
        names = dict.fromkeys(name for row in rows for name in row.fields)
        if len(types.keys() | names.keys()) > _MOST_FIELDS:
            raise SourceError(f"{text.shown}: more than {_MOST_FIELDS} different fields, so names seem to be values")
        for name in names:
            values = [row.fields.get(name) for row in rows]
            places = lambda i, rows=rows: place_of(text, rows[i].line)  # noqa: E731
            types.setdefault(name, FieldType()).add(values, places)
        pieces.append(Piece(block.start, block.start + len(block.data), block.line, len(block.lines), len(rows)))
    return Scanned(
        text=text,
        as_json=asked[0],
        as_text=asked[1],
        pieces=tuple(pieces),
        rejects=tuple(rejects),
        blank_lines=blank,
        most=most,
    )


class JsonLinesTable(LineTable):
    """The rows of a file."""

    def __init__(self, scanned: Scanned, schema: pa.Schema, facts: TableFacts) -> None:
        """Take what was found. Fields of `schema` that a row hasn't are null."""
        super().__init__(scanned, schema, facts, (sorted(scanned.as_json), sorted(scanned.as_text)))
        self._scanned = scanned

    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pieces, in order."""
        schema = pa.schema([self.schema.field(name) for name in fields])
        for rows in self._rows(first, count):
            columns = [convert([row.fields.get(field.name) for row in rows], field.type) for field in schema]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _rows(self, first: int, count: int) -> Iterator[list[_Row]]:
        scanned = self._scanned
        pieces = self._pieces[first : first + count]
        if not pieces:
            return
        left = sum(piece.rows for piece in pieces)
        start, end = (pieces[0].start, pieces[-1].end) if scanned.text.has_places else (0, None)
        for block in _blocks(scanned.text, scanned.most, start=start, end=end, line=pieces[0].line):
            rows = _parse(block, scanned.as_json, scanned.as_text, scanned.text)[0]
            left -= len(rows)
            yield rows
        if left:
            raise SourceError(f"{scanned.text.shown} has {abs(left)} rows more or fewer than it had: pack again")

    def _line(self, number: int, row: int) -> int:
        for rows in self._rows(number, 1):
            if row < len(rows):
                return rows[row].line
            row -= len(rows)
        raise AssertionError("a row behind the last")


@dataclass(frozen=True, slots=True)
class _Block:
    """Whole lines: their text, which begins at `start` of the file's and on `line`."""

    data: bytes
    start: int
    line: int

    @property
    def lines(self) -> list[bytes]:
        return self.data.removesuffix(b"\n").split(b"\n")


def _blocks(text: TextFile, most: int, *, start: int = 0, end: int | None = None, line: int = 1) -> Iterator[_Block]:
    """Yield the lines of a file in blocks."""
    at, waiting, length = start, [], 0
    for part in text.blocks(start, end):
        cut = part.rfind(b"\n") + 1
        if not cut:
            waiting.append(part)
            length += len(part)
            _check_length(text, length, line, most)
            continue
        data = b"".join([*waiting, part[:cut]])
        block = _Block(data, at, line)
        longest = max(map(len, block.lines))
        if longest > most:
            number = next(i for i, one in enumerate(block.lines) if len(one) > most)
            _check_length(text, longest, line + number, most)
        yield block
        at, line = at + cut + length, line + data.count(b"\n")
        waiting, length = [part[cut:]], len(part) - cut
    rest = b"".join(waiting)
    if rest:
        yield _Block(rest, at, line)


def _check_length(text: TextFile, length: int, line: int, most: int) -> None:
    if length > most:
        raise SourceError(
            f"{place_of(text, line)}: a line of more than {most} bytes; --max-value-bytes says how many it may have"
        )


def _parse(
    block: _Block, as_json: frozenset[str], as_text: frozenset[str], text: TextFile
) -> tuple[list[_Row], list[Reject], int]:
    """Return the rows of a block, the lines that are none, and how many have nothing."""
    rows, rejects, blank = [], [], 0
    for number, data in enumerate(block.lines, block.line):
        if number == 1:
            data = data.removeprefix(BYTE_ORDER_MARK)
        if not data or data.isspace():
            blank += 1
            continue
        try:
            rows.append(_Row(number, parse_line(data, as_json, as_text)))
        except LineError as error:
            place = f"line {number}"
            rejects.append(Reject(f"{printable(text.file.path)}, {place}", f"{text.file.name}, {place}", str(error)))
    return rows, rejects, blank
