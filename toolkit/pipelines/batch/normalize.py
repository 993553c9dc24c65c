"""The step that normalises a column when the batch is filled, after what mixes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from toolkit._native.batch.normalize import FLOATS, normalize_floats, normalize_pixels
from toolkit.pipelines.batch.column_names import column_names
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
from toolkit.pipelines.state import Layout, MisfitError, State, ValueKind
from toolkit.pipelines.statistics import check_statistics, name_of_statistics
from toolkit.pipelines.step import call_text

__all__ = ["normalize_batch"]

_TAKEN = ("uint8", *FLOATS)


@batch_step
class NormalizeBatch(BatchStep):
    """Normalises."""

    word = "normalize_batch"
    mean: tuple[float, ...]
    std: tuple[float, ...]
    columns: tuple[str, ...] = ("image",)

    @classmethod
    def of(
        cls, mean: str | Sequence[float], std: Sequence[float] | None = None, *, columns: str | Sequence[str] = "image"
    ) -> Self:
        """Take statistics, or their name."""
        means, stds = check_statistics(cls.word, mean, std)
        return cls(mean=means, std=stds, columns=column_names("columns", columns))

    def text(self) -> str:
        """Write known statistics by their name."""
        name = name_of_statistics(self.mean, self.std)
        return call_text(self.word, *([name] if name else [self.mean, self.std]), **self.changed("columns"))

    def after(self, columns: Columns) -> Columns:
        """Make float32 of uint8; floats stay what they are."""
        return {**columns, **{name: self._after(name, find_column(columns, name, "columns")) for name in self.columns}}

    def _after(self, name: str, column: BatchColumn) -> BatchColumn:
        state = column.state
        if state is None:
            return column
        if state.fixed_shape is None or state.dtype is None:
            raise MisfitError(
                f"arrays of one shape in column {name!r}", state, "resize or crop images to one size before"
            )
        if state.dtype not in _TAKEN or state.kind is ValueKind.IDS:
            raise MisfitError(f"{', '.join(_TAKEN)} in column {name!r}", state, "cast it, or name others by columns=")
        if len(self.mean) not in (1, self._channels(state)):
            raise MisfitError(
                f"{len(self.mean)} channels in column {name!r}, one for each mean and std",
                state,
                "give one value for all",
            )
        dtype = "float32" if state.dtype == "uint8" else state.dtype
        return BatchColumn(State(ValueKind.TENSOR, dtype, state.shape, state.layout), column.optional)

    def run(self, batch: FilledColumns) -> None:
        """Normalise the samples that are there; padding stays 0."""
        for name in self.columns:
            self._run(batch, name)

    def _run(self, batch: FilledColumns, name: str) -> None:
        values, dtype, there = batch.array(name), batch.dtype(name), batch.has(name).view(np.uint8)
        if dtype not in _TAKEN:
            raise BatchFaultError(f"column {name!r} is {dtype}, and {', '.join(_TAKEN)} can be normalised")
        inner = self._inner(batch, name, values)
        if dtype != "uint8":
            mean, std = np.array(self.mean), np.array(self.std)
            normalize_floats(values.reshape(-1).view(np.uint8), dtype, there, inner, mean, std)
            return
        # As a slot's normalize has it: one multiply and one add a value.
        scale = np.array([1 / (255 * value) for value in self.std], np.float32)
        bias = np.array([-of / value for of, value in zip(self.mean, self.std, strict=True)], np.float32)
        out = np.empty(values.shape, np.float32)
        gone = there == 0
        out[gone] = values[gone]
        normalize_pixels(values.reshape(-1), out.reshape(-1), there, inner, scale, bias)
        batch.columns[name] = out

    def _inner(self, batch: FilledColumns, name: str, values: NDArray[Any]) -> int:
        """Return how many values of one channel follow each other."""
        if len(self.mean) == 1:
            return max(1, math.prod(values.shape[1:]))
        state = batch.known[name].state if name in batch.known else None
        if state is None or state.layout is None:
            raise BatchFaultError(
                f"column {name!r} is {values.dtype} {values.shape}, made by a function: which axis the channels are "
                "isn't known. Put the function behind this step, or give one mean for all"
            )
        return math.prod(values.shape[-2:]) if state.layout is Layout.CHW else 1

    @staticmethod
    def _channels(state: State) -> int:
        return state.channels or 1


def normalize_batch(
    mean: str | Sequence[float], std: Sequence[float] | None = None, *, columns: str | Sequence[str] = "image"
) -> BatchStep:
    """Normalise columns when the batch is filled: what mixes uint8 pixels before takes a quarter of the memory.

    uint8 becomes float32, (pixel / 255 - mean) / std, in the arithmetic of a slot's normalize(), bit for bit; the axes
    stay as they are. float16, bfloat16, float32 and float64 are changed in place, (value - mean) / std, computed in
    float32 but for float64. Where there is no sample, or no value, nothing is changed.

    Args:
        mean: A mean for each channel, or one for all, or the name of known statistics: imagenet, half, unit.
        std: Standard deviations alike; none with a name.
        columns: Names of the columns.

    Raises:
        PipelineError: An argument can't be.
    """
    return made(NormalizeBatch, mean, std, columns=columns)
