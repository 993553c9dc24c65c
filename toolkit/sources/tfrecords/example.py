"""Parse tf.train.Example and SequenceExample.

Needs the protobuf library, but no generated code and no TensorFlow. Both messages are read as a SequenceExample: on the
wire an Example is one without feature lists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from typing import Any

from toolkit.errors import UsageError

__all__ = ["NotAnExampleError", "parser", "text_of_bytes", "values_of"]

_PACKAGE = "toolkit.tfrecord"  # not TensorFlow's own: the two never meet in one pool


class NotAnExampleError(ValueError):
    """A payload that is no tf.train.Example."""


@functools.cache
def parser(advice: str = "") -> Callable[[bytes], Any]:
    """Return what makes a message of a payload, or raises NotAnExampleError.

    Args:
        advice: What else to do without protobuf: the end of the message.

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
            f"tf.train.Example needs the protobuf library: pip install 'toolkit[tfrecord]'{advice}"
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


def values_of(feature: Any) -> Any:
    """Return the values of a feature, or None when no list is set."""
    kind = feature.WhichOneof("kind")
    return None if kind is None else getattr(feature, kind).value


def text_of_bytes(value: bytes) -> str | None:
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
