"""Run a slot's steps that are no pixels' kernels: in Python, on a part of a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image.program import Scratch
from toolkit.pipelines.conditions import Branch
from toolkit.pipelines.draw_names import draw_names
from toolkit.pipelines.image.stretch import PixelStretch
from toolkit.pipelines.randomness import first_draws, step_id, step_keys
from toolkit.pipelines.step import Step
from toolkit.pipelines.value_step import Call, ValueFaultError, Values, ValueStep, Watch, joined

__all__ = ["StepFailureError", "ValueProgram"]


class StepFailureError(Exception):
    """Sample number `index` of a part failed in a step. Whoever knows its row says where."""

    def __init__(self, index: int, step: str, message: str) -> None:
        super().__init__(message)
        self.index = index
        self.step = step


class _Runs(Protocol):
    def run(self, values: Values, call: Call) -> Values: ...


class ValueProgram:
    """Steps after decoding, compiled. Immutable; used by every worker at once."""

    def __init__(
        self,
        steps: Sequence[Step],
        before: Sequence[Step] = (),
        path: str = "",
        stretches: Mapping[int, PixelStretch] | None = None,
    ) -> None:
        """Take value steps, and branches of them.

        Args:
            steps: What is run.
            before: The steps in front of them, for those count in the names by which steps draw.
            path: Of the branch that they are in.
            stretches: What runs steps on pixels among them, by the place of the first one that it runs.
        """
        names = draw_names([*before, *steps], path)[len(before) :]
        self._runs = list(_compiled(steps, names, stretches or {}))

    def run(
        self, values: Values, keys: NDArray[np.uint64] | None, watch: Watch, scratch: Scratch | None = None
    ) -> Values:
        """Return what the steps make of the values, none of which is missing.

        Args:
            values: Array (n, …) or list of n.
            keys: uint64 (n,) where a step draws: the samples' keys.
            watch: Is told of functions that run.
            scratch: This thread's own, for steps on pixels.

        Raises:
            StepFailureError: A value can't be decoded, doesn't fit, or its function failed.
        """
        for step, text, id in self._runs:
            drawn = None if keys is None or id is None else step_keys(keys, id)
            try:
                values = step.run(values, Call(text, drawn, keys, watch, scratch))
            except ValueFaultError as error:
                raise StepFailureError(error.index, error.step or text, str(error)) from error.__cause__
        return values


class _Ways:
    """A branch: each sample runs the steps of the way that it draws."""

    def __init__(self, branch: Branch, name: str) -> None:
        self._limits = np.array(branch.limits_of_ways)
        ways = enumerate(branch.ways)
        self._ways = [ValueProgram(steps, path=f"{name}/{branch.path(way)}") for way, steps in ways]

    def run(self, values: Values, call: Call) -> Values:
        """Run each way on its samples."""
        if call.keys is None or call.samples is None:
            raise ValueError(f"{call.text} draws, and there are no keys")
        # The first way whose limit is above the draw; none: the value stays.
        picked = np.searchsorted(self._limits, first_draws(call.keys), side="right")
        out: list[Any] = list(values)
        # Objects stay a list, though they may be arrays: only what was one array is one again.
        of_arrays = isinstance(values, np.ndarray) or not (picked >= len(self._ways)).any()
        for number, way in enumerate(self._ways):
            places = np.flatnonzero(picked == number)
            if not len(places):
                continue
            of_way = values[places] if isinstance(values, np.ndarray) else [values[i] for i in places]
            try:
                made = way.run(of_way, call.samples[places], _WatchedPlaces(call.watch, places), call.scratch)
            except StepFailureError as error:
                index = int(places[error.index])
                raise StepFailureError(index, error.step, str(error)) from error.__cause__
            of_arrays = of_arrays and isinstance(made, np.ndarray)
            for place, value in zip(places.tolist(), made, strict=True):
                out[place] = value
        return joined(out) if of_arrays else out


class _WatchedPlaces:
    """Tells a part's watch of samples that a way knows by other numbers."""

    def __init__(self, watch: Watch, places: NDArray[np.intp]) -> None:
        self._watch = watch
        self._places = places

    def begin(self, index: int, step: str, timeout: float | None) -> None:
        self._watch.begin(int(self._places[index]), step, timeout)

    def end(self) -> None:
        self._watch.end()


def _compiled(
    steps: Sequence[Step], names: Sequence[str], stretches: Mapping[int, PixelStretch]
) -> Iterator[tuple[_Runs, str, int | None]]:
    end = 0  # of the latest stretch
    for place, (step, name) in enumerate(zip(steps, names, strict=True)):
        id = step_id(name) if step.draws else None
        if place in stretches:
            end = place + len(stretches[place].steps)
            yield stretches[place], step.text(), None
        elif place < end:
            continue
        elif isinstance(step, Branch):
            yield _Ways(step, name), step.text(), id
        elif isinstance(step, ValueStep):
            yield step, step.text(), id
        else:
            raise TypeError(f"{step.text()} runs on pixels alone")
