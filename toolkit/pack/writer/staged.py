"""The rows of a writer as a source: before the first record, what is declared; behind the last, what was packed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from toolkit.format.kinds import Kind
from toolkit.format.schema import KEY
from toolkit.pack.journal import Journal, SliceResult
from toolkit.pack.writer.checkpoints import Records
from toolkit.pack.writer.declared import Declared, written_as
from toolkit.sources.base import Rows, Slice, Source, Survey
from toolkit.storage.files import storage_errors
from toolkit.storage.mapped import map_file

__all__ = ["DeclaredRecords", "StagedRows", "declaration", "label_columns"]


class DeclaredRecords(Source):
    """Records that nobody has given yet: a source of no slices."""

    def __init__(
        self, columns: Sequence[Declared], classes: Mapping[str, Sequence[str]], *, open_classes: bool
    ) -> None:
        """`classes` are the names of each label column; with `open_classes`, those that are known already."""
        self._columns = columns
        self._classes = classes
        self._open = open_classes

    def survey(self) -> Survey:
        """Say what is declared."""
        return Survey(
            columns=tuple(one.column for one in self._columns),
            types={one.name: one.type for one in self._columns},
            classes={name: tuple(names) for name, names in self._classes.items()},
            splits=(),
            slices=(),
            options={"source_kind": "records"},
            open_classes=self._open,
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read nothing: records come from elsewhere."""
        return iter(())

    def place(self, part: Slice, key: str) -> str:
        """Return what stands for a path."""
        return "<records>"


class StagedRows:
    """The rows of slices that are packed, read from their shards: to give them other keys. A SliceRows.

    Attributes:
        survey: The survey, with what the records came to.
    """

    def __init__(
        self, survey: Survey, records: Records, classes: Mapping[str, Sequence[str]], journal: Journal
    ) -> None:
        """`survey` is that of the declaration; `journal` has the slices."""
        self.survey = replace(
            survey,
            classes={name: tuple(names) for name, names in classes.items()},
            splits=records.splits,
            slices=tuple(part for split in records.splits for part in records.slices if part.split == split),
            skipped={"missing": records.missing} if records.missing else {},
        )
        self._journal = journal
        self._results: Mapping[tuple[str, int], SliceResult] = {}

    def rows(self, part: Slice) -> Iterator[Rows]:
        """Yield the rows of a slice as they were packed first."""
        if not self._results:
            self._results = self._journal.finished()
        names = [KEY, *(column.name for column in self.survey.columns)]
        result = self._results[part.split, part.number]
        rejects = result.rejects
        for record in result.records:
            path = self._journal.shard_path(record)
            with storage_errors("read", path):
                reader = pa.ipc.open_file(pa.py_buffer(map_file(path)))
            for number in range(reader.num_record_batches):
                yield Rows(reader.get_batch(number).select(names), rejects, 0)
                rejects = ()


def declaration(columns: Sequence[Declared]) -> dict[str, str]:
    """Return the columns as text, for the journal."""
    return {one.name: written_as(one) for one in columns}


def label_columns(columns: Sequence[Declared]) -> list[str]:
    """Return the names of the label columns."""
    return [one.name for one in columns if one.kind is Kind.LABEL]
