"""A file of a TFDS split as a table: a row for each record, a column for each feature."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from toolkit.errors import SourceError
from toolkit.format.arrays import to_array
from toolkit.sources.base import PIECE_BYTES, ROW_OVERHEAD_BYTES
from toolkit.sources.contents import UnfitError
from toolkit.sources.files import InputFile
from toolkit.sources.kinds.tfds.features import Feature
from toolkit.sources.kinds.tfds.values import column, kind_of, take, type_of
from toolkit.sources.names import printable
from toolkit.sources.state import FileState, check_unchanged
from toolkit.sources.tables.table import FAULT, Table, TableFacts
from toolkit.sources.tfrecords.example import NotAnExampleError, parser
from toolkit.sources.tfrecords.records import RecordFile

__all__ = ["TFDSTable"]

_MOST_ROWS = 4096


class TFDSTable(Table):
    """The records of a file; they are read from its front, so it is one piece."""

    def __init__(
        self,
        file: InputFile,
        state: FileState,
        records: int,
        features: Mapping[str, Feature],
        classes: Mapping[str, tuple[str, ...]],
        most: int,
    ) -> None:
        """Read nothing.

        Args:
            file: The file.
            state: What it was like when it was found.
            records: How many it has, as dataset_info.json says.
            features: Its features by name, without those that can't be read.
            classes: Names of the classes of features that have them.
            most: Bytes of a record at the most.
        """
        self.file = file
        self.pieces = ((records, file.bytes),) if records else ()
        self.schema = pa.schema([pa.field(name, type_of(feature)) for name, feature in features.items()])
        kinds = {name: kind for name, feature in features.items() if (kind := kind_of(feature)) is not None}
        self.facts = TableFacts(kinds=kinds, classes=classes)
        self._state = state
        self._records = records
        self._features = dict(features)
        self._most = most

    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Yield the records."""
        if first or not count:
            return
        features = [self._features[name] for name in fields]
        rows: list[list[Any]] = []
        faults: list[str | None] = []
        size = done = 0
        with RecordFile(self.file.path, self.file.name, self._most) as file:
            check_unchanged(self.file.path, self._state, file.state)
            for record in file.records():
                if done == self._records:
                    raise self._other_count(f"more than {done}")
                done += 1
                row: list[Any] = [None] * len(features)
                fault = record.fault or None
                if record.payload is not None:
                    fault = self._take(features, record.payload, row)
                rows.append(row)
                faults.append(fault)
                size += record.nbytes + ROW_OVERHEAD_BYTES
                if size >= PIECE_BYTES or len(rows) == _MOST_ROWS:
                    yield self._batch(fields, rows, faults)
                    rows, faults, size = [], [], 0
        if done < self._records:
            raise self._other_count(str(done))
        if rows:
            yield self._batch(fields, rows, faults)

    def fingerprint(self, first: int, count: int) -> str:
        """Return what the file was like when it was found, and what was said of its records."""
        return f"{self._state} {self._records} {sorted(self._features.items())}"

    def place(self, row: int) -> str:
        """Return the file and the number of the record."""
        return f"{printable(self.file.path)}, record {row}"

    def _take(self, features: Sequence[Feature], payload: bytes, row: list[Any]) -> str | None:
        """Fill a row with the values of a record, or return why there is none."""
        try:
            example = parser()(payload).context.feature
        except NotAnExampleError as error:
            return str(error)
        for i, feature in enumerate(features):
            try:
                row[i] = take(feature, example, self._most)
            except UnfitError as error:
                return f"column {feature.name!r}: {error}"
        return None

    def _batch(self, fields: Sequence[str], rows: Sequence[list[Any]], faults: list[str | None]) -> pa.RecordBatch:
        # A value that was found before a fault means nothing: a row has all or none.
        kept = [[None] * len(fields) if fault else row for row, fault in zip(rows, faults, strict=True)]
        arrays = [column(self._features[name], [row[i] for row in kept]) for i, name in enumerate(fields)]
        return pa.RecordBatch.from_arrays([*arrays, to_array(faults, pa.string())], names=[*fields, FAULT])

    def _other_count(self, there: str) -> SourceError:
        return SourceError(
            f"{self.shown} holds {there} records, and dataset_info.json says {self._records}: the file is cut short or "
            f"another's. Get it again, or leave it out with --exclude {printable(self.file.name)!r}"
        )
