"""Verify one split of a version, a shard at a time."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from toolkit._native.shards.body import CHUNK_BYTES, READ_OK
from toolkit.checks.verify_derived import DerivedChecks
from toolkit.checks.verify_references import PackedRows, ReferenceChecks
from toolkit.checks.verify_result import Finding
from toolkit.checks.verify_samples import KeyLog, SampleChecks
from toolkit.errors import CorruptShardError, NotFoundError, StorageError
from toolkit.format.layout import column_layouts
from toolkit.format.reader import ShardReader, read_failure
from toolkit.format.schema import KEY
from toolkit.format.shard_frame import frame_fault
from toolkit.format.values import DamagedValueError, read_rows
from toolkit.loader.api import Dataset
from toolkit.pipelines.media import Held, held_medium
from toolkit.storage.store import pieces

__all__ = ["SplitCheck"]

_READ_BYTES = 4 * 1024 * 1024


class SplitCheck:
    """The checks of one split. Its methods run on several threads, each for another shard."""

    def __init__(
        self,
        dataset: Dataset,
        keys: KeyLog | None,
        derived: DerivedChecks,
        max_pixels: int | None,
        cancelled: threading.Event,
    ) -> None:
        """`keys`: where they are put when everything is checked; `max_pixels`: of pictures to decode; None: none."""
        self._cancelled = cancelled
        self.dataset = dataset
        self._store = dataset.stored.parts[0].version.store
        self._layouts = column_layouts(dataset.schema)
        self._shape = dataset.stored.parts[0].shape
        classes = {name: len(names) for name, names in dataset.class_names.items()}
        references = dataset.stored.parts[0].references
        self._references = None if references is None else ReferenceChecks(dataset, references)
        self._is_hashed = self._references is None or self._references.is_hashed
        self._full = None
        if keys is not None:
            self._full = SampleChecks(
                dataset.columns, classes, derived if self._is_hashed else None, keys, dataset.split
            )
        self._max_pixels = max_pixels
        self._decoded: dict[str, Held] = {}
        for column in dataset.columns if max_pixels is not None else ():
            held = held_medium(column.kind, dataset.schema.field(column.name).type)
            if held is not None:
                self._decoded[column.name] = held

    def shard(self, shard: int) -> list[Finding]:
        """Check one shard."""
        index = self.dataset.index
        try:
            reader = ShardReader(self._store, index, shard, self._shape)
            reader.check_nonbody()
        except CorruptShardError as error:
            return [self._finding(shard, "file", str(error))]
        except StorageError as error:
            return [self._finding(shard, "file", str(error), kind="storage")]
        findings: list[Finding] = []
        if self._full or self._decoded or self._references:
            checks = {name: _value_check(held, self._max_pixels or 0) for name, held in self._decoded.items()}
            for batch in index.shard(shard).batches:
                records = self._records(reader, shard, batch, findings)
                if records is not None:
                    findings += self._samples(reader, shard, batch, records, checks)
        if self._full and not findings:
            findings += self._file_hash(shard)
        if self._full and not findings:
            what = frame_fault(self._store, index, shard, self.dataset.schema)
            if what is not None:
                findings.append(self._finding(shard, "file", f"shard {reader.path}: {what}"))
        return findings

    def more_files(self) -> Iterator[Finding]:
        """Say how many files aren't what was indexed beyond those that were named."""
        more = 0 if self._references is None else self._references.more
        if more:
            what = f"{more} more values of split {self.dataset.split} lie in files that aren't what was indexed"
            yield Finding(kind="integrity", message=what, split=self.dataset.split, shard="", place="reference")

    def labels(self) -> Iterator[Finding]:
        """Compare the labels that were counted with what the manifest says, if every sample was read."""
        if self._full is None or self._full.rows < len(self.dataset):
            return
        for name, counts in self.dataset.manifest.splits[self.dataset.split].labels.items():
            fault = self._full.labels_fault(name, counts)
            if fault is not None:
                yield Finding(kind="integrity", message=fault, split=self.dataset.split, shard="", place="manifest")

    def _records(self, reader: ShardReader, shard: int, batch: int, findings: list[Finding]) -> pa.RecordBatch | None:
        """Return the rows of a record batch; None, and findings, where they aren't what was packed."""
        info = self.dataset.index.batch(batch)
        try:
            body = reader.body(batch)
        except CorruptShardError as error:
            findings.append(self._finding(shard, f"record batch {info.number}", str(error)))
            return None
        before = len(findings)
        piece = np.empty(CHUNK_BYTES, np.uint8)
        for start in range(0, info.body_bytes, CHUNK_BYTES):
            status, chunk = body.read(start, piece[: info.body_bytes - start])
            if status != READ_OK:
                place = f"record batch {info.number}, chunk {chunk}"
                offset = info.body_offset + start
                message = f"shard {reader.path}, file bytes from {offset}: {read_failure(status, chunk)}"
                findings.append(self._finding(shard, place, message))
        if self._cancelled.is_set():
            return None
        if len(findings) > before:
            findings += self._bad_samples(shard, batch)
            return None
        try:
            arrays = [read_rows(body, layout, 0, body.rows) for layout in self._layouts.values()]
            records = pa.RecordBatch.from_arrays(arrays, schema=self.dataset.schema)
            records.validate(full=True)
        except DamagedValueError as error:
            findings += self._bad_samples(shard, batch) or [
                self._finding(shard, f"record batch {info.number}", f"shard {reader.path}: {read_failure(*error.args)}")
            ]
            return None
        except pa.ArrowException as error:
            text = f"shard {reader.path}: not valid Arrow data: {error}"
            findings.append(self._finding(shard, f"record batch {info.number}", text))
            return None
        return records

    def _bad_samples(self, shard: int, batch: int) -> list[Finding]:
        """Name the samples that can't be read."""
        info = self.dataset.index.batch(batch)
        found = []
        for row in range(info.start, info.start + info.rows):
            try:
                self.dataset.check_row(row)
            except CorruptShardError as error:
                found.append(self._finding(shard, "sample", str(error), row=row, key=error.key))
        return found

    def _samples(
        self,
        reader: ShardReader,
        shard: int,
        batch: int,
        records: pa.RecordBatch,
        checks: Mapping[str, Callable[[pa.StructScalar], str | None]],
    ) -> Iterator[Finding]:
        info = self.dataset.index.batch(batch)
        first, where = info.start, f"record batch {info.number}"
        keys = records.column(KEY).to_pylist()
        left_out = self._full.tokens_fault(records, info.tokens) if self._full else None
        if left_out is not None:
            yield self._finding(shard, where, f"shard {reader.path}, {where}: {left_out}")
        if self._references is not None and not self._reads_references:
            for row, what in self._references.look(first, records.num_rows):
                if what is not None:
                    yield self._finding(shard, "reference", what, row, keys[row - first])
        pieces: Iterator[PackedRows] = iter([PackedRows(0, records)])
        if self._references is not None and self._reads_references:
            pieces = self._references.packed(records, first)
        for piece in pieces:
            if self._cancelled.is_set():
                return
            yield from self._rows(reader, shard, piece, first + piece.start, checks)

    @property
    def _reads_references(self) -> bool:
        """Whether the values that references lead to are read, and not only their files looked at."""
        return self._references is not None and bool(self._decoded or (self._full and self._is_hashed))

    def _rows(
        self,
        reader: ShardReader,
        shard: int,
        piece: PackedRows,
        first: int,
        checks: Mapping[str, Callable[[pa.StructScalar], str | None]],
    ) -> Iterator[Finding]:
        """Check some rows as they are packed."""
        keys = piece.records.column(KEY).to_pylist()
        for row, what in piece.faults.items():
            if what is not None:
                yield self._finding(shard, "reference", what, first + row, keys[row])
        for fault in self._full.look(piece.records, first) if self._full else ():
            if fault.row not in piece.faults:
                row, key = first + fault.row, keys[fault.row]
                yield self._finding(shard, "sample", f"{self._where(reader, row, key)}: {fault.what}", row, key)
        for name, check in checks.items():
            values = piece.records.column(name)
            for place in range(piece.records.num_rows):
                if self._cancelled.is_set():
                    return
                what = None if place in piece.faults else check(values[place])
                if what is not None:
                    text = f"{self._where(reader, first + place, keys[place])}, column {name}: {what}"
                    yield self._finding(shard, "sample", text, first + place, keys[place], kind="sample")

    def _where(self, reader: ShardReader, row: int, key: str) -> str:
        return f"shard {reader.path}, row {row}, key {key!r}"

    def _file_hash(self, shard: int) -> list[Finding]:
        info = self.dataset.index.shard(shard)
        digest = hashlib.sha256()
        try:
            for piece in pieces(self._store, info.path, _READ_BYTES):
                if self._cancelled.is_set():
                    break
                digest.update(piece)
        except (NotFoundError, StorageError) as error:
            return [self._finding(shard, "file", str(error), kind="storage")]
        if digest.digest() == info.sha256:
            return []
        text = f"shard {info.path}: its sha256 isn't the one that it was packed with"
        return [self._finding(shard, "file", text)]

    def _finding(
        self,
        shard: int,
        place: str,
        message: str,
        row: int | None = None,
        key: str | None = None,
        kind: str = "integrity",
    ) -> Finding:
        return Finding(
            kind=kind,
            message=message,
            split=self.dataset.split,
            shard=self.dataset.index.shard(shard).path,
            place=place,
            row=row,
            key=key,
        )


def _value_check(held: Held, max_pixels: int) -> Callable[[pa.StructScalar], str | None]:
    """Return what says why a medium's value can't be decoded, for one thread; a missing one can."""
    form = held.form
    check = held.medium.decode_check(max_pixels)

    def of_file(value: pa.StructScalar) -> str | None:
        return check(value[form.payload].as_py()) if value.is_valid and value[form.payload].is_valid else None

    def of_array(value: pa.StructScalar) -> str | None:
        if not value.is_valid or not all(value[name].is_valid for name in value):
            return None
        nbytes = value[form.payload].as_buffer().size
        return held.medium.sizes_fault(nbytes, [value[name].as_py() for name in form.sizes])

    return of_array if form.is_decoded else of_file
