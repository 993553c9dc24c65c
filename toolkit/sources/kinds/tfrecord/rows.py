"""Make the rows of a TFRecord slice: take each column's value from a record, or say why there is no row.

Where records come from, and which columns there are, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from toolkit.format.arrays import to_array
from toolkit.format.schema import Column, Kind
from toolkit.pipelines.media import medium_of
from toolkit.pipelines.medium import Medium, UnfitMediumError
from toolkit.sources.base import Rows, Survey, rows_schema
from toolkit.sources.contents import UnfitError, check_json, check_tensor, text_of
from toolkit.sources.kinds.tfrecord.example import Shape, value_of
from toolkit.sources.options import Missing, SourceOptions, VerifyImages
from toolkit.sources.payloads import check_payload
from toolkit.sources.reject import Reject
from toolkit.sources.tfrecords.example import NotAnExampleError, parser
from toolkit.sources.tfrecords.records import Record

__all__ = ["WITHOUT_PROTOBUF", "RowMaker"]

WITHOUT_PROTOBUF = "; or give --tfrecord-raw to pack the records as bytes"
"""What else to do where protobuf isn't installed: the end of a message."""


class RowMaker:
    """Makes rows of the survey's columns, and keeps them until they are taken."""

    def __init__(self, survey: Survey, options: SourceOptions, field_of: Callable[[str], str]) -> None:
        """`field_of` tells which feature becomes a column."""
        self._parse = None if options.tfrecord_raw else parser(WITHOUT_PROTOBUF)
        self._missing = options.missing
        self._key = options.key
        self._schema = rows_schema(survey)
        self._columns = [
            (
                column.name,
                field_of(column.name),
                _shape(survey.types[column.name], column.kind),
                _store(column, survey, options.verify_images),
            )
            for column in survey.columns
        ]
        self._rows: list[list[Any]] = [[] for _ in self._schema]
        self._rejects: list[Reject] = []

    def add(self, record: Record, path: str, key: str) -> None:
        """Make the row of a record, or its reject; or neither when it is left out on purpose.

        `path` is the record's file; `key` its key unless a feature holds it. Both are printable.
        """
        try:
            if record.payload is None:
                raise UnfitError(record.fault)
            example = record.payload if self._parse is None else self._parse(record.payload)
            values = [self._take(example, field, shape) for _, field, shape, _ in self._columns]
            if self._missing is Missing.SKIP and any(value is None for value in values):
                return
            if self._key is not None:
                key = _key(self._take(example, self._key, Shape.SINGLE), self._key)
            row = [key, *(self._stored(value, *of) for value, of in zip(values, self._columns, strict=True))]
        except (UnfitError, NotAnExampleError) as fault:
            self._rejects.append(Reject(source=f"{path}#{record.number}", key=key, reason=str(fault)))
        else:
            for column, value in zip(self._rows, row, strict=True):
                column.append(value)

    def take(self, read_bytes: int) -> Rows:
        """Return the rows and rejects since the last time, and forget them."""
        arrays = [to_array(values, field.type) for values, field in zip(self._rows, self._schema, strict=True)]
        made = Rows(pa.RecordBatch.from_arrays(arrays, schema=self._schema), tuple(self._rejects), read_bytes)
        self._rows = [[] for _ in self._schema]
        self._rejects = []
        return made

    def _take(self, example: Any, field: str, shape: Shape) -> Any:
        return example if self._parse is None else value_of(example, field, shape)

    def _stored(self, value: Any, column: str, field: str, _: Shape, store: Callable[[Any], Any]) -> Any:
        if value is None:
            if self._missing is Missing.NULL:
                return None
            raise UnfitError(f"lacks the feature {field!r}")
        try:
            return store(value)
        except (UnfitError, UnfitMediumError) as fault:
            raise UnfitError(f"{column}: {fault}") from fault


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
