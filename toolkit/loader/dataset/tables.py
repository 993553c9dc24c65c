"""Read columns of rows as Arrow arrays, in the order of the rows: record batch by record batch, each value checked."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.errors import SampleError
from toolkit.format.layout import leaf_name
from toolkit.format.media import StoredForm
from toolkit.format.references import is_reference
from toolkit.loader.dataset.opened import Opened, Stored
from toolkit.pipelines.media import Held, held_medium
from toolkit.processors import processors

__all__ = [
    "RUN_ROWS",
    "Run",
    "Wanted",
    "held_by",
    "in_threads",
    "missing_error",
    "packed_form",
    "read_column",
    "read_table",
    "wanted",
]

_MOST_OFFSET = (1 << 31) - 1  # what the offsets of a plain text or list column reach
_MOST_READ = 16  # rows of a split for each one asked for, up to which all are read
_FILES_AT_ONCE = 1024
_FILE_BYTES_AT_ONCE = 256 << 20
_SLICE_ROWS = 1 << 16
RUN_ROWS = 1 << 16
"""Rows of a run at least, where its record batch has as many: a column of numbers of them fits a processor's cache."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Run:
    """Rows [start, start + count) of record batch `batch` of a split; `row` is the first one among all splits' rows."""

    part: Opened
    batch: int
    row: int
    start: int
    count: int

    def array(self, column: str) -> pa.Array:
        """Return a column of the rows. Raises CorruptShardError."""
        return self.part.fetcher.array(column, self.batch, self.start, self.count)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Record batches that hold rows, and where among their rows each of them lies.

    Attributes:
        batches: The split of each, its number there, and its first row among all splits' rows.
        places: int64, one for each row asked for: its place among the rows of these batches, one behind the other. None
            where those are the rows, in this order.
    """

    batches: list[tuple[Opened, int, int]]
    places: NDArray[np.int64] | None

    def arrays(self, column: str) -> Iterator[pa.Array]:
        """Yield a column of each record batch. Raises CorruptShardError, CorruptTableError."""
        return in_threads(lambda batch: batch[0].fetcher.array(column, batch[1]), self.batches)

    def runs(self) -> list[Run]:
        """Return the rows of the record batches in pieces of RUN_ROWS to twice as many, a smaller batch in one."""
        runs = []
        for part, number, first in self.batches:
            rows = part.index.batch(number).rows
            # Whole bytes of bits: an array that begins within one has to be shifted.
            step = -(-rows // max(1, rows // RUN_ROWS) // 8) * 8
            for start in range(0, rows, step or 1):
                runs.append(Run(part, number, first + start, start, min(step, rows - start)))
        return runs


def in_threads(
    function: Callable[[_Item], _Result], items: Sequence[_Item], ahead: int | None = None
) -> Iterator[_Result]:
    """Yield what a function returns for each item, in order; they run at the same time, on as many threads as help.

    What one raises is raised in its place, and those that haven't begun are left out. With `ahead`, no more than so
    many results wait to be taken.
    """
    threads = min(processors(), len(items))
    if threads < 2:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="toolkit-read") as pool:
        waiting: deque[Future[_Result]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if ahead is not None and len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def wanted(stored: Stored, rows: NDArray[np.int64] | None) -> Wanted:
    """Return what is read for some rows; for all in their order where `rows` is None. Raises CorruptTableError."""
    if rows is None or len(rows) * _MOST_READ >= stored.rows:
        first, batches = 0, []
        for part in stored.parts:
            starts = (first + part.index.batch(number).start for number in range(part.index.batches))
            batches += [(part, number, start) for number, start in enumerate(starts)]
            first += part.rows
        return Wanted(batches, rows)
    if not len(rows):
        return Wanted([], rows)
    found: list[tuple[Opened, int, int]] = []
    sizes: list[int] = []
    apart, first = np.unique(rows), 0
    for part in stored.parts:
        inside = apart[np.searchsorted(apart, first) : np.searchsorted(apart, first + part.rows)] - first
        while len(inside):
            number = part.index.batch_of(int(inside[0]))
            batch = part.index.batch(number)
            found.append((part, number, first + batch.start))
            sizes.append(batch.rows)
            inside = inside[np.searchsorted(inside, batch.start + batch.rows) :]
        first += part.rows
    begins = np.array([start for _, _, start in found], np.int64)
    shifts = np.cumsum([0, *sizes[:-1]]) - begins
    return Wanted(found, rows + shifts[np.searchsorted(begins, rows, side="right") - 1])


def held_by(stored: Stored, column: str) -> Held | None:
    """Return the medium that a column holds, and the form it is stored in; None of another column."""
    known = next((one for one in stored.columns if one.name == column), None)
    return None if known is None else held_medium(known.kind, stored.schema.field(column).type)


def packed_form(held: Held) -> StoredForm:
    """Return the form that a medium's values are given in: that of references is that of the files they lead to."""
    return held.medium.stored.source_form if is_reference(held.form.type) else held.form


