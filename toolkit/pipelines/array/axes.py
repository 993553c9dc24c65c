"""Steps that say how the axes of arrays lie: reshape and transpose."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_shape, an_int
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import MisfitError, Shape, State, ValueKind
from toolkit.pipelines.value_step import Call, ValueFaultError, Values, ValueStep, joined

__all__ = ["Reshape", "Transpose"]

_ARRAYS = (ValueKind.PIXELS, ValueKind.IDS, ValueKind.TENSOR, ValueKind.SCALAR)
_MOST_AXES = 32


def _one_open(name: str, value: Any) -> Shape:
    """Return sizes, None in place of -1."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value,)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        value = tuple(None if size == -1 else size for size in value)
    sizes = a_shape(name, value)
    if sizes.count(None) > 1:
        raise BadArgumentError(f"only one size of {name} can be -1, got {short(value, 80, quoted=True)}")
    return sizes


def _axes(name: str, value: Any) -> tuple[int, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise BadArgumentError(
            f"{name} must be the order of the axes, as (2, 0, 1), got {short(value, 80, quoted=True)}"
        )
    axes = tuple(an_int(f"one of {name}", axis, least=0, most=_MOST_AXES - 1) for axis in value)
    if sorted(axes) != list(range(len(axes))):
        raise BadArgumentError(f"{name} must name each axis once, from 0 on, got {short(value, 80, quoted=True)}")
    return axes


class _ArrayStep(ValueStep):
    __slots__ = ()

    def run(self, values: Values, call: Call) -> Values:
        """Change all at once, or each of a list."""
        if isinstance(values, np.ndarray):
            return self._change(values, 0)
        return joined([self._change(np.asarray(value)[None], i)[0] for i, value in enumerate(values)])

    def _change(self, values: NDArray[Any], first: int) -> NDArray[Any]:
        raise NotImplementedError


@register
class Reshape(_ArrayStep):
    """Give an array another shape, its numbers in the order that they have: numpy.reshape.

    Args:
        shape: Of each sample. One size may be -1: it follows from the others.
    """

    word = "reshape"
    keeps_memory = True
    shape: Shape = fields.argument(_one_open, "int | Sequence[int]")

    def after(self, state: State) -> State:
        """Make the shape, its open size where that is known."""
        if state.kind not in _ARRAYS or state.dtype is None:
            raise MisfitError("an array", state, "decode first")
        sizes = self.shape
        if state.fixed_shape is not None:
            count, known = math.prod(state.fixed_shape), math.prod(size for size in sizes if size is not None)
            if (None not in sizes and known != count) or (None in sizes and (known == 0 or count % known)):
                fix = "one size may be -1, and follows from the others"
                raise MisfitError(f"a shape of {count} numbers", _told(sizes), fix)
            sizes = tuple(count // known if size is None else size for size in sizes)
        return State(ValueKind.TENSOR, state.dtype, sizes)

    def text(self) -> str:
        """Write the open size as -1."""
        return f"{self.word}({_told(self.shape)})"

    def _change(self, values: NDArray[Any], first: int) -> NDArray[Any]:
        try:
            return values.reshape(len(values), *(-1 if size is None else size for size in self.shape))
        except ValueError:
            numbers = values[0].size
            raise ValueFaultError(first, f"{numbers} numbers don't make the shape {_told(self.shape)}") from None


@register
class Transpose(_ArrayStep):
    """Put the axes of an array into another order: numpy.transpose, the batch's own axis not counted.

    Args:
        axes: For each axis of the result, which one it was: (2, 0, 1) puts the last one first.
    """

    word = "transpose"
    axes: tuple[int, ...] = fields.argument(_axes, "Sequence[int]")

    def after(self, state: State) -> State:
        """Order the sizes."""
        if state.kind not in _ARRAYS or state.dtype is None or state.shape is None:
            raise MisfitError("an array whose number of axes is known", state, "decode first, and say its shape")
        if len(state.shape) != len(self.axes):
            fix = "name each axis once; the batch's own is not counted"
            raise MisfitError(f"{len(self.axes)} axes, as many as are named", len(state.shape), fix)
        return State(ValueKind.TENSOR, state.dtype, tuple(state.shape[axis] for axis in self.axes))

    def _change(self, values: NDArray[Any], first: int) -> NDArray[Any]:
        return np.ascontiguousarray(values.transpose(0, *(axis + 1 for axis in self.axes)))


def _told(sizes: Shape) -> object:
    return tuple(-1 if size is None else size for size in sizes)
