"""The rules of steps that are no images'."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

import numpy as np

from toolkit.pipelines.image.steps import Cast
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.value_steps import Array, Bytes, Json, Npy, OneHot, Passthrough, Python, Scalar, Text

__all__ = ["RULES", "cast_value"]

_STORED = (
    ValueKind.STORED,
    ValueKind.IMAGE,
    ValueKind.RAW_IMAGE,
    ValueKind.BYTES,
    ValueKind.TEXT,
    ValueKind.NUMBER,
    ValueKind.LIST,
    ValueKind.OBJECT,
)


def _stored(state: State, expected: str, fix: str, *kinds: ValueKind) -> None:
    """Raise MisfitError unless the state is a column's value, of one of these kinds."""
    if state.kind not in _STORED or (state.kind is not ValueKind.STORED and state.column is None):
        raise MisfitError(expected, state, "a column is decoded once, by the slot's first step")
    if state.kind not in (ValueKind.STORED, *kinds):
        raise MisfitError(expected, state, fix)


def _passthrough(step: Passthrough, state: State) -> State:
    _stored(state, "a column", "", *_STORED)
    return state


def _bytes(step: Bytes, state: State) -> State:
    fix = "leave the step out to get the value as it is stored"
    _stored(state, "bytes, text or an image column", fix, ValueKind.IMAGE, ValueKind.BYTES, ValueKind.TEXT)
    return State(ValueKind.BYTES)


def _text(step: Text, state: State) -> State:
    if state.kind is ValueKind.TEXT and state.column is not None and codecs.lookup(step.encoding).name != "utf-8":
        raise MisfitError("bytes", state, "stored text is UTF-8: leave the encoding out")
    _stored(state, "text or bytes", "leave .text() out to get the stored value", ValueKind.TEXT, ValueKind.BYTES)
    return State(ValueKind.TEXT)


def _json(step: Json, state: State) -> State:
    fix = "leave .json() out to get the stored value"
    _stored(state, "text or bytes that hold JSON", fix, ValueKind.TEXT, ValueKind.BYTES)
    return State(ValueKind.OBJECT)


def _npy(step: Npy, state: State) -> State:
    _stored(state, "bytes of a NumPy file", "lists and raw bytes are read by .array(dtype, shape)", ValueKind.BYTES)
    return State(ValueKind.TENSOR, step.dtype, step.shape)


def _scalar(step: Scalar, state: State) -> State:
    fix = {
        ValueKind.IMAGE: "put .decode_image() there",
        ValueKind.RAW_IMAGE: "put .decode_image() there",
        ValueKind.TEXT: "make a number of text with .python(int, 'int64')",
        ValueKind.LIST: "lists are read by .array(dtype, shape)",
    }.get(state.kind, "only columns of numbers have scalars")
    _stored(state, "a column of numbers", fix, ValueKind.NUMBER)
    if state.dtype is not None:
        _convertible(state, step.dtype)
    return State(ValueKind.SCALAR, step.dtype, ())


def _array(step: Array, state: State) -> State:
    images = (ValueKind.IMAGE, ValueKind.RAW_IMAGE)
    fix = "put .decode_image() there" if state.kind in images else "single numbers are read by .scalar(dtype)"
    _stored(state, "a column of lists or raw bytes", fix, ValueKind.BYTES, ValueKind.LIST)
    return State(ValueKind.TENSOR, step.dtype, step.shape)


def _one_hot(step: OneHot, state: State) -> State:
    if state.kind is not ValueKind.SCALAR:
        raise MisfitError("a whole number", state, "put .scalar('int64') first")
    if np.dtype(state.dtype).kind not in "iu":
        raise MisfitError("a whole number", state, "class ids are int64")
    return State(ValueKind.TENSOR, "float32", (step.classes,))


def _python(step: Python, state: State) -> State:
    if step.dtype is None:
        return State(ValueKind.OBJECT)
    return State(ValueKind.SCALAR if step.shape == () else ValueKind.TENSOR, step.dtype, step.shape)


def cast_value(step: Cast, state: State) -> State:
    """Return a number or tensor cast to another dtype; images have their own rule."""
    if state.kind in (ValueKind.STORED, ValueKind.NUMBER):
        raise MisfitError("a number or tensor", state, f"say .scalar({step.dtype!r}), or decode first")
    if state.kind not in (ValueKind.SCALAR, ValueKind.TENSOR):
        raise MisfitError("a number or tensor", state, "only numbers have a dtype")
    if step.dtype == "bfloat16":
        raise MisfitError("a dtype that numpy has", "bfloat16", "only images can be cast to it")
    if state.dtype is not None:
        _convertible(state, step.dtype)
    return State(state.kind, step.dtype, state.shape)


def _convertible(state: State, dtype: str) -> None:
    before, wanted = np.dtype(state.dtype).kind, np.dtype(dtype).kind
    if before == "f" and wanted != "f":
        raise MisfitError("whole numbers", state, f"{dtype} would cut off fractions: round them with .python()")
    if wanted == "b" and before != "b":
        raise MisfitError("booleans", state, "say which numbers are true with .python()")


RULES: dict[type, Callable[[Any, State], State]] = {
    Passthrough: _passthrough,
    Bytes: _bytes,
    Text: _text,
    Json: _json,
    Npy: _npy,
    Scalar: _scalar,
    Array: _array,
    OneHot: _one_hot,
    Python: _python,
}
