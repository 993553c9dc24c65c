"""Arrays of equal length as a table: a row is one index of all of them."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.kinds import Kind
from toolkit.sources.arrays.columns import ArrayColumn, TypeWords, UnfitTypeError, columns_of
from toolkit.sources.arrays.naming import asked_kinds
from toolkit.sources.arrays.stored import StoredArray
from toolkit.sources.base import PIECE_BYTES, too_large
from toolkit.sources.files import InputFile
from toolkit.sources.names import printable
from toolkit.sources.options import LabelMode, SourceOptions
from toolkit.sources.state import FileState, check_unchanged
from toolkit.sources.tables.table import Table, TableFacts
from toolkit.storage.files import storage_errors

__all__ = ["ArrayTable", "make_table", "shown"]

_MOST_ROWS = 4096  # of a batch: what is made of it is a few times as large
_MOST_PIECE_ROWS = 1 << 16
_WORKING_ROWS = 8  # rows that there are copies of
_LABELS = ("label", "labels", "y", "target", "targets")


class ArrayTable(Table):
    """A table of arrays that all have the same number of rows."""

    def __init__(
        self, file: InputFile, members: Sequence[tuple[StoredArray, Sequence[ArrayColumn]]], facts: TableFacts
    ) -> None:
        self.file = file
        self.facts = facts
        self._members = members
        self.schema = pa.schema([pa.field(column.field, column.type) for _, made in members for column in made])
        rows = members[0][0].rows
        size = _row_bytes(members)
        if any(array.is_one_pass for array, _ in members):
            self._piece_rows = max(1, rows)
        else:
            band = max(array.band_rows for array, _ in members)
            fit = max(1, min(_MOST_PIECE_ROWS, PIECE_BYTES // size))
            self._piece_rows = -(-fit // band) * band
        starts = range(0, rows, self._piece_rows)
        self.pieces = [(count, count * size) for count in (min(self._piece_rows, rows - start) for start in starts)]

    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Read the arrays side by side."""
        members = _with_fields(self._members, fields)
        start = first * self._piece_rows
        stop = min(self._members[0][0].rows, start + count * self._piece_rows)
        step = max(1, min(_MOST_ROWS, PIECE_BYTES // _row_bytes(members)))
        self._check_states()
        with ExitStack() as stack:
            blocks = [stack.enter_context(array.blocks(start, stop, step)) for array, _ in members]
            waiting: list[NDArray[Any]] = [np.zeros(0) for _ in members]
            while start < stop:
                waiting = [
                    block if len(block) else _next(array, each)
                    for block, (array, _), each in zip(waiting, members, blocks, strict=True)
                ]
                rows = min(map(len, waiting))
                made = {
                    column.field: _values(array, column, block[:rows])
                    for block, (array, columns) in zip(waiting, members, strict=True)
                    for column in columns
                }
                yield pa.RecordBatch.from_arrays([made[name] for name in fields], names=list(fields))
                waiting = [block[rows:] for block in waiting]
                start += rows
            # What is checked at an array's end is checked before anybody takes these rows for all there are.
            for each in blocks:
                next(each, None)
        self._check_states()

    @property
    def shown(self) -> str:
        """The path, for messages, and the split if the file holds several."""
        split = self.file.name.rpartition("/")[2]
        own = repr(printable(self.file.path))
        return own if split == os.path.basename(self.file.path) else f"{own} ({split})"

    def fingerprint(self, first: int, count: int) -> str:
        """Return the states of the files, and which rows these are."""
        return f"{first * self._piece_rows}+{count * self._piece_rows} of {sorted(self._states().items())}"

    def narrowed(self, fields: Sequence[str]) -> ArrayTable:
        """Return the table of these fields alone: arrays that aren't read cost nothing."""
        return ArrayTable(self.file, _with_fields(self._members, fields), self.facts)

    @property
    def working_bytes(self) -> int:
        """What reading takes in memory, at the most and about, besides a few pieces."""
        return _WORKING_ROWS * _row_bytes(self._members) + sum(array.cache_bytes for array, _ in self._members)

    def _states(self) -> Mapping[str, FileState]:
        return {array.path: array.state for array, _ in self._members}

    def _check_states(self) -> None:
        for path, state in self._states().items():
            with storage_errors("read", path):
                now = FileState.of(os.stat(path))
            check_unchanged(path, state, now)


def make_table(
    file: InputFile, arrays: Mapping[str, StoredArray], options: SourceOptions, words: TypeWords
) -> ArrayTable:
    """Return the table of arrays of the same length.

    With --classes, a field of integers that is called as labels are is one, where there is one alone.

    Args:
        file: What keys are made of.
        arrays: By the names of their fields.
        options: What is asked for.
        words: What the file says of types.

    Raises:
        SourceError: An array has values that can't be stored, or that are larger than they may be.
        UsageError: It can't be of the kind that is asked for.
    """
    asked = _asked(arrays, options)
    members = [
        (array, tuple(_columns_of("" if len(arrays) == 1 and array.dtype.names else name, array, asked, words)))
        for name, array in arrays.items()
    ]
    kinds: dict[str, Kind] = {}
    classes: dict[str, tuple[str, ...]] = {}
    for array, columns in members:
        for column in columns:
            if column.row_bytes > options.max_value_bytes:
                raise SourceError(f"{shown(array)}: in each row {too_large(column.row_bytes, options.max_value_bytes)}")
            kind = column.kind or asked.get(column.field)
            if kind is not None:
                kinds[column.field] = kind
            with _unfit(array):
                names = None if column.shape else words.classes(column.dtype)
            if names is not None:
                classes[column.field] = names
    return ArrayTable(file, members, TableFacts(kinds=kinds, classes=classes))


def _asked(arrays: Mapping[str, StoredArray], options: SourceOptions) -> dict[str, Kind]:
    """Return the kinds that are asked for: by --kind, and by --classes for the one field called as labels are."""
    asked = asked_kinds(options)
    labels = [
        name
        for name, array in arrays.items()
        if name.lower() in _LABELS and array.dtype.kind in "iu" and math.prod(array.shape[1:]) == 1
    ]
    if options.classes is not None and len(labels) == 1 and options.label_mode is not LabelMode.NONE:
        asked.setdefault(labels[0], Kind.LABEL)
    return asked


def shown(array: StoredArray) -> str:
    """Return an array's name for messages."""
    return f"array {array.name!r} of {printable(array.path)!r}"


def _columns_of(name: str, array: StoredArray, asked: Mapping[str, Kind], words: TypeWords) -> Iterator[ArrayColumn]:
    """Yield the columns of an array; those of a structured one without a name have the names of its fields."""
    with _unfit(array):
        yield from columns_of(name, array.dtype, array.shape[1:], asked, words)


@contextmanager
def _unfit(array: StoredArray) -> Iterator[None]:
    try:
        yield
    except UnfitTypeError as fault:
        raise SourceError(f"{shown(array)}: {fault}. Convert it, or name the arrays to pack with --columns") from fault


def _with_fields(
    members: Sequence[tuple[StoredArray, Sequence[ArrayColumn]]], fields: Sequence[str]
) -> list[tuple[StoredArray, Sequence[ArrayColumn]]]:
    wanted = set(fields)
    some = [(array, [column for column in columns if column.field in wanted]) for array, columns in members]
    return [(array, columns) for array, columns in some if columns]


def _next(array: StoredArray, blocks: Iterator[NDArray[Any]]) -> NDArray[Any]:
    block = next(blocks, None)
    if block is None or not len(block):
        raise SourceError(f"{shown(array)} ends before its {array.rows} rows: it is damaged")
    return block


def _values(array: StoredArray, column: ArrayColumn, block: NDArray[Any]) -> pa.Array:
    with _unfit(array):
        return column.values(block)


def _row_bytes(members: Sequence[tuple[StoredArray, Sequence[ArrayColumn]]]) -> int:
    plain = sum(column.row_bytes for _, columns in members for column in columns)
    return max(1, plain + sum(array.more_row_bytes for array, _ in members))
