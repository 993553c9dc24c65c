"""Plain tables, all of one look."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["table"]


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()) -> Table:
    """Return a table without lines; columns numbered in `right` are aligned to the right."""
    from rich.table import Table

    result = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, header in enumerate(headers):
        # A path or key that doesn't fit goes on in the next line: nothing that someone may copy is cut.
        result.add_column(header, justify="right" if number in right else "left", overflow="fold")
    for row in rows:
        result.add_row(*row)
    return result
