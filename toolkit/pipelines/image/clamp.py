"""The step that brings values into a range, of pixels and of any numbers: clamp."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError
from toolkit.pipelines.image.image_step import PixelStep, TensorStep, pixels_or_floats
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.value_step import WholeArray

__all__ = ["Clamp"]


@register
class Clamp(PixelStep, TensorStep, WholeArray):
    """Bring values below `low` to it, and those above `high` to that: numpy.clip.

    It takes pixels, the tensor of floats that they become, and any other number or tensor. Of whole numbers both
    ends must be whole.
    """

    word = "clamp"
    low: float = fields.number(least=-1e6, most=1e6)
    high: float = fields.number(least=-1e6, most=1e6)

    @classmethod
    def of(cls, low: float, high: float) -> Self:
        """Take both ends."""
        made = cls.checked(low=low, high=high)
        if made.low > made.high:
            raise BadArgumentError(f"low must not be above high, got {made.low:g} and {made.high:g}")
        return made

    def after(self, state: State) -> State:
        """Leave what it is."""
        if state.layout is not None:
            pixels_or_floats(state)
        elif state.kind not in (ValueKind.SCALAR, ValueKind.TENSOR):
            raise MisfitError("a number or tensor", state, "decode first")
        if state.dtype == "bool":
            raise MisfitError("numbers", state, "booleans have no range")
        if state.dtype is not None and np.dtype(_numpy(state.dtype)).kind != "f":
            limits = np.iinfo(state.dtype)
            for end in (self.low, self.high):
                if not end.is_integer() or not limits.min <= end <= limits.max:
                    fix = "give whole numbers that it has, or cast to floats before"
                    raise MisfitError(f"ends that {state.dtype} has", f"{end:g}", fix)
        return state

    def convert_all(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
        """Clip."""
        kind = values.dtype.type
        return np.clip(values, kind(self.low), kind(self.high)), np.zeros(values.shape, np.bool_), ""


def _numpy(dtype: str) -> str:
    return "float32" if dtype == "bfloat16" else dtype
