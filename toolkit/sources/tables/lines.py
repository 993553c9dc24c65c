"""Tables in files of lines: where their rows are, and the line that each begins on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from toolkit.sources.names import printable
from toolkit.sources.reject import Reject
from toolkit.sources.tables.stream import TextFile
from toolkit.sources.tables.table import Table, TableFacts

__all__ = ["LineTable", "Piece", "ScannedLines"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some rows: where they are in the text, the line that they begin on and how many they take, how many they are."""

    start: int
    end: int
    line: int
    lines: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class ScannedLines:
    """What is found in a file by reading it once.

    Attributes:
        text: The file.
        pieces: Where its rows are.
        rejects: Lines that are no row, and rows that don't fit.
        blank_lines: How many lines have nothing.
        most: Bytes that a row may have.
    """

    text: TextFile
    pieces: tuple[Piece, ...]
    rejects: tuple[Reject, ...]
    blank_lines: int
    most: int

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(piece.rows for piece in self.pieces)


class LineTable(Table):
    """The rows of a file of lines."""

    def __init__(self, scanned: ScannedLines, schema: pa.Schema, facts: TableFacts, read_as: object) -> None:
        """Take what was found.

        Args:
            scanned: The file.
            schema: The fields; those that the file hasn't are null.
            facts: What is known of them.
            read_as: How the text is read; its repr() tells all that rows depend on besides the text.
        """
        self.file = scanned.text.file
        self.schema = schema
        self.facts = facts
        self.rejects = scanned.rejects
        pieces = scanned.pieces
        if pieces and not scanned.text.has_places:  # it is read from the front only
            rows, lines = sum(one.rows for one in pieces), sum(one.lines for one in pieces)
            pieces = (Piece(pieces[0].start, pieces[-1].end, pieces[0].line, lines, rows),)
        self.pieces = [(piece.rows, max(1, piece.end - piece.start)) for piece in pieces]
        self._pieces: Sequence[Piece] = pieces
        self._text = scanned.text
        self._read_as = read_as

    def fingerprint(self, first: int, count: int) -> str:
        """Return the file's state, how it is read, and which pieces these are."""
        places = [(piece.start, piece.end) for piece in self._pieces[first : first + count]]
        return repr((tuple(self._text.state), self._text.encoding, self._read_as, places))

    def place(self, row: int) -> str:
        """Return the file and the line that a row begins on. Where lines aren't rows, a piece is read for it."""
        for number, piece in enumerate(self._pieces):
            if row < piece.rows:
                line = piece.line + row if piece.rows == piece.lines else self._line(number, row)
                return f"{printable(self.file.path)}, line {line}"
            row -= piece.rows
        return super().place(row)

    @abstractmethod
    def _line(self, number: int, row: int) -> int:
        """Return the line that a row of a piece begins on."""
