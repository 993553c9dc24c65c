"""What a report consists of: lines and plain tables. How they reach a terminal is the printer's job."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

__all__ = ["Table", "View", "table"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table without lines; columns numbered in `right` are aligned to the right. Cells may hold any text."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int]


View = str | Table
"""A line, or a table. Texts are as they are: escaped when they are printed."""


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> Table:
    """Return a table of these headers and rows."""
    return Table(tuple(headers), tuple(map(tuple, rows)), frozenset(right))
