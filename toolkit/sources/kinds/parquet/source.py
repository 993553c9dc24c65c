"""Parquet files as a source: which files, of which splits; their rows are the business of toolkit.sources.tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from toolkit.sources.files import InputFile, ends_with, find_files, group_by_split
from toolkit.sources.kinds.parquet.files import SUFFIXES, check_folders, looks_like_parquet, read_footer
from toolkit.sources.kinds.parquet.table import ParquetTable, is_pandas_index, make_tables
from toolkit.sources.names import printable
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.tables.plan import Plan
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table

__all__ = ["ParquetSource"]


class ParquetSource(TableSource):
    """Parquet files, in folders of splits and partitions or not."""

    kind = "parquet"
    reasons = ("pandas_index", *FILE_REASONS)

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Read the footers."""
        options = self.options
        files = find_files(options, ends_with(SUFFIXES), looks_like_parquet, skips)
        footers = [read_footer(file) for file in files]
        first = next((footer for footer in footers if footer.rows), footers[0])
        for footer in footers:
            check_folders(first, footer)
        for name in first.schema.names:
            if is_pandas_index(name, options):
                skips.add("pandas_index", name)
        self._tables = make_tables(first, footers, options)
        self._first = first
        by_path = {table.file.path: table for table in self._tables}
        groups = _group(files, options.split)
        return {split: [by_path[file.path] for file in members] for split, members in groups.items()}

    def all_tables(self, splits: Mapping[str, Sequence[Table]]) -> Sequence[Table]:
        """Return the tables of all files."""
        return self._tables

    def narrowed(self, table: Table, fields: Sequence[str]) -> Table:
        """Return the table for reading these fields: what they take of the first file, they take of each."""
        return table.narrowed_as(self._first, fields) if isinstance(table, ParquetTable) else table

    def shaping_options(self, plan: Plan) -> dict[str, object]:
        """Return all options that tables take: pins have had them, given or not."""
        options = self.options
        return {
            "classes_given": options.classes is not None,
            "exclude": [printable(pattern) for pattern in options.exclude],
            "fields": {column.column.name: column.field for column in plan.columns},
            "include": [printable(pattern) for pattern in options.include],
            "key": options.key,
            "label_mode": options.label_mode.value,
            "limit": options.limit,
            "require_labels": options.require_labels,
            "split": options.split,
            **self.file_options(),
        }


def _group(files: Sequence[InputFile], split: str | None) -> dict[str, list[InputFile]]:
    """Return the files of each split; a partition folder named split=train tells it as one named train does."""
    named = [
        replace(file, name="/".join(part.partition("=")[2] or part for part in file.name.split("/"))) for file in files
    ]
    by_path = {file.path: file for file in files}
    return {name: [by_path[one.path] for one in members] for name, members in group_by_split(named, split).items()}
