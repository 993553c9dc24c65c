"""Rows of splits for polars, as it asks for them: only the columns it needs, checked like any value, piece by piece."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from toolkit.checks.query_columns import QueryColumn, polars_type, series_of
from toolkit.loader.dataset.opened import Opened
from toolkit.processors import processors

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

__all__ = ["Scan"]

_FIRST_ROWS = 1 << 13  # of a piece; each is twice as large as the one before, since LIMIT may need few
_PIECE_ROWS = 1 << 18
_PIECE_BYTES = 64 << 20  # of record batches, where large columns are read
_MOST_THREADS = 4


@dataclass(frozen=True, slots=True)
class _Run:
    """Rows [start, start + count) of a record batch of a split."""

    batch: int
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """What is read at a time: runs of one split, by its number."""

    part: int
    runs: tuple[_Run, ...]

    @property
    def rows(self) -> int:
        return sum(run.count for run in self.runs)


class Scan:
    """A table of a query: the rows of splits, one split after the other.

    Attributes:
        failed: What kept the table from being read, when something did.
    """

    def __init__(self, parts: Sequence[Opened], columns: Sequence[QueryColumn]) -> None:
        self.failed: Exception | None = None
        self._parts = parts
        self._columns = {column.name: column for column in columns}

    def frame(self) -> pl.LazyFrame:
        """Return the table. Raises UsageError for a column that polars can't hold."""
        from polars.io.plugins import register_io_source

        schema = {name: polars_type(column) for name, column in self._columns.items()}
        return register_io_source(self._read, schema=schema, is_pure=True)

    def _read(
        self, with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows, as polars.io.plugins says; what goes wrong is kept for whoever asked."""
        wanted = list(self._columns) if with_columns is None else with_columns
        try:
            yield from self._frames(wanted, predicate, n_rows)
        except Exception as error:
            self.failed = self.failed or error
            raise

    def _frames(self, wanted: list[str], predicate: pl.Expr | None, n_rows: int | None) -> Iterator[pl.DataFrame]:
        # Half of the processors: polars computes on all of them, and threads of Python wait for each other besides.
        threads = max(1, min(_MOST_THREADS, processors() // 2))
        pieces = self._pieces(n_rows, any(self._columns[name].large for name in wanted))
        pool = ThreadPoolExecutor(threads, thread_name_prefix="toolkit-query")
        waiting: deque[Future[pl.DataFrame]] = deque()
        try:
            for piece in pieces:
                waiting.append(pool.submit(self._piece, piece, wanted, predicate))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _pieces(self, n_rows: int | None, large: bool) -> Iterator[_Piece]:
        left = n_rows
        most = _FIRST_ROWS
        for number, part in enumerate(self._parts):
            runs: list[_Run] = []
            rows = nbytes = 0
            for batch in range(part.index.batches):
                if left == 0:
                    break
                info = part.index.batch(batch)
                count = info.rows if left is None else min(info.rows, left)
                left = None if left is None else left - count
                runs.append(_Run(batch, 0, count))
                rows, nbytes = rows + count, nbytes + info.body_bytes
                if rows >= most or (large and nbytes >= _PIECE_BYTES):
                    yield _Piece(number, tuple(runs))
                    runs, rows, nbytes = [], 0, 0
                    most = min(most * 2, _PIECE_ROWS)
            if runs:
                yield _Piece(number, tuple(runs))

    def _piece(self, piece: _Piece, wanted: list[str], predicate: pl.Expr | None) -> pl.DataFrame:
        """Return the rows of a piece for which the predicate is true."""
        import polars as pl

        asked = set() if predicate is None else set(predicate.meta.root_names())
        if predicate is None or not asked:
            frame = self._columns_of(piece, wanted)
            return frame if predicate is None else frame.filter(predicate)
        frame = self._columns_of(piece, [name for name in self._columns if name in asked])
        mask = frame.select(predicate.alias("")).to_series()
        if mask.null_count():
            mask = mask.fill_null(False)
        if len(mask) != piece.rows:  # true or false of all rows
            mask = mask.new_from_index(0, piece.rows)
        rest = [name for name in wanted if name not in asked]
        kept = [name for name in wanted if name in asked]
        if kept or not wanted:
            frame = frame.select(kept or frame.columns[:1]).filter(mask)
        if rest:
            # From the first row of a record batch that passes to its last, and those between them that do.
            runs: list[_Run] = []
            masks: list[pa.Array] = []
            start = 0
            for run in piece.runs:
                hits = mask.slice(start, run.count).arg_true()
                if len(hits):
                    low, high = hits[0], hits[-1] + 1
                    runs.append(_Run(run.batch, run.start + low, high - low))
                    masks.append(mask.slice(start + low, high - low).to_arrow())
                start += run.count
            others = self._columns_of(_Piece(piece.part, tuple(runs)), rest, masks)
            frame = frame.hstack(others.get_columns()) if kept else others
        return frame.select(wanted) if wanted else pl.DataFrame(height=frame.height)

    def _columns_of(self, piece: _Piece, names: Sequence[str], masks: Sequence[pa.Array] | None = None) -> pl.DataFrame:
        """Return columns of a piece; with `masks`, one a run, of the rows that they choose."""
        import polars as pl

        part = self._parts[piece.part]
        rows = piece.rows if masks is None else sum(mask.true_count for mask in masks)
        read: dict[str, list[pa.Array]] = {}
        made = []
        for column in (self._columns[name] for name in names):
            name = column.stored
            if name is not None and name not in read:
                arrays = [part.fetcher.array(name, run.batch, run.start, run.count) for run in piece.runs]
                # Before they are polars': most of the work is to make its texts.
                read[name] = arrays if masks is None else list(map(_chosen, arrays, masks))
            made.append(series_of(column, [] if name is None else read[name], rows, part.split))
        return pl.DataFrame(made) if made else pl.DataFrame(height=rows)  # of joins polars may want rows and no column


def _chosen(array: pa.Array, mask: pa.Array) -> pa.Array:
    return array.filter(mask)
