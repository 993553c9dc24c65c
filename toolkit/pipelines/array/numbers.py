"""Steps that make numbers: scalar and one_hot."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines import fields
from toolkit.pipelines.arrays import convert_numbers
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.value_step import WholeArray, check_stored

__all__ = ["OneHot", "Scalar", "check_convertible"]


@register
class Scalar(WholeArray):
    """Give a number column as an array (n,) of `dtype`; a number that doesn't fit is an error."""

    word = "scalar"
    dtype: str = fields.dtype()

    def after(self, state: State) -> State:
        """Make a number of a stored number."""
        fix = {
            ValueKind.IMAGE: "put .decode_image() there",
            ValueKind.RAW_IMAGE: "put .decode_image() there",
            ValueKind.TEXT: "make a number of text with .python(int, 'int64')",
            ValueKind.LIST: "lists are read by .array(dtype, shape)",
        }.get(state.kind, "only columns of numbers have scalars")
        check_stored(state, "a column of numbers", fix, ValueKind.NUMBER)
        check_convertible(state, self.dtype)
        return State(ValueKind.SCALAR, self.dtype, ())

    def convert_all(self, values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
        """Convert exactly."""
        return convert_numbers(np.dtype(self.dtype), values)


@register
class OneHot(WholeArray):
    """Make float32 (classes,) of a class id: 1 at the id, 0 elsewhere; an id outside is an error."""

    word = "one_hot"
    classes: int = fields.whole()

    def after(self, state: State) -> State:
        """Make a tensor of a whole number."""
        if state.kind is not ValueKind.SCALAR:
            raise MisfitError("a whole number", state, "put .scalar('int64') first")
        if np.dtype(state.dtype).kind not in "iu":
            raise MisfitError("a whole number", state, "class ids are int64")
        return State(ValueKind.TENSOR, "float32", (self.classes,))

    def convert_all(self, values: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.bool_], str]:
        """Set the ones."""
        bad = (values < 0) | (values >= self.classes)
        out = np.zeros((len(values), self.classes), np.float32)
        ids = np.flatnonzero(~bad)
        out[ids, values[ids].astype(np.int64)] = 1
        return out, bad, f"is no class id of {self.classes} classes"


def check_convertible(state: State, dtype: str) -> None:
    """Raise MisfitError when numbers of the state, where its dtype is known, aren't to become `dtype` unasked."""
    if state.dtype is None:
        return
    before, wanted = np.dtype(state.dtype).kind, np.dtype(dtype).kind
    if before == "f" and wanted != "f":
        raise MisfitError("whole numbers", state, f"{dtype} would cut off fractions: round them with .python()")
    if wanted == "b" and before != "b":
        raise MisfitError("booleans", state, "say which numbers are true with .python()")