def read_table(stored: Stored, columns: Sequence[str], rows: NDArray[np.int64] | None) -> pa.Table:
    """Return columns of rows, or of all where `rows` is None.

    Raises:
        CorruptShardError, CorruptTableError: A value isn't what was packed.
    """
    if not columns:
        return pa.table({"": pa.nulls(stored.rows if rows is None else len(rows))}).select([])
    arrays = [read_column(stored, column, rows) for column in columns]
    fields = [stored.schema.field(column).with_type(array.type) for column, array in zip(columns, arrays, strict=True)]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def read_column(stored: Stored, column: str, rows: NDArray[np.int64] | None) -> pa.ChunkedArray:
    """Return a column of rows; references as their values would be packed. Raises as read_table()."""
    dtype = stored.schema.field(column).type
    held = held_by(stored, column)
    if held is not None:
        every = np.arange(stored.rows, dtype=np.int64) if rows is None else rows
        return pa.chunked_array(_media(stored, column, held, every), packed_form(held).type)
    plan = wanted(stored, rows)
    chunks = list(plan.arrays(column))
    if plan.places is None:
        return pa.chunked_array(chunks, dtype)
    return _taken(chunks, dtype, plan.places)


def _taken(chunks: list[pa.Array], dtype: pa.DataType, places: NDArray[np.int64]) -> pa.ChunkedArray:
    """Return the values at places among all of the chunks."""
    if not len(places):
        return pa.chunked_array([], dtype)
    held = sum(chunk.nbytes for chunk in chunks)
    if held <= _MOST_OFFSET and held * len(places) <= _MOST_OFFSET * max(1, sum(map(len, chunks))):
        return pa.chunked_array([pc.take(pa.concat_arrays(chunks), pa.array(places), boundscheck=False)], dtype)
    wide = _wide(dtype)
    joined = pa.concat_arrays([chunk.cast(wide) for chunk in chunks])
    slices = (places[start : start + _SLICE_ROWS] for start in range(0, len(places), _SLICE_ROWS))
    return pa.chunked_array([pc.take(joined, pa.array(part), boundscheck=False).cast(dtype) for part in slices], dtype)


def _wide(dtype: pa.DataType) -> pa.DataType:
    """Return the type with offsets of eight bytes: of many texts, four don't reach."""
    if dtype == pa.string():
        return pa.large_string()
    if dtype == pa.binary():
        return pa.large_binary()
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return pa.large_list(dtype.value_field.with_type(_wide(dtype.value_type)))
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(dtype.value_field.with_type(_wide(dtype.value_type)), dtype.list_size)
    if pa.types.is_struct(dtype):
        return pa.struct([child.with_type(_wide(child.type)) for child in dtype])
    return dtype


def _media(stored: Stored, column: str, held: Held, rows: NDArray[np.int64]) -> Iterator[pa.Array]:
    """Yield a medium's values as they are stored when packed: files with their names, or arrays with their sizes."""
    form, fetcher = packed_form(held), stored.fetcher
    payload = leaf_name(column, form.payload)
    for start in range(0, len(rows), _FILES_AT_ONCE):
        few = rows[start : start + _FILES_AT_ONCE]
        ends = np.cumsum(np.maximum(fetcher.lengths(payload, fetcher.locate(few)), 0))
        begun = 0
        while begun < len(few):
            before = int(ends[begun - 1]) if begun else 0
            end = max(begun + 1, int(np.searchsorted(ends, before + _FILE_BYTES_AT_ONCE, side="right")))
            located = fetcher.locate(few[begun:end])
            begun = end
            if form.is_decoded or form is not held.form:
                yield pa.array(fetcher.values(column, located), form.type)
                continue
            children = []
            files = fetcher.bytes(payload, located)
            for child in form.type:
                if child.name == form.payload:
                    children.append(pa.array(files, child.type))
                else:
                    leaf = leaf_name(column, child.name)
                    children.append(pa.array(fetcher.texts(leaf, located, fetcher.bytes(leaf, located)), child.type))
            missing = pa.array([file is None for file in files])
            yield pa.StructArray.from_arrays(children, fields=list(form.type), mask=missing)


def missing_error(
    stored: Stored, column: str, rows: NDArray[np.int64] | None, read: pa.ChunkedArray, instead: str = ""
) -> SampleError:
    """Return the error that says which samples of a column that was read at `rows` have no value.

    `instead` is what else can be done than to leave them out.
    """
    first = int(np.flatnonzero(read.is_null().to_numpy())[0])
    place = stored.fetcher.place(first if rows is None else int(rows[first]))
    return SampleError(
        f"{read.null_count} of {len(read)} samples have no {column}, the first is {place}: leave them out with "
        f".filter(pc.field({column!r}).is_valid()){instead}",
        dataset=place.dataset,
        shard=place.shard,
        row=place.row,
        key=place.key,
        slot=column,
        step="read",
    )
