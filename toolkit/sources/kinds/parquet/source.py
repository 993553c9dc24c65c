"""Parquet files as a source: row groups cut into slices, and their rows in batches of a few MiB.

What is kept of a file between survey and read is its size, times and inode: one that was changed since is refused.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from toolkit.errors import UsageError
from toolkit.format.schema import Kind
from toolkit.sources.base import PIECE_BYTES, Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.files import InputFile, ends_with, find_files, group_by_split
from toolkit.sources.kinds.parquet.fields import Plan, is_pandas_index, make_plan
from toolkit.sources.kinds.parquet.files import (
    SUFFIXES,
    Footer,
    batch_rows,
    check_alike,
    looks_like_parquet,
    open_parquet,
    partitions_of,
    read_footer,
    read_group,
    share_of,
)
from toolkit.sources.kinds.parquet.rows import RowMaker
from toolkit.sources.labels import check_label_options
from toolkit.sources.names import printable
from toolkit.sources.options import LabelMode, SourceOptions
from toolkit.sources.reject import Reject
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.state import FileState, check_unchanged
from toolkit.storage.files import storage_errors

__all__ = ["ParquetSource"]

# Path, name, state; first row group, rows to read of each at a time, first row of the file, rows.
_Payload = tuple[str, str, FileState, int, tuple[int, ...], int, int]


@dataclass(frozen=True, kw_only=True)
class _ParquetSurvey(Survey):
    plan: Plan


class ParquetSource(Source):
    """Parquet files, in folders of splits and partitions or not."""

    def __init__(self, options: SourceOptions) -> None:
        if options.label_mode is LabelMode.IMAGEFOLDER:
            raise UsageError("--label-mode imagefolder means nothing for a source of kind parquet: leave it out")
        check_label_options(options.label_mode, require_labels=options.require_labels, classes=options.classes)
        self._options = options

    def survey(self) -> Survey:
        """Read the footers; of the values, only those that tell a column's kind or classes."""
        options = self._options
        skips = Skips(("pandas_index", *FILE_REASONS))
        files = find_files(options, ends_with(SUFFIXES), looks_like_parquet, skips)
        footers = [read_footer(file) for file in files]
        for footer in footers:
            if not footer.rows:
                skips.add("empty", footer.file.name)
        first = next((footer for footer in footers if footer.rows), footers[0])
        if options.map is None and options.columns is None:
            _check_alike(first, footers, lambda name: not is_pandas_index(name, options))
        for name in first.schema.names:
            if is_pandas_index(name, options):
                skips.add("pandas_index", name)
        plan = make_plan(first, footers, options)
        _check_alike(first, footers, plan.fields.__contains__)
        by_path = {footer.file.path: footer for footer in footers}
        splits = {
            split: [by_path[file.path] for file in members] for split, members in _group(files, options.split).items()
        }
        share = share_of(first, plan.fields)
        return _ParquetSurvey(
            columns=tuple(column.column for column in plan.columns),
            types={column.column.name: column.type for column in plan.columns},
            classes={c.column.name: c.classes for c in plan.columns if c.column.kind is Kind.LABEL},
            splits=tuple(splits),
            slices=tuple(
                part for split, members in splits.items() for part in _cut(split, members, share, plan.fields, options)
            ),
            skipped=skips.counts,
            skipped_names=skips.names,
            options={
                "classes_given": options.classes is not None,
                "exclude": [printable(pattern) for pattern in options.exclude],
                "fields": {column.column.name: column.field for column in plan.columns},
                "include": [printable(pattern) for pattern in options.include],
                "key": options.key,
                "label_mode": options.label_mode.value,
                "limit": options.limit,
                "require_labels": options.require_labels,
                "split": options.split,
            },
            plan=plan,
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read the slice's row groups."""
        if not isinstance(survey, _ParquetSurvey):
            raise TypeError("the survey is of another source")
        payload: _Payload = part.payload  # type: ignore[assignment]
        path, name, state, first_group, sizes, first_row, left = payload
        input_file = InputFile(path, name, state.size)
        maker = RowMaker(survey.plan, rows_schema(survey), input_file, partitions_of(name))
        fields = survey.plan.fields
        pending: list[pa.RecordBatch] = []
        rejects: list[Reject] = []
        waiting = done = told = 0
        with open_parquet(path, len(fields)) as file:
            _check_state(path, state)
            for group, size in enumerate(sizes, first_group):
                rows = min(left, file.metadata.row_group(group).num_rows)
                left -= rows
                for batch in read_group(file, input_file, group, fields, size, rows):
                    made, found = maker.make(batch, first_row + done)
                    nbytes = made.nbytes
                    if waiting + nbytes > PIECE_BYTES and pending:
                        read = part.bytes * done // (part.samples or 1)
                        yield Rows(pa.concat_batches(pending), tuple(rejects), read - told)
                        pending, rejects, waiting, told = [], [], 0, read
                    pending.append(made)
                    rejects += found
                    waiting += nbytes
                    done += batch.num_rows
        if pending:
            yield Rows(pa.concat_batches(pending), tuple(rejects), part.bytes - told)
        _check_state(path, state)

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the slice's file."""
        payload: _Payload = part.payload  # type: ignore[assignment]
        return printable(payload[0])


def _check_alike(first: Footer, footers: Sequence[Footer], is_wanted: Callable[[str], bool]) -> None:
    for footer in footers:
        check_alike(first, footer, is_wanted)


def _group(files: Sequence[InputFile], split: str | None) -> dict[str, list[InputFile]]:
    """Return the files of each split; a partition folder named split=train tells it as one named train does."""
    named = [
        replace(file, name="/".join(part.partition("=")[2] or part for part in file.name.split("/"))) for file in files
    ]
    by_path = {file.path: file for file in files}
    return {name: [by_path[one.path] for one in members] for name, members in group_by_split(named, split).items()}


def _cut(
    split: str, footers: Sequence[Footer], share: float, fields: Sequence[str], options: SourceOptions
) -> Iterator[Slice]:
    """Cut each file between row groups, where those fill a slice; stop at the limit."""
    number = 0
    left = options.limit
    for footer in footers:
        first_row = 0
        sizes = batch_rows(footer, fields)
        for first, count in _runs([math.ceil(size * share) for _, size in footer.groups], options.slice_bytes):
            rows = sum(rows for rows, _ in footer.groups[first : first + count])
            taken = rows if left is None else min(rows, left)
            if taken:
                size = math.ceil(sum(size for _, size in footer.groups[first : first + count]) * share * taken / rows)
                payload = (
                    footer.file.path,
                    footer.file.name,
                    footer.state,
                    first,
                    sizes[first : first + count],
                    first_row,
                    taken,
                )
                yield Slice(split, number, taken, size, payload, printable(payload[1]))
                number += 1
                left = None if left is None else left - taken
            first_row += rows


def _runs(sizes: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Yield (first, count) of neighbours that together take `most` at the most, or of one that takes more alone."""
    first = total = 0
    for i, size in enumerate(sizes):
        if i > first and total + size > most:
            yield first, i - first
            first, total = i, 0
        total += size
    if sizes:
        yield first, len(sizes) - first


def _check_state(path: str, then: FileState) -> None:
    with storage_errors("read", path):
        now = FileState.of(os.stat(path))
    check_unchanged(path, then, now)
