"""A source: toolkit pack FOLDER DATASET, where the folder holds .rows files, whose rows are samples.

A .rows file is "ROWS", the number of columns as a little-endian uint32, and the rows as little-endian float32.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from toolkit.errors import SourceError
from toolkit.format.schema import Column, Kind
from toolkit.sources.base import PIECE_BYTES, Rows, Slice, Source, Survey, rows_schema, too_large
from toolkit.sources.files import find_files, group_by_split
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.reject import Reject
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.spec import COMMON, SourceSpec
from toolkit.sources.state import FileState, check_unchanged
from toolkit.storage.local import storage_errors

__all__ = ["SPEC", "RowsSource", "RowsSpec"]

_MAGIC = b"ROWS"
_HEAD_BYTES = len(_MAGIC) + 4
_NUMBER_BYTES = 4


class RowsSpec(SourceSpec):
    """.rows files, a sample a row: a column "x" of lists."""

    name = "rows"
    title = "files of rows (.rows)"
    sign = ".rows files by content"
    survey_text = "the headers of files are read"
    accepts = COMMON

    def looks_like(self, path: str) -> bool:
        """Tell whether the file begins as they do."""
        with storage_errors("read", path), open(path, "rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC

    def is_named(self, name: str) -> bool:
        """Tell whether the file is called as they are."""
        return name.lower().endswith(".rows")

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        return RowsSource(options)


class _File(NamedTuple):
    """What a slice is: a file, as it was when it was listed."""

    path: str
    name: str
    state: FileState


class RowsSource(Source):
    """Reads them, a slice a file."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options

    def survey(self) -> Survey:
        """Read the headers: all files have rows of one length."""
        skips = Skips(("empty", *FILE_REASONS))
        files = find_files(self._options, SPEC.is_named, SPEC.looks_like, skips)
        arrays = {file.name: _mapped(file.path) for file in files}
        full = [file for file in files if len(arrays[file.name])]
        for file in files:
            if file not in full:
                skips.add("empty", file.name)
        if not full:
            raise SourceError(f"no row in {', '.join(map(repr, self._options.paths))}: give files that have some")
        first = arrays[full[0].name]
        for file in full:
            array = arrays[file.name]
            if array.shape[1] != first.shape[1]:
                raise SourceError(
                    f"{printable(file.path)!r} has rows of {array.shape[1]} numbers, and "
                    f"{printable(full[0].path)!r} of {first.shape[1]}: pack them apart"
                )
        dtype = pa.list_(pa.float32(), first.shape[1])
        groups = group_by_split(full, self._options.split)
        return Survey(
            columns=(Column(name="x", kind=Kind.VALUE, arrow_type=str(dtype)),),
            types={"x": dtype},
            classes={},
            splits=tuple(groups),
            slices=tuple(
                Slice(
                    split,
                    number,
                    len(arrays[file.name]),
                    file.bytes,
                    _File(file.path, file.name, FileState.of(os.stat(file.path))),
                    printable(file.path),
                )
                for split, members in groups.items()
                for number, file in enumerate(members)
            ),
            skipped=skips.counts,
            skipped_names=skips.names,
            options={"include": list(self._options.include), "exclude": list(self._options.exclude)},
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read a file; rows with a number that isn't finite are rejected."""
        path, name, state = part.payload  # type: ignore[misc]
        with storage_errors("read", path):
            array = _mapped(path)
            check_unchanged(path, state, FileState.of(os.stat(path)))
        schema = rows_schema(survey)
        bytes_of_row = array.dtype.itemsize * array.shape[1]
        at_a_time = max(1, PIECE_BYTES // bytes_of_row)
        for start in range(0, len(array), at_a_time):
            rows = array[start : start + at_a_time].astype(np.float32)
            keys = [f"{printable(name)}#{number}" for number in range(start, start + len(rows))]
            is_good = np.isfinite(rows).all(axis=1)
            reason = "a number of it isn't finite"
            if bytes_of_row > self._options.max_value_bytes:
                is_good[:] = False
                reason = too_large(bytes_of_row, self._options.max_value_bytes)
            rejects = tuple(Reject(part.source, keys[i], reason) for i in np.flatnonzero(~is_good))
            columns = [
                pa.array([keys[i] for i in np.flatnonzero(is_good)], pa.string()),
                pa.FixedSizeListArray.from_arrays(pa.array(rows[is_good].reshape(-1)), type=survey.types["x"]),
            ]
            yield Rows(pa.RecordBatch.from_arrays(columns, schema=schema), rejects, rows.nbytes)

    def place(self, part: Slice, key: str) -> str:
        """Return the file's path."""
        return part.source


def _mapped(path: str) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the rows of a file, mapped. Raises SourceError: it is none, or damaged."""
    with storage_errors("read", path), open(path, "rb") as file:
        head = file.read(_HEAD_BYTES)
        size = os.fstat(file.fileno()).st_size - _HEAD_BYTES
    columns = int.from_bytes(head[len(_MAGIC) :], "little")
    if head[: len(_MAGIC)] != _MAGIC or not columns or size % (columns * _NUMBER_BYTES):
        raise SourceError(f"{printable(path)!r} is no .rows file, or ends within a row: write it again")
    if not size:
        return np.zeros((0, columns), np.float32)
    return np.memmap(path, "<f4", "r", _HEAD_BYTES, (size // (columns * _NUMBER_BYTES), columns))


SPEC = RowsSpec()
