"""Decode tf.train.Example and SequenceExample: find which features there are and of what types, and take their values.

Needs the protobuf library, but no generated code and no TensorFlow. Both messages are read as a SequenceExample: on the
wire an Example is one without feature lists.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

from toolkit.errors import SourceError, UsageError
from toolkit.format.schema import Kind
from toolkit.sources.fields import Field
from toolkit.sources.payloads import holds

__all__ = ["Features", "NotAnExampleError", "Shape", "Wanted", "parser", "value_of"]

_PACKAGE = "toolkit.tfrecord"  # not TensorFlow's own: the two never meet in one pool
_MOST_CLASSES = 1_000_000
_TYPES = {"bytes_list": pa.binary(), "float_list": pa.float32(), "int64_list": pa.int64(), None: pa.null()}


class NotAnExampleError(ValueError):
    """A payload that is no tf.train.Example."""


class Shape(enum.Enum):
    """How the values of a feature become a column: the one value, a list, or a list for each step of a sequence."""

    SINGLE = "single"
    LIST = "list"
    SEQUENCE = "sequence"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the survey is to find out: the fields by name (all but the key if None), and which hold class names."""

    names: Collection[str] | None
    key: str | None
    labels: Collection[str]


@dataclass(slots=True)
class _Seen:
    """What is known of a feature. `type` is the oneof's name; None while only empty feature lists were met."""

    sequence: bool
    type: str | None
    where: tuple[str, int]
    conflict: str = ""
    least: int = 1
    most: int = 1
    looked: bool = False
    medium: Kind | None = None
    text: bool | None = None
    values: set[str] | None = None


class Features:
    """Finds out, record by record, which features there are and what they hold."""

    def __init__(self, wanted: Wanted) -> None:
        self._wanted = wanted
        self._seen: dict[str, _Seen] = {}

    def add(self, example: Any, where: tuple[str, int]) -> int:
        """Take note of a record; return how many of the wanted fields it has. `where`: file and record number."""
        present = 0
        for name, feature in example.context.feature.items():
            kind = feature.WhichOneof("kind")
            if kind is None:
                continue
            present += self._counts(name)
            seen = self._meet(name, kind, False, where)
            values = getattr(feature, kind).value
            count = len(values)
            if count != 1:
                seen.least, seen.most = min(seen.least, count), max(seen.most, count)
            if kind == "bytes_list" and count:
                self._look(name, seen, values)
        for name, features in example.feature_lists.feature_list.items():
            present += self._counts(name)
            seen = self._meet(name, None, True, where)
            for feature in features.feature:
                kind = feature.WhichOneof("kind")
                if kind is not None:
                    seen = self._meet(name, kind, True, where)
                    if kind == "bytes_list":
                        self._look(name, seen, feature.bytes_list.value)
        return present

    def fields(self) -> dict[str, Field]:
        """Return the fields by name, sorted: a message has no order of its own."""
        return {name: _field(seen) for name, seen in sorted(self._seen.items())}

    def check(self, names: Iterable[str]) -> None:
        """Raise SourceError when one of these fields isn't of one type."""
        for name in names:
            if self._seen[name].conflict:
                raise SourceError(
                    f"feature {name!r} {self._seen[name].conflict}. A column has one type: leave files out with "
                    "--exclude, or the feature out with --columns"
                )

    def class_names(self, name: str) -> tuple[str, ...]:
        """Return the values of a field of `labels`, sorted."""
        seen = self._seen.get(name)
        return tuple(sorted(seen.values or ())) if seen else ()

    def lacking(self, present: int) -> bool:
        """Tell whether a record with so many of the wanted fields lacks one."""
        if self._wanted.names is not None:
            return present < len(set(self._wanted.names))
        return present < sum(
            1 for name, seen in self._seen.items() if seen.type is not None and name != self._wanted.key
        )

    def _counts(self, name: str) -> bool:
        wanted = self._wanted
        return name != wanted.key if wanted.names is None else name in wanted.names

    def _meet(self, name: str, kind: str | None, sequence: bool, where: tuple[str, int]) -> _Seen:
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = _Seen(sequence, kind, where)
            if name in self._wanted.labels:
                seen.values = set()
        elif seen.type is None and seen.sequence is sequence:
            seen.type = kind
        elif ((kind is not None and seen.type != kind) or seen.sequence is not sequence) and not seen.conflict:
            seen.conflict = (
                f"is {_described(seen.type, seen.sequence)} in {seen.where[0]}#{seen.where[1]} and "
                f"{_described(kind, sequence)} in {where[0]}#{where[1]}"
            )
        return seen

    def _look(self, name: str, seen: _Seen, values: Iterable[bytes]) -> None:
        """Find out whether bytes are a medium's or text."""
        if seen.medium or (seen.text is False and seen.values is None):
            return
        for value in values:
            if not seen.looked and not seen.sequence and value:
                seen.looked, seen.medium = True, holds(value)
            text = _text(value)
            seen.text = text is not None and seen.text is not False
            if seen.values is not None and text is not None and text.strip():
                seen.values.add(text)
                if len(seen.values) > _MOST_CLASSES:
                    raise SourceError(f"feature {name!r} has more than {_MOST_CLASSES} values: it can't be a label")


