"""The step that makes one array of a list of arrays, all as long as the longest."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines import fields
from toolkit.pipelines.arrays import convert_numbers
from toolkit.pipelines.batch.step import (
    BatchColumn,
    BatchFaultError,
    BatchStep,
    Columns,
    FilledColumns,
    batch_step,
    find_column,
    made,
)
from toolkit.pipelines.check import a_number, a_text
from toolkit.pipelines.state import MisfitError, State, ValueKind

__all__ = ["pad_to_longest"]


@batch_step
class PadToLongest(BatchStep):
    """Pads."""

    word = "pad_to_longest"
    column: str = fields.argument(a_text, "str")
    multiple_of: int = fields.whole(1, keyword=True)
    value: float = fields.argument(a_number, "float", 0.0, keyword=True)

    @property
    def runs(self) -> str:
        """A copy of each sample."""
        return "numpy"

    @property
    def _lengths(self) -> str:
        return f"{self.column}_length"

    def after(self, columns: Columns) -> Columns:
        """Make an array of a list, whose length the batch decides, and add the lengths."""
        column = find_column(columns, self.column, "column")
        if self._lengths in columns:
            raise MisfitError("a free name", f"a column {self._lengths!r}", "rename it: lengths get that name")
        state = column.state
        if state is not None and (state.dtype is None or state.shape == () or state.dtype == "bfloat16"):
            raise MisfitError("arrays of numbers", state, "lists and bytes are read by .array(dtype, (None,))")
        padded = {
            name: BatchColumn(None, known.optional) if name == self.column else known for name, known in columns.items()
        }
        return {**padded, self._lengths: BatchColumn(State(ValueKind.SCALAR, "int64", ()))}

    def run(self, batch: FilledColumns) -> None:
        """Copy the samples into one array."""
        values = batch.columns[self.column]
        there = batch.has(self.column)
        lengths = np.zeros(len(there), np.int64)
        first = None
        for i in np.flatnonzero(there).tolist():
            one = values[i]
            if not isinstance(one, np.ndarray) or one.ndim == 0:
                raise BatchFaultError(f"{type(one).__name__} is no array that could be padded", i, self.column)
            first = one if first is None else first
            if one.dtype != first.dtype or one.shape[1:] != first.shape[1:]:
                raise BatchFaultError(
                    f"{one.dtype} {one.shape} can't be padded to fit {first.dtype} {first.shape}: only the first axis "
                    "may differ",
                    i,
                    self.column,
                )
            lengths[i] = len(one)
        longest = -(-int(lengths.max(initial=0)) // self.multiple_of) * self.multiple_of
        if first is None:
            first = self._nothing(batch)
        out = np.full((len(there), longest, *first.shape[1:]), self._value(first.dtype), first.dtype)
        for i in np.flatnonzero(there).tolist():
            out[i, : lengths[i]] = values[i]
        batch.columns[self.column] = out
        batch.kept.discard(self.column)
        batch.columns[self._lengths] = lengths

    def _nothing(self, batch: FilledColumns) -> NDArray[Any]:
        """Return an array as a sample's would be, where there is none."""
        state = batch.known[self.column].state
        if state is None or state.dtype is None:
            return np.zeros(0, np.float32)
        return np.zeros((0, *(size or 0 for size in (state.shape or (0,))[1:])), state.dtype)

    def _value(self, dtype: np.dtype[Any]) -> Any:
        whole = dtype.kind in "iu" and self.value.is_integer()
        fits = whole and np.iinfo(dtype).min <= int(self.value) <= np.iinfo(dtype).max
        if dtype.kind == "f":
            fits = not convert_numbers(dtype, np.array([self.value]))[1].any()
        elif dtype.kind == "b":
            fits = self.value in (0, 1)
        if not fits:
            raise BatchFaultError(f"value={self.value:g} doesn't fit {dtype} in column {self.column!r}")
        return dtype.type(int(self.value) if whole else self.value)


def pad_to_longest(column: str, *, multiple_of: int = 1, value: float = 0.0) -> BatchStep:
    """Make one array (n, longest, …) of samples whose first axis differs, and add their lengths, int64 (n,).

    The lengths are called `column`_length. Where there is no sample, or no value, the length is 0.

    Args:
        column: Name of a column of arrays.
        multiple_of: What the padded length is a multiple of.
        value: What stands behind a sample's end.

    Raises:
        PipelineError: An argument can't be.
    """
    return made(PadToLongest, column=column, multiple_of=multiple_of, value=value)
