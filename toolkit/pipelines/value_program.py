"""Run a slot's steps that are no pixels' kernels: in Python, on a part of a batch at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines.draw_names import draw_ids
from toolkit.pipelines.randomness import step_keys
from toolkit.pipelines.step import Step
from toolkit.pipelines.value_step import Call, ValueFaultError, Values, ValueStep, Watch

__all__ = ["StepFailureError", "ValueProgram"]


class StepFailureError(Exception):
    """Sample number `index` of a part failed in a step. Whoever knows its row says where."""

    def __init__(self, index: int, step: str, message: str) -> None:
        super().__init__(message)
        self.index = index
        self.step = step


class ValueProgram:
    """Steps after decoding, compiled. Immutable; used by every worker at once."""

    def __init__(self, steps: Sequence[ValueStep], before: Sequence[Step] = ()) -> None:
        """`before`: the steps in front of them, for those count in the ids by which steps draw."""
        ids = draw_ids([*before, *steps])[len(before) :]
        self._runs = [(step, step.text(), id if step.draws else None) for step, id in zip(steps, ids, strict=True)]

    def run(self, values: Values, keys: NDArray[np.uint64] | None, watch: Watch) -> Values:
        """Return what the steps make of the values, none of which is missing.

        Args:
            values: Array (n, …) or list of n.
            keys: uint64 (n,) where a step draws: the samples' keys.
            watch: Is told of functions that run.

        Raises:
            StepFailureError: A value can't be decoded, doesn't fit, or its function failed.
        """
        for step, text, id in self._runs:
            drawn = None if keys is None or id is None else step_keys(keys, id)
            try:
                values = step.run(values, Call(text, drawn, watch))
            except ValueFaultError as error:
                raise StepFailureError(error.index, text, str(error)) from error.__cause__
        return values
