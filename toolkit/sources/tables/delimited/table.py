"""A file of delimited text as a table: read once whole, for its rows, lines and types; then piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.arrays import to_array
from toolkit.sources.files import InputFile
from toolkit.sources.names import printable
from toolkit.sources.reject import Reject
from toolkit.sources.tables.delimited.dialect import Dialect, check_names, fields_of
from toolkit.sources.tables.delimited.field_types import FieldType, convert
from toolkit.sources.tables.delimited.rows import Block, parse, read_blocks
from toolkit.sources.tables.lines import LineTable, Piece, ScannedLines
from toolkit.sources.tables.stream import TextFile, open_text, place_of
from toolkit.sources.tables.table import TableFacts

__all__ = ["DelimitedTable", "Scanned", "scan_delimited"]

_MOST_REJECTS = 10_000  # beyond it, the delimiter or a quote is wrong


@dataclass(frozen=True, kw_only=True)
class Scanned(ScannedLines):
    """What is found in a file by reading it once; of the rejects, rows with more or fewer fields than names.

    Attributes:
        dialect: How it is written.
        names: The names of its fields, in order; "" for an index that pandas wrote, which is passed over.
    """

    dialect: Dialect
    names: tuple[str, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields that become columns."""
        return tuple(name for name in self.names if name)


def scan_delimited(file: InputFile, dialect: Dialect, types: dict[str, FieldType], most: int) -> Scanned:
    """Read a file once. A file without a row of names, or without fields, has none.

    Args:
        file: Where it is.
        dialect: How it is written.
        types: What the values of each field are so far, by its name; those of the file are added.
        most: Bytes that a row may have.

    Raises:
        SourceError: It can't be read in one way only; names file and line.
        StorageError: It can't be read.
    """
    scan = _Scan(open_text(file, dialect.encoding), dialect, types)
    for block in read_blocks(scan.text, dialect, most):
        scan.add(block)
    return Scanned(
        text=scan.text,
        dialect=dialect,
        names=tuple(scan.names or ()),
        pieces=tuple(scan.pieces),
        rejects=tuple(scan.rejects),
        blank_lines=scan.blank_lines,
        most=most,
    )


class _Scan:
    """What is known of a file when some blocks of it have been read."""

    def __init__(self, text: TextFile, dialect: Dialect, types: dict[str, FieldType]) -> None:
        self.text = text
        self.names: list[str] | None = None
        self.pieces: list[Piece] = []
        self.rejects: list[Reject] = []
        self.blank_lines = 0
        self._dialect = dialect
        self._types = types
        self._rows = 0

    def add(self, block: Block) -> None:
        widths = block.found.widths
        first = np.flatnonzero(widths)[:1]
        header = 0
        if self.names is None and len(first):
            header = self._begin(block, int(first[0]))
        self.blank_lines += int((widths[header:] == 0).sum()) + (0 if not header else int((widths[:header] == 0).sum()))
        if self.names is None or header == len(widths):
            return
        keep = widths == len(self.names)
        keep[:header] = False
        self._reject(block, (widths != 0) & (widths != len(self.names)), header)
        batch = parse(block, keep, self.names, self.names, self._dialect)
        for name, texts in zip(self.names, batch.columns, strict=True):
            if name:
                self._types.setdefault(name, FieldType()).add(texts)
            else:
                self._check_index(texts, block.line)
        count = int(keep.sum())
        self._rows += count
        start = int(block.found.ends[header - 1]) if header else 0
        line = int(block.lines[header])
        lines = int(block.found.lines[header:].sum())
        self.pieces.append(Piece(block.start + start, block.start + block.found.end, line, lines, count))

    def _begin(self, block: Block, first: int) -> int:
        """Take the names of the first row; return how many rows of the block come before those of samples."""
        row = block.row(first)
        fields = fields_of(row, self._dialect)
        line = int(block.lines[first])
        names = list(self._dialect.names or fields)
        check_names(self.text, names, line, row, self._dialect)
        if len(names) != len(fields):
            raise SourceError(
                f"{place_of(self.text, line)}: {len(fields)} fields, and --field-names names {len(names)}"
            )
        self.names = names
        return first if self._dialect.names else first + 1

    def _reject(self, block: Block, rows: NDArray[np.bool_], header: int) -> None:
        rows[:header] = False
        for number in np.flatnonzero(rows).tolist():
            line = int(block.lines[number])
            self.rejects.append(
                Reject(
                    source=f"{printable(self.text.file.path)}, line {line}",
                    key=f"{self.text.file.name}, line {line}",
                    reason=f"{block.found.widths[number]} fields, and there are {len(self.names or ())} columns",
                )
            )
        if len(self.rejects) > _MOST_REJECTS:
            raise SourceError(
                f"{self.text.shown}: more than {_MOST_REJECTS} rows have more or fewer fields than its row of names, "
                f"the first of them {self.rejects[0].source.rpartition(', ')[2]}: look at its delimiter and quotes"
            )

    def _check_index(self, texts: pa.Array, line: int) -> None:
        """Refuse a field without a name whose values aren't the rows' numbers."""
        numbers = to_array([str(row) for row in range(self._rows, self._rows + len(texts))], pa.string())
        if not texts.equals(numbers):
            raise SourceError(
                f"{self.text.shown}: column 1 has no name, and isn't the rows' numbers, behind line {line}: give it a "
                "name in the file"
            )


