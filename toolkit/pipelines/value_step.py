"""Steps that run in Python on a part of a batch at a time, whose values are an array or a list."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image.program import Scratch
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.step import Step

__all__ = [
    "Call",
    "EachValue",
    "ValueFaultError",
    "ValueStep",
    "Values",
    "Watch",
    "WholeArray",
    "check_stored",
    "joined",
]

Values = NDArray[Any] | list[Any]

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


class ValueFaultError(Exception):
    """Sample number `index` of a part failed, in `step` if that isn't the one run. Whoever knows the row says where."""

    def __init__(self, index: int, message: str, step: str | None = None) -> None:
        super().__init__(message)
        self.index = index
        self.step = step


class Watch(Protocol):
    """Is told when a function of the user's own begins and ends: one that never returns is noticed by others."""

    def begin(self, index: int, step: str, timeout: float | None) -> None:
        """Sample `index` enters a function that may take `timeout` seconds."""

    def end(self) -> None:
        """It came back."""


@dataclass(slots=True)  # not frozen: one is made for each step of a part, and that costs a microsecond
class Call:
    """What a step runs with besides the values.

    Attributes:
        text: The step as it is written.
        keys: uint64 (n,), what each sample draws from in this step; None where it doesn't draw.
        samples: uint64 (n,), the samples' own keys, of which those of all steps follow; None where none draws.
        watch: Is told of functions that run.
        scratch: The thread's memory for pixels, charged to the loader's budget; None: there is none to share.
    """

    text: str
    keys: NDArray[np.uint64] | None
    samples: NDArray[np.uint64] | None
    watch: Watch
    scratch: Scratch | None = None


class ValueStep(Step):
    """A step that runs in Python.

    Attributes:
        keeps_memory: Numbers lie in memory afterwards as they did before, whatever shape they have.
    """

    __slots__ = ()
    keeps_memory: ClassVar[bool] = False

    @abstractmethod
    def run(self, values: Values, call: Call) -> Values:
        """Return what the step makes of values, none of which is missing. Raises ValueFaultError."""


class EachValue(ValueStep):
    """A step that makes something of one value at a time."""

    __slots__ = ()

    @abstractmethod
    def convert(self, value: Any) -> Any:
        """Return what becomes of a value. Raises ValueError, and says what is wrong with it."""

    def run(self, values: Values, call: Call) -> Values:
        """Convert each."""
        out = []
        for i, value in enumerate(values):
            try:
                out.append(self.convert(value))
            except (ValueError, MemoryError, RecursionError) as error:
                raise ValueFaultError(i, str(error) or type(error).__name__) from error
        return joined(out)


class WholeArray(ValueStep):
    """A step on all of a part's numbers at once. A list of arrays goes through one by one."""

    __slots__ = ()

    @abstractmethod
    def convert_all(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
        """Return what becomes of the numbers, which of them are no good, and what to say of those."""

    def run(self, values: Values, call: Call) -> Values:
        """Convert the array, or each of a list."""
        if isinstance(values, list):
            return joined([self._checked(np.asarray(value)[None], i)[0] for i, value in enumerate(values)])
        return self._checked(values, 0)

    def _checked(self, values: NDArray[Any], first: int) -> NDArray[Any]:
        out, bad, message = self.convert_all(values)
        failed = bad.reshape(len(values), -1).any(1)
        if failed.any():
            i = int(np.argmax(failed))
            worst = values[i][bad[i]].flat[0] if values.ndim > 1 else values[i]
            raise ValueFaultError(first + i, f"{worst} {message}")
        return out


def check_stored(state: State, expected: str, fix: str, *kinds: ValueKind) -> None:
    """Raise MisfitError unless the state is a column's value, of one of these kinds; without kinds: of any."""
    if state.kind not in _STORED or (state.kind is not ValueKind.STORED and state.column is None):
        raise MisfitError(expected, state, "a column is decoded once, by the slot's first step")
    if state.kind not in (ValueKind.STORED, *(kinds or _STORED)):
        raise MisfitError(expected, state, fix)


def joined(values: list[Any]) -> Values:
    """Return arrays of one shape and dtype as one array, so that what follows runs on all of them at once."""
    if not values or not all(isinstance(value, (np.ndarray, np.generic)) for value in values):
        return values
    first = values[0]
    if any(value.shape != first.shape or value.dtype != first.dtype for value in values):
        return values
    return np.stack(values)
