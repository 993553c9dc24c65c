"""TFRecord files as a source: one pass finds features and where to cut, a second one makes rows.

The first pass reads and parses every record, since nothing else tells what features there are; it keeps no record and
no offset but where slices begin. A record that can't be used is rejected alone as long as the next one can be found.

Where only places of media are wanted, both passes read all of a record but the values of features whose first value is
a medium's, and check no payload against its CRC: what lies in the same few KiB as the rest is read with it.

A sample that lacks a feature is rejected, unless --missing says null or skip. `limit` counts records.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import pyarrow as pa

from toolkit.errors import SourceError, UsageError
from toolkit.format.schema import Kind
from toolkit.pipelines.media import medium_of
from toolkit.sources.base import PIECE_BYTES, ROW_OVERHEAD_BYTES, Rows, Slice, Source, Survey
from toolkit.sources.classes import check_class_names
from toolkit.sources.fields import Chosen, Field, choose_fields, make_column
from toolkit.sources.files import InputFile, find_files, group_by_split
from toolkit.sources.in_place import check_plain
from toolkit.sources.kinds.tfrecord.example import Features, Wanted
from toolkit.sources.kinds.tfrecord.rows import WITHOUT_PROTOBUF, RowMaker
from toolkit.sources.names import printable
from toolkit.sources.options import Missing, PlacesWanted, SourceOptions
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.state import FileState, changed, check_unchanged
from toolkit.sources.tfrecords.example import NotAnExampleError, parser
from toolkit.sources.tfrecords.records import Record, RecordFile, Take, is_named_tfrecord, looks_like_tfrecord
from toolkit.sources.tfrecords.skim import Get, Span, skim

__all__ = ["TFRecordSource"]

_RAW = "record"
_TEXTS = (Kind.TEXT, Kind.JSON)


class _Part(NamedTuple):
    """Consecutive records of a file, and what the file was like when they were found."""

    path: str
    name: str
    start: int
    first: int
    records: int
    state: FileState


@dataclass(slots=True)
class _Cut:
    """A slice to be. `present` counts records by how many of the wanted features they have."""

    part: _Part
    nbytes: int
    present: Counter[int] = field(default_factory=Counter)


class TFRecordSource(Source):
    """TFRecord files of tf.train.Example or SequenceExample, or of anything with --tfrecord-raw."""

    def __init__(self, options: SourceOptions) -> None:
        if options.classes is not None:
            check_class_names(options.classes, where="classes", unit="id", first=0)
        self._options = options

    def survey(self) -> Survey:
        """Read all records once: find the features and their types, and where to cut.

        Raises:
            SourceError: As every survey; or places are wanted, and a file is compressed.
        """
        options = self._options
        skips = Skips(("lacking_features", *FILE_REASONS))
        files = find_files(options, is_named_tfrecord, looks_like_tfrecord, skips)
        wanted = options.map.values() if options.map is not None else options.columns
        labels = {self._field_of(name) for name, kind in options.kind.items() if kind is Kind.LABEL}
        features = Features(Wanted(None if wanted is None else frozenset(wanted), options.key, labels))
        cuts = {
            split: list(self._cut_split(group, features, skips))
            for split, group in group_by_split(files, options.split).items()
        }
        fields = {_RAW: Field(pa.binary(), Kind.BYTES)} if options.tfrecord_raw else features.fields()
        if not fields:
            if not any(cuts.values()):
                raise SourceError(
                    f"no record in the files of {', '.join(map(repr, options.paths))}: they are empty. Make them again"
                )
            raise SourceError(
                f"no record of {len(files)} files is a tf.train.Example with features: "
                "give --tfrecord-raw to pack them as bytes"
            )
        chosen = choose_fields(fields, options)
        if not chosen:
            raise UsageError(f"{options.key!r} is the key, and no other feature is there: nothing would be packed")
        if not options.tfrecord_raw:
            features.check([each.field for each in chosen] + ([] if options.key is None else [options.key]))
        if options.key is not None and fields[options.key].type not in (pa.string(), pa.binary(), pa.int64()):
            raise UsageError(f"--key {options.key}: its values are {fields[options.key].type}, which can't be keys")
        made = [make_column(each.column, each.kind, _dtype(each)) for each in chosen]
        skipping = options.missing is Missing.SKIP and not options.tfrecord_raw
        skipped = {
            split: [
                sum(n for present, n in cut.present.items() if skipping and features.lacking(present)) for cut in of
            ]
            for split, of in cuts.items()
        }
        skips.count("lacking_features", sum(map(sum, skipped.values())))
        return Survey(
            columns=tuple(column for column, _ in made),
            types={column.name: dtype for column, dtype in made},
            classes={each.column: self._classes(each, features) for each in chosen if each.kind is Kind.LABEL},
            splits=tuple(cuts),
            slices=tuple(
                Slice(split, number, cut.part.records - left_out, cut.nbytes, cut.part, printable(cut.part.name))
                for split, of in cuts.items()
                for number, (cut, left_out) in enumerate(zip(of, skipped[split], strict=True))
            ),
            skipped=skips.counts,
            skipped_names=skips.names,
            options=self._shaping_options([each.kind for each in chosen]),
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read the slice's records."""
        place: _Part = part.payload  # type: ignore[assignment]
        rows = RowMaker(survey, self._options, self._field_of, place.path, place.state)
        path, name = printable(place.path), printable(place.name)
        with RecordFile(place.path, place.name, self._options.max_value_bytes) as file:
            check_unchanged(place.path, place.state, file.state)
            done = size = read = before = 0
            found = self._records(file, rows.take_of, place.start, place.first)
            for record in islice(found, place.records):
                taken = record.nbytes if record.spans is None else len(record.payload or b"")
                if size and size + taken > PIECE_BYTES:
                    yield rows.take(read)
                    size = read = 0
                rows.add(record, path, f"{name}#{record.number}")
                done += 1
                size += taken + ROW_OVERHEAD_BYTES
                position = file.position() if file.compressed else before + record.nbytes
                before, read = position, read + position - before
            if done < place.records:
                raise changed(place.path)
            if size:
                yield rows.take(read)

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the slice's file."""
        place: _Part = part.payload  # type: ignore[assignment]
        return printable(place.path)

    def _cut_split(self, files: Sequence[InputFile], features: Features, skips: Skips) -> Iterator[_Cut]:
        parse = None if self._options.tfrecord_raw else parser(WITHOUT_PROTOBUF)
        left = self._options.limit
        for file in files:
            if left == 0:
                return
            empty = True
            for cut in self._cut_file(file, left, parse, features):
                left = None if left is None else left - cut.part.records
                yield cut
                empty = False
            if empty:
                skips.add("empty", file.name)

    def _cut_file(
        self, file: InputFile, limit: int | None, parse: Callable[[bytes], Any] | None, features: Features
    ) -> Iterator[_Cut]:
        name = printable(file.name)

        def take(get: Get, start: int, length: int) -> tuple[bytes, Mapping[bytes, Span] | None]:
            return (b"", {}) if parse is None else skim(get, start, length, features.media)

        with RecordFile(file.path, file.name, self._options.max_value_bytes) as records:
            if self._options.places is not PlacesWanted.NONE:
                check_plain(file.path, "gzip or zlib" if records.compressed else "")
            empty = _Part(file.path, file.name, 0, 0, 0, records.state)
            cut, size = _Cut(empty, 0), 0
            for record in islice(self._records(records, take), limit):
                cost = record.nbytes + 2 * len(name) + ROW_OVERHEAD_BYTES
                part = cut.part
                if part.records and size + cost > self._options.slice_bytes and not records.compressed:
                    yield cut
                    part = part._replace(start=part.start + cut.nbytes, first=record.number, records=0)
                    cut, size = _Cut(part, 0), 0
                cut.part = part._replace(records=part.records + 1)
                cut.nbytes += record.nbytes
                size += cost
                if parse is not None and record.payload is not None:
                    with contextlib.suppress(NotAnExampleError):  # read() rejects it
                        cut.present[features.add(parse(record.payload), (name, record.number))] += 1
            if cut.part.records:
                cut.nbytes = records.state.size if records.compressed else cut.nbytes
                yield cut

    def _records(self, file: RecordFile, take: Take, start: int = 0, first: int = 0) -> Iterator[Record]:
        """Return the records from a place on; without their media where only places are wanted."""
        if self._options.places is PlacesWanted.ONLY:
            return file.skimmed(take, start, first)
        return file.records(start, first)

    def _field_of(self, column: str) -> str:
        """Return the field that becomes a column."""
        options = self._options
        if options.map is not None:
            return options.map.get(column, column)
        names = options.columns or [name for name in options.rename if name != options.key]
        return {options.rename.get(name, name): name for name in names}.get(column, column)

    def _classes(self, chosen: Chosen, features: Features) -> tuple[str, ...]:
        if self._options.classes is not None:
            return self._options.classes
        if chosen.type == pa.int64():
            raise UsageError(
                f"--kind {chosen.column}=label: its values are numbers, so give their names with --classes"
            )
        names = features.class_names(chosen.field)
        if not names:
            raise UsageError(f"--kind {chosen.column}=label: no value of it is text; give the names with --classes")
        return names

    def _shaping_options(self, kinds: Sequence[Kind]) -> dict[str, object]:
        options = self._options
        if options.classes is not None and Kind.LABEL not in kinds:
            raise UsageError("--classes names the ids of a label column, and there is none: say --kind COLUMN=label")
        return {
            "classes_given": options.classes is not None,
            "columns": None if options.columns is None else list(options.columns),
            "exclude": [printable(pattern) for pattern in options.exclude],
            "include": [printable(pattern) for pattern in options.include],
            "key": options.key,
            "kinds": {name: kind.value for name, kind in options.kind.items()},
            "limit": options.limit,
            "mapping": None if options.map is None else dict(options.map),
            "missing": options.missing.value,
            "raw": options.tfrecord_raw,
            "rename": dict(options.rename),
            "split": options.split,
        }


def _dtype(chosen: Chosen) -> pa.DataType:
    """Return the type of a column's values: bytes can be said to be text, and text bytes."""
    binary = chosen.type in (pa.string(), pa.binary())
    fits = binary or (chosen.kind is Kind.LABEL and chosen.type == pa.int64())
    if not fits and (chosen.kind in (Kind.LABEL, Kind.TENSOR) or medium_of(chosen.kind) is not None):
        kind = chosen.kind.value
        raise UsageError(f"--kind {chosen.column}={kind}: its values are {chosen.type}, which can't be {kind}")
    if binary and chosen.kind in _TEXTS:
        return pa.string()
    return pa.binary() if binary and chosen.kind is Kind.BYTES else chosen.type
