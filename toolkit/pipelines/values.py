"""Run the steps that are no images': on a part of a batch at a time, whose values are an array or a list."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines.arrays import (
    array_from_bytes,
    array_from_list,
    convert_numbers,
    owned_array,
    plain_array,
    read_npy,
)
from toolkit.pipelines.image.steps import Cast
from toolkit.pipelines.randomness import generator, step_id, step_keys
from toolkit.pipelines.spec import Step, step_text
from toolkit.pipelines.value_steps import Array, Bytes, Json, Npy, OneHot, Passthrough, Python, Scalar, Text

__all__ = ["StepFailureError", "ValueProgram", "Values", "Watch", "value_kernel"]

Values = NDArray[Any] | list[Any]


class StepFailureError(Exception):
    """Sample number `index` of a part failed in a step. Whoever knows its row says where."""

    def __init__(self, index: int, step: str, message: str) -> None:
        super().__init__(message)
        self.index = index
        self.step = step


class Watch(Protocol):
    """Is told when a function of the user's own begins and ends: one that never returns is noticed by others."""

    def begin(self, index: int, step: str, timeout: float | None) -> None:
        """Sample `index` enters a function that may take `timeout` seconds."""

    def end(self) -> None:
        """It came back."""


class ValueProgram:
    """Steps after decoding, compiled. Immutable; used by every worker at once."""

    def __init__(self, steps: Sequence[Step], before: Sequence[Step] = ()) -> None:
        """`before`: the steps in front of them, for those count in the ids by which steps draw."""
        seen = Counter(type(step).__name__ for step in before)
        self._runs: list[tuple[str, _Run]] = []
        for step in steps:
            name = type(step).__name__
            ordinal = seen[name]
            seen[name] += 1
            if isinstance(step, Python):
                self._runs.append((step_text(step), _PythonRun(step, step_id(name, ordinal))))
            elif not isinstance(step, (Passthrough, Bytes)):
                run, each = _FUNCTIONS[type(step)]
                self._runs.append((step_text(step), _EachRun(run, step) if each else _WholeRun(run, step)))

    def run(self, values: Values, keys: NDArray[np.uint64] | None, watch: Watch) -> Values:
        """Return what the steps make of the values, none of which is missing.

        Args:
            values: Array (n, …) or list of n.
            keys: uint64 (n,) where a step draws: the samples' keys.
            watch: Is told of functions that run.

        Raises:
            StepFailureError: A value can't be decoded, doesn't fit, or its function failed.
        """
        for text, run in self._runs:
            try:
                values = run(values, keys, watch, text)
            except _ValueFaultError as error:
                raise StepFailureError(error.index, text, str(error)) from error.__cause__
        return values


class _ValueFaultError(Exception):
    def __init__(self, index: int, message: str) -> None:
        super().__init__(message)
        self.index = index


_Whole = Callable[[Any, NDArray[Any]], tuple[NDArray[Any], NDArray[np.bool_], str]]
_Run = Callable[[Values, "NDArray[np.uint64] | None", Watch, str], Values]


class _EachRun:
    """A function of one value, on each."""

    def __init__(self, function: Callable[[Any, Any], Any], step: Step) -> None:
        self._function = function
        self._step = step

    def __call__(self, values: Values, keys: NDArray[np.uint64] | None, watch: Watch, text: str) -> Values:
        out = []
        for i, value in enumerate(values):
            try:
                out.append(self._function(self._step, value))
            except (ValueError, MemoryError, RecursionError) as error:
                raise _ValueFaultError(i, str(error) or type(error).__name__) from error
        return _joined(out)


class _WholeRun:
    """A function of the whole part, which says which value failed. A list of arrays goes through one by one."""

    def __init__(self, function: _Whole, step: Step) -> None:
        self._function = function
        self._step = step

    def __call__(self, values: Values, keys: NDArray[np.uint64] | None, watch: Watch, text: str) -> Values:
        if isinstance(values, list):
            return _joined([self._checked(np.asarray(value)[None], i)[0] for i, value in enumerate(values)])
        return self._checked(values, 0)

    def _checked(self, values: NDArray[Any], first: int) -> NDArray[Any]:
        out, bad, message = self._function(self._step, values)
        failed = bad.reshape(len(values), -1).any(1)
        if failed.any():
            i = int(np.argmax(failed))
            worst = values[i][bad[i]].flat[0] if values.ndim > 1 else values[i]
            raise _ValueFaultError(first + i, f"{worst} {message}")
        return out


