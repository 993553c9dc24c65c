"""Tables of JSON lines as a source: the union of the fields of all files, and the types that fit all their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from toolkit.sources.file_names import JSON_LINES
from toolkit.sources.files import ends_with, find_files, group_by_split
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.tables.json_lines.read import read_json_lines
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.stream import check_encoding
from toolkit.sources.tables.table import Table

__all__ = ["JsonLinesSource"]


class JsonLinesSource(TableSource):
    """Files of JSON lines."""

    kind = "jsonl"
    reasons = ("blank_lines", *FILE_REASONS)

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        check_encoding(options.encoding)
        self._all: Sequence[Table] = ()

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Return a table for each file."""
        files = find_files(self.options, ends_with(JSON_LINES), None, skips)
        groups = group_by_split(files, self.options.split)
        found = read_json_lines(files, self.options, skips)
        self._all = list(found.values())
        return {split: [found[file.path] for file in members] for split, members in groups.items()}

    def all_tables(self, splits: Mapping[str, Sequence[Table]]) -> Sequence[Table]:
        """Return the tables of all files."""
        return self._all
