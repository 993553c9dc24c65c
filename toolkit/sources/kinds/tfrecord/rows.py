"""Make the rows of a TFRecord slice: take each column's value from a record, or say why there is no row.

Where records come from, and which columns there are, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from toolkit.format.arrays import to_array
from toolkit.format.schema import Column, Kind
from toolkit.pipelines.media import medium_of
from toolkit.pipelines.medium import Medium, UnfitMediumError
from toolkit.sources.base import Rows, Survey, rows_schema
from toolkit.sources.contents import UnfitError, check_json, check_tensor, text_of
from toolkit.sources.in_place import places_in_file
from toolkit.sources.kinds.tfrecord.example import Shape, value_of
from toolkit.sources.options import Missing, PlacesWanted, SourceOptions, VerifyImages
from toolkit.sources.payloads import check_payload
from toolkit.sources.reject import Reject
from toolkit.sources.state import FileState
from toolkit.sources.tfrecords.example import NotAnExampleError, parser
from toolkit.sources.tfrecords.records import Record
from toolkit.sources.tfrecords.skim import Get, Span, skim, span_of

__all__ = ["WITHOUT_PROTOBUF", "RowMaker"]

WITHOUT_PROTOBUF = "; or give --tfrecord-raw to pack the records as bytes"
"""What else to do where protobuf isn't installed: the end of a message."""


class _Maker(NamedTuple):
    """What makes a column: its name, its feature, how many values it takes, whether it is a medium's, what stores."""

    name: str
    field: str
    shape: Shape
    is_medium: bool
    store: Callable[[Any], Any]


class RowMaker:
    """Makes rows of the survey's columns, and keeps them until they are taken."""

    def __init__(
        self, survey: Survey, options: SourceOptions, field_of: Callable[[str], str], path: str, state: FileState
    ) -> None:
        """`field_of` tells which feature becomes a column; `path` and `state` are those of the records' file."""
        self._path = path
        self._state = state
        self._parse = None if options.tfrecord_raw else parser(WITHOUT_PROTOBUF)
        self._missing = options.missing
        self._key = options.key
        self._places = options.places
        self._schema = rows_schema(survey)
        self._columns = [
            _Maker(
                column.name,
                field_of(column.name),
                _shape(survey.types[column.name], column.kind),
                medium_of(column.kind) is not None,
                _store(column, survey, options.verify_images),
            )
            for column in survey.columns
        ]
        media = {one.field for one in self._columns if one.is_medium}
        others = {one.field for one in self._columns if not one.is_medium} | {self._key}
        # What is a medium and more is read whole.
        self._left_out = frozenset(field.encode() for field in media) if media.isdisjoint(others) else frozenset()
        self._begin()

    def take_of(self, get: Get, start: int, length: int) -> tuple[bytes, Mapping[bytes, Span] | None]:
        """Return what rows need of a payload where only places are wanted: it is a Take of the records' reader."""
        if not self._left_out:
            return get(start, length), None
        return (b"", {}) if self._parse is None else skim(get, start, length, self._left_out)

    def add(self, record: Record, path: str, key: str) -> None:
        """Make the row of a record, or its reject; or neither when it is left out on purpose.

        `path` is the record's file; `key` its key unless a feature holds it. Both are printable.
        """
        try:
            if record.payload is None:
                raise UnfitError(record.fault)
            example = record.payload if self._parse is None else self._parse(record.payload)
            values = [self._take(example, one.field, one.shape) for one in self._columns]
            if self._missing is Missing.SKIP and any(value is None for value in values):
                return
            if self._key is not None:
                key = _key(self._take(example, self._key, Shape.SINGLE), self._key)
            row = [key, *(self._stored(value, one) for value, one in zip(values, self._columns, strict=True))]
            spans = self._spans_of(record, values)
        except (UnfitError, NotAnExampleError) as fault:
            self._rejects.append(Reject(source=f"{path}#{record.number}", key=key, reason=str(fault)))
        else:
            for column, value in zip(self._rows, row, strict=True):
                column.append(value)
            for name, span in spans.items():
                self._spans[name].append(span)

    def take(self, read_bytes: int) -> Rows:
        """Return the rows and rejects since the last time, and forget them."""
        arrays = [to_array(values, field.type) for values, field in zip(self._rows, self._schema, strict=True)]
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        size, mtime_ns = self._state.size, self._state.mtime_ns
        names = pa.nulls(batch.num_rows, pa.string())
        places = {name: places_in_file(self._path, size, mtime_ns, spans, names) for name, spans in self._spans.items()}
        made = Rows(batch, tuple(self._rejects), read_bytes, places)
        self._begin()
        return made

    def _begin(self) -> None:
        self._rows: list[list[Any]] = [[] for _ in self._schema]
        self._rejects: list[Reject] = []
        wanted = self._places is not PlacesWanted.NONE
        self._spans: dict[str, list[Span | None]] = {one.name: [] for one in self._columns if wanted and one.is_medium}

    def _take(self, example: Any, field: str, shape: Shape) -> Any:
        return example if self._parse is None else value_of(example, field, shape)

    def _stored(self, value: Any, column: _Maker) -> Any:
        if value is None:
            if self._missing is Missing.NULL:
                return None
            raise UnfitError(f"lacks the feature {column.field!r}")
        if column.is_medium and self._places is PlacesWanted.ONLY:
            return None
        try:
            return column.store(value)
        except (UnfitError, UnfitMediumError) as fault:
            raise UnfitError(f"{column.name}: {fault}") from fault

    def _spans_of(self, record: Record, values: Sequence[Any]) -> dict[str, Span | None]:
        """Return where in the file each medium lies, where that is wanted. Raises UnfitError: it can't be told."""
        if not self._spans:
            return {}
        return {
            one.name: None if value is None else self._span_of(record, value, one)
            for value, one in zip(values, self._columns, strict=True)
            if one.is_medium
        }

    def _span_of(self, record: Record, value: bytes, column: _Maker) -> Span:
        if self._parse is None:
            return record.start, record.length
        field = column.field.encode()
        if record.spans is not None:
            span = record.spans.get(field)
        else:
            found = span_of(record.payload or b"", field, value)
            span = found and (record.start + found[0], found[1])
        if span is None:
            raise UnfitError(f"{column.name}: it can't be told where in the record the value lies: pack it")
        return span