class DelimitedTable(LineTable):
    """The rows of a file."""

    def __init__(self, scanned: Scanned, schema: pa.Schema, facts: TableFacts) -> None:
        """Take what was found. Fields of `schema` that the file hasn't are null."""
        super().__init__(scanned, schema, facts, scanned.dialect)
        self._scanned = scanned

    @property
    def lacking(self) -> list[str]:
        """The fields that are null in all rows, since the file hasn't them."""
        there = {*self._scanned.names}
        return [name for name in self.schema.names if name not in there]

    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of pieces, in order."""
        there = {*self._scanned.names}
        wanted = [name for name in fields if name in there]
        schema = pa.schema([self.schema.field(name) for name in fields])
        for block, keep in self._blocks(first, count):
            batch = parse(block, keep, self._scanned.names, wanted, self._scanned.dialect)
            texts = dict(zip(wanted, batch.columns, strict=True))
            arrays = [self._values(name, texts, batch.num_rows) for name in fields]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema) if fields else batch

    def _values(self, name: str, texts: Mapping[str, pa.Array], rows: int) -> pa.Array:
        dtype = self.schema.field(name).type
        if name in texts:
            return convert(texts[name], dtype)
        return pa.nulls(rows, dtype)

    def _blocks(self, first: int, count: int) -> Iterator[tuple[Block, NDArray[np.bool_]]]:
        """Yield the rows of pieces, and which of them are any."""
        scanned = self._scanned
        left = sum(piece.rows for piece in self._pieces[first : first + count])
        pieces = self._pieces[first : first + count]
        if not pieces:
            return
        has_places = scanned.text.has_places
        start, line = (pieces[0].start, pieces[0].line) if has_places else (0, 1)
        end = pieces[-1].end if has_places else None
        for block in read_blocks(scanned.text, scanned.dialect, scanned.most, start=start, end=end, line=line):
            keep = block.found.widths == len(scanned.names)
            if not has_places:
                keep[block.lines < pieces[0].line] = False  # the row of names
            left -= int(keep.sum())
            yield block, keep
        if left:
            raise SourceError(f"{scanned.text.shown} has {abs(left)} rows more or fewer than it had: pack again")

    def _line(self, number: int, row: int) -> int:
        for block, keep in self._blocks(number, 1):
            lines = block.lines[keep]
            if row < len(lines):
                return int(lines[row])
            row -= len(lines)
        raise AssertionError("a row behind the last")