@functools.cache
def parser() -> Callable[[bytes], Any]:
    """Return what makes a message of a payload, or raises NotAnExampleError.

    Raises:
        UsageError: protobuf isn't installed.
    """
    try:
        descriptors = import_module("google.protobuf.descriptor_pb2")
        pools = import_module("google.protobuf.descriptor_pool")
        factory = import_module("google.protobuf.message_factory")
        decode_error = import_module("google.protobuf.message").DecodeError
    except ImportError as error:
        raise UsageError(
            "tf.train.Example needs the protobuf library: pip install 'toolkit[tfrecord]'; or give --tfrecord-raw to "
            "pack the records as bytes"
        ) from error
    pool = pools.DescriptorPool()
    pool.Add(_descriptor(descriptors))
    parse = factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.SequenceExample")).FromString

    def checked(payload: bytes) -> Any:
        try:
            return parse(payload)
        except decode_error as error:
            raise NotAnExampleError("the payload is no tf.train.Example") from error

    return checked


def value_of(example: Any, name: str, shape: Shape) -> Any:
    """Return a feature's value, or None when the example lacks it."""
    if shape is Shape.SEQUENCE:
        features = example.feature_lists.feature_list.get(name)
        return None if features is None else [list(_values(feature) or ()) for feature in features.feature]
    feature = example.context.feature.get(name)
    values = None if feature is None else _values(feature)
    if values is None:
        return None
    return values[0] if shape is Shape.SINGLE else list(values)


def _values(feature: Any) -> Any:
    kind = feature.WhichOneof("kind")
    return None if kind is None else getattr(feature, kind).value


def _field(seen: _Seen) -> Field:
    dtype = _TYPES[seen.type]
    if seen.type == "bytes_list" and seen.text and seen.medium is None:
        dtype = pa.string()
    if seen.sequence:
        return Field(pa.list_(pa.list_(dtype)), Kind.VALUE)
    if (seen.least, seen.most) != (1, 1):
        return Field(pa.list_(dtype), Kind.VALUE)
    if seen.type != "bytes_list":
        return Field(dtype, Kind.SCALAR)
    return Field(dtype, seen.medium or (Kind.TEXT if seen.text else Kind.BYTES))


def _described(kind: str | None, sequence: bool) -> str:
    values = "empty" if kind is None else kind.removesuffix("_list")
    return f"a feature list of {values}" if sequence else values


def _text(value: bytes) -> str | None:
    """Return bytes as text. With a zero byte they are none, though UTF-8 has it: small numbers in a mask look so."""
    try:
        return None if b"\0" in value else value.decode()
    except UnicodeDecodeError:
        return None


def _descriptor(descriptors: Any) -> Any:
    """Describe tensorflow/core/example/{feature,example}.proto, as far as SequenceExample needs."""
    kinds = descriptors.FieldDescriptorProto
    file = descriptors.FileDescriptorProto(name="toolkit/tfrecord.proto", package=_PACKAGE, syntax="proto3")

    def message(name: str, *fields: tuple[str, int, int, bool, str | None], within: Any = file.message_type) -> Any:
        made = within.add(name=name)
        for field, number, dtype, repeated, refers in fields:
            made.field.add(
                name=field,
                number=number,
                type=dtype,
                label=kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL,
                type_name=None if refers is None else f".{_PACKAGE}.{refers}",
            )
        return made

    def mapping(name: str, field: str, entry: str, refers: str) -> None:
        owner = message(name, (field, 1, kinds.TYPE_MESSAGE, True, f"{name}.{entry}"))
        pair = [("key", 1, kinds.TYPE_STRING, False, None), ("value", 2, kinds.TYPE_MESSAGE, False, refers)]
        message(entry, *pair, within=owner.nested_type).options.map_entry = True

    message("BytesList", ("value", 1, kinds.TYPE_BYTES, True, None))
    message("FloatList", ("value", 1, kinds.TYPE_FLOAT, True, None))
    message("Int64List", ("value", 1, kinds.TYPE_INT64, True, None))
    feature = message(
        "Feature",
        ("bytes_list", 1, kinds.TYPE_MESSAGE, False, "BytesList"),
        ("float_list", 2, kinds.TYPE_MESSAGE, False, "FloatList"),
        ("int64_list", 3, kinds.TYPE_MESSAGE, False, "Int64List"),
    )
    feature.oneof_decl.add(name="kind")
    for field in feature.field:
        field.oneof_index = 0
    mapping("Features", "feature", "FeatureEntry", "Feature")
    message("FeatureList", ("feature", 1, kinds.TYPE_MESSAGE, True, "Feature"))
    mapping("FeatureLists", "feature_list", "FeatureListEntry", "FeatureList")
    message(
        "SequenceExample",
        ("context", 1, kinds.TYPE_MESSAGE, False, "Features"),
        ("feature_lists", 2, kinds.TYPE_MESSAGE, False, "FeatureLists"),
    )
    return file
