"""Cut tables into slices: between their pieces, or between any rows where the rows name files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.sources.base import PIECE_BYTES, ROW_OVERHEAD_BYTES, Slice
from toolkit.sources.names import printable
from toolkit.sources.tables.paths import FETCH, GOOD, Files
from toolkit.sources.tables.scan import Scan
from toolkit.sources.tables.table import Table

__all__ = ["TablePart", "cut", "runs"]

_FETCHED_BYTES = 256 * 1024  # what a URL is taken to name, before anybody knows


@dataclass(frozen=True)
class TablePart:
    """What a slice is: some rows of a table. Its repr() tells all that they depend on.

    Attributes:
        path: The input, for messages.
        table: Which table of the survey.
        fingerprint: Of the pieces.
        first, count: The pieces that the rows lie in.
        start: How many rows of these pieces belong to slices before.
        row: The first row's number in the table.
        rows: How many rows.
        files: Of each field of paths, what lay behind them.
        dropped: Which of the rows are passed over, as bytes of 0 and 1; b"" for none.
    """

    path: str
    table: int
    fingerprint: str
    first: int
    count: int
    start: int
    row: int
    rows: int
    files: tuple[tuple[str, Files], ...]
    dropped: bytes


def cut(split: str, number: int, index: int, table: Table, found: Scan, slice_bytes: int, most: int) -> Iterator[Slice]:
    """Yield the slices of a table's rows that were looked at.

    Args:
        split: The split that the table belongs to.
        number: Of the first slice.
        index: Of the table, in the survey.
        table: The table.
        found: What its rows need besides.
        slice_bytes: How much a slice takes.
        most: Bytes of a file that is read.
    """
    bounds = np.concatenate((np.zeros(1, np.int64), np.cumsum([rows for rows, _ in table.pieces], dtype=np.int64)))
    sizes = _file_sizes(found, most)
    cuts = _by_rows(table, found.rows, sizes, slice_bytes) if found.files else _by_pieces(table, bounds, slice_bytes)
    for begin, end in cuts:
        end = min(end, found.rows)
        if begin >= end:
            return
        first = int(np.searchsorted(bounds, begin, side="right")) - 1
        last = int(np.searchsorted(bounds, end, side="left"))
        rows = slice(begin, end)
        dropped = b"" if found.dropped is None else found.dropped[rows].tobytes()
        pieces = table.pieces[first:last]
        share = (end - begin) / (sum(count for count, _ in pieces) or 1)
        nbytes = math.ceil(sum(size for _, size in pieces) * share) + int(sizes[rows].sum())
        payload = TablePart(
            path=table.file.path,
            table=index,
            fingerprint=table.fingerprint(first, last - first),
            first=first,
            count=last - first,
            start=int(begin - bounds[first]),
            row=begin,
            rows=end - begin,
            files=tuple((name, files[rows]) for name, files in found.files.items()),
            dropped=dropped if any(dropped) else b"",
        )
        samples = end - begin - dropped.count(1)
        yield Slice(split, number, samples, nbytes, payload, printable(table.file.name))
        number += 1


def runs(files: Sequence[Files], most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of neighbouring rows whose files fill a piece; of one row that takes more alone."""
    rows = len(files[0])
    total = sum((np.where(one.sizes <= most, one.sizes, 0) for one in files), start=np.zeros(rows, np.int64))
    yield from _filled(total, PIECE_BYTES)


def _by_pieces(table: Table, bounds: NDArray[np.int64], slice_bytes: int) -> Iterator[tuple[int, int]]:
    sizes = np.array([size for _, size in table.pieces], np.int64)
    for first, stop in _filled(sizes, slice_bytes):
        yield int(bounds[first]), int(bounds[stop])


def _by_rows(table: Table, rows: int, sizes: NDArray[np.int64], slice_bytes: int) -> Iterator[tuple[int, int]]:
    counts = np.array([count for count, _ in table.pieces], np.int64)
    each = np.array([-(-size // max(1, count)) for count, size in table.pieces], np.int64)
    yield from _filled(np.repeat(each, counts)[:rows] + sizes + ROW_OVERHEAD_BYTES, slice_bytes)


def _filled(sizes: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of neighbours that together take `most` at the most, or of one that takes more alone."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield start, stop
        start = stop


def _file_sizes(found: Scan, most: int) -> NDArray[np.int64]:
    """Return the bytes of files that each row needs."""
    total = np.zeros(found.rows if found.files else 0, np.int64)
    for files in found.files.values():
        total += np.where((files.codes == GOOD) & (files.sizes <= most), files.sizes, 0)
        total += np.where(files.codes == FETCH, _FETCHED_BYTES, 0)
    return total
