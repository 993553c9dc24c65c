"""CSV and TSV files as a source; and folders of pictures with such files at their top, as those of Kaggle."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from toolkit.errors import SourceError
from toolkit.format.kinds import Kind
from toolkit.sources.base import Survey
from toolkit.sources.file_names import is_delimited
from toolkit.sources.files import InputFile, expand, find_files, group_by_split
from toolkit.sources.kinds.csv.pictures import find_extension, find_rule, top_tables
from toolkit.sources.names import printable
from toolkit.sources.options import LabelMode, SourceOptions
from toolkit.sources.patterns import Patterns
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.tables.delimited.dialect import make_dialect
from toolkit.sources.tables.delimited.read import read_delimited
from toolkit.sources.tables.delimited.table import DelimitedTable
from toolkit.sources.tables.listing import refuse_outside
from toolkit.sources.tables.passed import BesidePictures
from toolkit.sources.tables.path_rule import PathRule, RuledTable
from toolkit.sources.tables.plan import LABEL_FIELD
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table

__all__ = ["CsvSource"]

_SUBMISSION = re.compile(r"(?:^|[/._-])sub(?:mission)?s?(?=$|[/._-])|submission", re.IGNORECASE)


class CsvSource(TableSource):
    """Files of delimited text."""

    kind = "csv"
    reasons = ("blank_lines", *FILE_REASONS)

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        make_dialect(options, ",")
        self._all: Sequence[Table] = ()
        self._warnings: list[str] = []

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Return a table for each file."""
        folder = self._picture_folder()
        if folder is not None:
            return self._with_pictures(folder, skips)
        return self._all_below(skips)

    def all_tables(self, splits: Mapping[str, Sequence[Table]]) -> Sequence[Table]:
        """Return the tables of all files."""
        return self._all

    def survey(self) -> Survey:
        """Find tables, columns, classes and files."""
        found = super().survey()
        return replace(found, warnings=(*self._warnings, *found.warnings))

    def _picture_folder(self) -> str | None:
        """Return the folder whose pictures a table at its top may name, unless options say where they are."""
        options = self.options
        paths = [path for one in options.paths for path in expand(one)]
        asked = options.image_column is not None or options.root is not None
        return paths[0] if len(paths) == 1 and os.path.isdir(paths[0]) and not asked else None

    def _all_below(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Return the tables of all files that are given."""
        options = self.options
        columns = options.image_column or ()
        in_folder = bool(columns) and any(os.path.isdir(path) for one in options.paths for path in expand(one))
        found = find_files(options, is_delimited, None, BesidePictures(skips) if in_folder else skips)
        read: dict[str, Table] = {}
        for path, table in read_delimited(found, options, skips).items():
            root = options.root or os.path.dirname(os.path.abspath(path))
            rule = find_extension(table.file, columns[0], root, options) if len(columns) == 1 else None
            facts = table.facts
            if in_folder:
                facts = replace(facts, files=dict.fromkeys(columns, root), counts_unlisted=True)
            read[path] = RuledTable(table, [] if rule is None else [rule], facts) if columns else table
        return self._in_splits(group_by_split(found, options.split), read)

    def _in_splits(
        self, groups: Mapping[str, Sequence[InputFile]], found: Mapping[str, Table]
    ) -> dict[str, list[Table]]:
        self._all = list(found.values())
        return {split: [found[file.path] for file in members] for split, members in groups.items()}

    def _with_pictures(self, folder: str, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Return the tables at the top of a folder that name its pictures; all tables below it if none does."""
        options = self.options
        rules: dict[str, PathRule] = {}
        others: list[InputFile] = []
        tables: list[InputFile] = []
        patterns = Patterns(options.include, options.exclude)
        for file in top_tables(folder):
            if not patterns.takes(file.name) or _SUBMISSION.search(file.name):
                others.append(file)
                continue
            refuse_outside(file.path, folder, follow_links=options.follow_links)
            rule = find_rule(file, folder, options)
            if rule is None:
                others.append(file)
            else:
                rules[file.path] = rule
                tables.append(file)
        if not rules:
            return self._all_below(skips)
        for file in others:
            reason = "submissions" if _SUBMISSION.search(file.name) else "other_tables"
            skips.add(reason if patterns.takes(file.name) else "excluded", file.name)
        self._check_rules(rules)
        name = next(iter(rules.values())).name
        found = read_delimited(tables, options, skips, as_text={rule.field for rule in rules.values()}, may_lack=True)
        self._tell_lacking(found.values())
        self._tell_unlabelled(found.values())
        read: dict[str, Table] = {}
        for path, table in found.items():
            facts = replace(table.facts, files={name: folder}, key=name, counts_unlisted=True)
            read[path] = RuledTable(table, [rules[path]], facts)
        return self._in_splits(group_by_split(tables, options.split), read)

    def _check_rules(self, rules: Mapping[str, PathRule]) -> None:
        first, *others = rules.items()
        for path, rule in others:
            if (rule.name, rule.field, rule.replaces) != (first[1].name, first[1].field, first[1].replaces):
                raise SourceError(
                    f"{printable(first[0])!r} names pictures in its column {first[1].field!r} and {printable(path)!r} "
                    f"in {rule.field!r}, or with an extension and without: pack them one after the other, with "
                    "--exclude, and --on-existing append for the second"
                )

    def _tell_unlabelled(self, tables: Iterable[DelimitedTable]) -> None:
        asked = Kind.LABEL in self.options.kind.values() or self.options.label_mode is LabelMode.NONE
        if not asked and not any(LABEL_FIELD in table.schema.names for table in tables):
            names = ", ".join(table.shown for table in tables)
            self._warnings.append(
                f"{names} tells of the pictures, and has no column called {LABEL_FIELD!r}: say which one is a label "
                "with --kind COLUMN=label, or take folders as classes with --source-kind imagefolder"
            )

    def _tell_lacking(self, tables: Iterable[DelimitedTable]) -> None:
        for table in tables:
            if table.lacking and table.rows:
                names = ", ".join(repr(printable(name)) for name in table.lacking)
                self._warnings.append(f"{table.shown} has no column {names}: null in all its rows")