def _shape(dtype: pa.DataType, kind: Kind) -> Shape:
    if kind is not Kind.VALUE or not pa.types.is_list(dtype):
        return Shape.SINGLE
    return Shape.SEQUENCE if pa.types.is_list(dtype.value_type) else Shape.LIST


def _store(column: Column, survey: Survey, verify: VerifyImages) -> Callable[[Any], Any]:
    """Return what turns a feature's value into the column's, or raises UnfitError or UnfitMediumError."""
    medium = medium_of(column.kind)
    if medium is not None:
        return lambda value: _payload(medium, value, verify)
    match column.kind:
        case Kind.TENSOR:
            return _tensor
        case Kind.LABEL:
            names = survey.classes[column.name]
            ids = {name: i for i, name in enumerate(names)}
            return lambda value: _label(value, ids)
        case Kind.TEXT:
            return text_of
        case Kind.JSON:
            return _json
    return lambda value: value


def _payload(medium: Medium, value: bytes, verify: VerifyImages) -> dict[str, bytes | None]:
    check_payload(medium, value, verify)
    form = medium.stored.source_form
    return {**dict.fromkeys(form.type.names), form.payload: value}


def _tensor(value: bytes) -> bytes:
    check_tensor(value)
    return value


def _json(value: bytes) -> str:
    text = text_of(value)
    check_json(text)
    return text


def _label(value: int | bytes, ids: dict[str, int]) -> int:
    if isinstance(value, int):
        if not 0 <= value < len(ids):
            raise UnfitError(f"label {value} is not one of 0 to {len(ids) - 1}")
        return value
    name = text_of(value)
    if name not in ids:
        raise UnfitError(f"{name!r} is not among the classes")
    return ids[name]


def _key(value: int | bytes | None, field: str) -> str:
    text = "" if value is None else str(value) if isinstance(value, int) else text_of(value)
    if not text:
        raise UnfitError(f"no key: the feature {field!r} is missing or empty")
    return text