class _PythonRun:
    """A function of the user's own, on each value, under the GIL."""

    def __init__(self, step: Python, number: int) -> None:
        self._step = step
        self._number = number
        fixed = step.dtype is not None and step.shape is not None and None not in step.shape
        self._fixed: tuple[Any, ...] | None = step.shape if fixed else None

    def __call__(self, values: Values, keys: NDArray[np.uint64] | None, watch: Watch, text: str) -> Values:
        step = self._step
        drawn = step_keys(keys, self._number).tolist() if step.random and keys is not None else []
        out: Values = [None] * len(values)
        if self._fixed is not None:
            out = np.empty((len(values), *self._fixed), step.dtype)
        for i, value in enumerate(values):
            watch.begin(i, text, step.timeout)
            try:
                result = step.fn(value, generator(drawn[i])) if step.random else step.fn(value)
            except Exception as error:
                raise _ValueFaultError(i, f"{type(error).__name__}: {error}") from error
            finally:
                watch.end()
            if isinstance(result, np.ndarray):
                result = self._plain(i, result)
            out[i] = result if step.dtype is None else self._checked(i, result)
        return out

    def _plain(self, i: int, result: NDArray[Any]) -> NDArray[Any]:
        """Return an array as batches take it; one that is copied into a batch anyway needs no layout of its own."""
        try:
            return owned_array(result) if self._fixed is None else plain_array(result)
        except ValueError as error:
            raise _ValueFaultError(i, f"it returned an array of which {error}") from error

    def _checked(self, i: int, result: Any) -> Any:
        wanted, shape = np.dtype(self._step.dtype), self._step.shape or ()
        if isinstance(result, (bool, int, float)) and not shape:
            whole = np.asarray(result)
            if whole.dtype.kind in "biuf":  # a Python int beyond 64 bits is an object
                made, bad, _ = convert_numbers(wanted, whole[None])
                if bad.any() or (whole.dtype.kind, wanted.kind) in (("f", "i"), ("f", "u"), ("i", "b"), ("f", "b")):
                    raise _ValueFaultError(i, f"it returned {result!r}, the schema says {wanted.name}")
                return made[0]
        if not isinstance(result, (np.ndarray, np.generic)):
            given = type(result).__name__
            raise _ValueFaultError(i, f"it returned {given}, the schema says {wanted.name} {_sizes(shape)}")
        fits = len(result.shape) == len(shape) and all(
            size is None or size == got for size, got in zip(shape, result.shape, strict=True)
        )
        if result.dtype != wanted or not fits:
            given = f"{result.dtype.name} {result.shape}"
            raise _ValueFaultError(i, f"it returned {given}, the schema says {wanted.name} {_sizes(shape)}")
        return result


def value_kernel(step: Step) -> str:
    """Return what runs a step, for explain()."""
    if isinstance(step, Python):
        return "your function, under the GIL"
    return {Passthrough: "copy", Bytes: "copy", Text: "str.decode", Json: "json"}.get(type(step), "numpy")


def _decode_text(step: Text, value: bytes) -> str:
    return value.decode(step.encoding)


def _decode_json(step: Json, value: bytes) -> Any:
    return json.loads(value)


def _read_array(step: Array, value: Any) -> NDArray[Any]:
    if isinstance(value, bytes):
        return array_from_bytes(value, np.dtype(step.dtype), step.shape)
    return array_from_list(value, np.dtype(step.dtype), step.shape)


def _decode_npy(step: Npy, value: bytes) -> NDArray[Any]:
    return read_npy(value, None if step.dtype is None else np.dtype(step.dtype), step.shape)


def _convert(step: Scalar | Cast, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    return convert_numbers(np.dtype(step.dtype), values)


def _one_hot(step: OneHot, values: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_], str]:
    bad = (values < 0) | (values >= step.classes)
    out = np.zeros((len(values), step.classes), np.float32)
    ids = np.flatnonzero(~bad)
    out[ids, values[ids].astype(np.int64)] = 1
    return out, bad, f"is no class id of {step.classes} classes"


# What runs each step, and whether on one value at a time.
_FUNCTIONS: dict[type, tuple[Callable[..., Any], bool]] = {
    Text: (_decode_text, True),
    Json: (_decode_json, True),
    Npy: (_decode_npy, True),
    Array: (_read_array, True),
    Scalar: (_convert, False),
    Cast: (_convert, False),
    OneHot: (_one_hot, False),
}


def _joined(values: list[Any]) -> Values:
    """Return arrays of one shape and dtype as one array, so that what follows runs on all of them at once."""
    if not values or not isinstance(values[0], (np.ndarray, np.generic)):
        return values
    first = values[0]
    if any(value.shape != first.shape or value.dtype != first.dtype for value in values):
        return values
    return np.stack(values)


def _sizes(shape: Sequence[int | None]) -> str:
    return "a number" if not shape else "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
