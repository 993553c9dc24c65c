"""The step that changes dtypes, of images as they are written to the batch and of other numbers: cast."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image.program import DTYPES, FLOATS
from toolkit.pipelines import fields
from toolkit.pipelines.array.numbers import check_convertible
from toolkit.pipelines.arrays import convert_numbers
from toolkit.pipelines.image.image_step import FinishStep
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.value_step import WholeArray

__all__ = ["Cast"]


@register
class Cast(FinishStep, WholeArray):
    """Change the dtype, values as they are. Images also to bfloat16: numpy output has it as uint16."""

    word = "cast"
    dtype: str = fields.dtype(also=("bfloat16",))

    def after(self, state: State) -> State:
        """Cast finished pixels, a number or a tensor."""
        if state.layout is None:
            return self._after_value(state)
        if state.dtype not in ("uint8", "float32") and state.kind not in (ValueKind.IDS, ValueKind.VIEWS):
            raise MisfitError("an image that was not cast before", state, "cast once")
        if state.dtype == "float32" and self.dtype not in FLOATS:
            fix = f"{self.dtype} would cut off fractions: cast instead of normalize"
            raise MisfitError("whole numbers", state, fix)
        if self.dtype not in DTYPES:
            raise MisfitError("a dtype that images have", self.dtype, f"they come as {', '.join(DTYPES)}")
        return State(ValueKind.TENSOR, self.dtype, state.shape, state.layout)

    def finish(self, options: dict[str, Any]) -> None:
        """Say what the finished pixels are written as."""
        options["dtype"] = self.dtype

    def convert_all(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
        """Convert exactly."""
        return convert_numbers(np.dtype(self.dtype), values)

    def _after_value(self, state: State) -> State:
        if state.kind in (ValueKind.STORED, ValueKind.NUMBER):
            raise MisfitError("a number or tensor", state, f"say .scalar({self.dtype!r}), or decode first")
        if state.kind not in (ValueKind.SCALAR, ValueKind.TENSOR):
            raise MisfitError("a number or tensor", state, "only numbers have a dtype")
        if self.dtype == "bfloat16":
            raise MisfitError("a dtype that numpy has", "bfloat16", "only images can be cast to it")
        check_convertible(state, self.dtype)
        return State(state.kind, self.dtype, state.shape)
