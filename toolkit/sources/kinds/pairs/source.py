"""Paired files as a source: a table with a row for each stem, whose fields are paths."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import numpy as np
import pyarrow as pa

from toolkit.errors import SourceError, UsageError
from toolkit.format.kinds import Kind
from toolkit.sources.base import Slice, Survey
from toolkit.sources.extensions import kind_named
from toolkit.sources.files import InputFile
from toolkit.sources.kinds.pairs.listing import list_pairs
from toolkit.sources.kinds.pairs.patterns import Patterns, read_patterns
from toolkit.sources.kinds.pairs.samples import by_split, make_samples
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.patterns import Patterns as Globs
from toolkit.sources.places import source_folder
from toolkit.sources.reject import Reject
from toolkit.sources.skips import Skips
from toolkit.sources.tables.cut import TablePart
from toolkit.sources.tables.memory import MemoryTable
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table, TableFacts

__all__ = ["PairSource"]


class PairSource(TableSource):
    """Files that belong together by what they are called."""

    kind = "pairs"
    reasons = ("no_pattern", "excluded", "hidden", "loops")

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        if len(options.paths) > 1:
            raise UsageError(
                f"--pair takes one SOURCE, a folder, and there are {len(options.paths)}: give the folder that holds "
                "them all"
            )
        if options.pair is None:
            raise UsageError("a source of kind pairs needs patterns: --pair 'images/{}.jpg' 'mask=masks/{}.png'")
        self._patterns = read_patterns(options.pair)
        self._kinds = _kinds(self._patterns, options)
        self._warnings: tuple[str, ...] = ()

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """List the files, and put those of each stem together."""
        options, patterns = self.options, self._patterns
        top = source_folder(options.paths[0])
        listed, rejects = list_pairs(top, patterns, Globs(options.include, options.exclude), skips)
        for column, files in zip(patterns.columns, listed, strict=True):
            if not len(files):
                wanted = " or ".join(one.text for one in patterns.of(patterns.columns.index(column)))
                others = skips.names.get("no_pattern", ())
                seen = f"; {others[0]!r} fits no pattern, for one" if others else ""
                raise SourceError(f"no file in {printable(top)!r} is called {wanted}, for the column {column!r}{seen}")
        samples = make_samples(listed, patterns)
        self._warnings = samples.warnings
        first = patterns.columns[0]
        good = samples.paths.num_rows
        keys = pa.chunked_array(
            [*samples.paths[first].chunks, pa.array([one.key for one in samples.doubled], pa.large_string())]
        )
        facts = TableFacts(
            kinds=self._kinds,
            files=dict.fromkeys(patterns.columns, top),
            key=first,
            options={"pair": {column: list(texts) for column, texts in (options.pair or {}).items()}},
        )
        tables: dict[str, Sequence[Table]] = {}
        for split, rows in by_split(keys, options.split, top).items():
            found = [
                Reject(printable(os.path.join(top, one.files[0])), one.key, one.reason)
                for one in (samples.doubled[row - good] for row in rows[rows >= good].tolist())
            ]
            table = samples.paths.take(pa.array(rows[rows < good]))
            tables[split] = [_PairTable(InputFile(top, os.path.basename(top), 0), table, facts, (*rejects, *found))]
            rejects = ()
        return tables

    def survey(self) -> Survey:
        """Find the files; look at their status, and read none."""
        survey = super().survey()
        return replace(survey, warnings=(*survey.warnings, *self._warnings))

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the sample's first file."""
        return printable(os.path.join(cast(TablePart, part.payload).path, key))


class _PairTable(MemoryTable):
    """A row stands where its first file lies."""

    def __reduce__(self) -> tuple[object, ...]:
        return (_PairTable, *super().__reduce__()[1:])

    def narrowed(self, fields: Sequence[str]) -> Table:
        """Return the table as it is: all of its fields are columns."""
        return self

    def place(self, row: int) -> str:
        """Return the path of the first file that the row has a path for."""
        before = np.cumsum([0, *(rows for rows, _ in self.pieces)])
        piece = int(np.searchsorted(before, row, side="right")) - 1
        (batch,) = self.read(self.schema.names, piece, 1)
        paths = (column[row - int(before[piece])].as_py() for column in batch.columns)
        return os.path.join(self.file.path, next((path for path in paths if path is not None), ""))


def _kinds(patterns: Patterns, options: SourceOptions) -> dict[str, Kind]:
    """Return the kind of each column: by --kind, or by what its files are called. Raises UsageError."""
    kinds = {}
    for number, name in enumerate(patterns.columns):
        of = patterns.of(number)
        found = {kind_named(pattern.extension) or Kind.BYTES for pattern in of}
        if len(found) > 1 and name not in options.kind:
            raise UsageError(
                f"--pair {name}: files called {' and '.join(one.text for one in of)} are of several kinds "
                f"({', '.join(sorted(kind.value for kind in found))}): say which with --kind {name}=KIND"
            )
        kind = options.kind.get(name) or found.pop()
        if kind is Kind.SCALAR and options.classes is not None and name not in options.kind:
            kind = Kind.LABEL
        kinds[name] = kind
    if kinds[patterns.columns[0]] is not Kind.IMAGE and patterns.columns[0] == "image" and "image" not in options.kind:
        raise UsageError(
            f"--pair {patterns.of(0)[0].text!r} names no pictures by their extension: say which column it is, as in "
            f"NAME={patterns.of(0)[0].text}, or give --kind image=image"
        )
    return kinds
