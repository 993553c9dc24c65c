"""Which tokens each step takes: arithmetic over phases and epochs, with no state but a place.

A place is an epoch, a position in it (units consumed: tokens, or rows of packed documents) and a step. A step takes
the next rows * seq_len units, whatever phase they belong to, so a change of batch size or sequence length repeats and
loses nothing. No step crosses the end of an epoch: what is left there is padded or dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from toolkit.errors import UsageError

__all__ = ["Phase", "Place", "Schedule", "Step"]


@dataclass(frozen=True, slots=True)
class Phase:
    """Steps of one form. `steps` is None for as long as there is data; `rows` are those of all ranks together."""

    steps: int | None
    rows: int
    seq_len: int


class Place(NamedTuple):
    """Where a stream stands: before step number `step`, `position` units into `epoch`."""

    step: int = 0
    epoch: int = 0
    position: int = 0


class Step(NamedTuple):
    """One step: where it begins, its units (fewer than rows * seq_len only when padded), and its form."""

    place: Place
    units: int
    phase: Phase


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps over epochs of `units` units.

    Attributes:
        units: Units of an epoch.
        phases: In order; only the last may have no number of steps.
        pad: What is left at the end of an epoch fills a step that is padded; else it is dropped.
        unit_tokens: Tokens of a unit: 1, or seq_len when units are rows.
    """

    units: int
    phases: Sequence[Phase]
    pad: bool
    unit_tokens: int = 1

    def width(self, phase: Phase) -> int:
        """Return the units of a whole step."""
        return phase.rows * phase.seq_len // self.unit_tokens

    def steps_per_epoch(self, phase: Phase) -> int:
        """Return the steps of a whole epoch of that form."""
        return self._steps(self.units, phase)

    def advance(self, place: Place, steps: int) -> Place:
        """Return the place `steps` steps on; phases count from step 0. Raises UsageError behind the last phase."""
        while steps:
            phase, left = self._phase(place.step)
            if phase is None:
                raise UsageError(f"step {place.step + steps} lies behind the last phase, which ends at {place.step}")
            taken = steps if left is None else min(steps, left)
            place = self._within(place, taken, phase)
            steps -= taken
        return place

    def remaining(self, place: Place, epochs: int) -> int:
        """Return how many steps there are from `place` to the end of epoch number epochs - 1, or of the last phase."""
        total = 0
        while True:
            phase, left = self._phase(place.step)
            if phase is None or place.epoch >= epochs:
                return total
            possible = self._steps(self.units - place.position, phase)
            possible += (epochs - 1 - place.epoch) * self.steps_per_epoch(phase)
            if left is None or possible < left:
                return total + possible
            total += left
            place = self._within(place, left, phase)

    def steps(self, place: Place, count: int) -> Iterator[Step]:
        """Yield `count` steps from `place` on."""
        epoch, position = place.epoch, place.position
        number, last = place.step, place.step + count
        while number < last:
            phase, left = self._phase(number)
            if phase is None:
                raise UsageError(f"step {number} lies behind the last phase")
            width = self.width(phase)
            stop = last if left is None else min(last, number + left)
            while number < stop:
                units = self.units - position
                if units >= width:
                    units = width
                elif not self._steps(units, phase):
                    epoch, position = epoch + 1, 0
                    units = min(width, self.units)
                yield Step(Place(number, epoch, position), units, phase)
                position += units
                number += 1

    def _phase(self, step: int) -> tuple[Phase | None, int | None]:
        """Return the phase that `step` belongs to, and how many of its steps are left from there."""
        for phase in self.phases:
            if phase.steps is None:
                return phase, None
            if step < phase.steps:
                return phase, phase.steps - step
            step -= phase.steps
        return None, 0

    def _steps(self, units: int, phase: Phase) -> int:
        whole, rest = divmod(units, self.width(phase))
        return whole + (1 if rest and self.pad else 0)

    def _within(self, place: Place, steps: int, phase: Phase) -> Place:
        """Return the place `steps` steps on, all of one phase."""
        width = self.width(phase)
        here = self._steps(self.units - place.position, phase)
        if steps <= here:
            position = min(self.units, place.position + steps * width)
            return Place(place.step + steps, place.epoch, position)
        each = self.steps_per_epoch(phase)
        epochs, rest = divmod(steps - here - 1, each)
        position = min(self.units, (rest + 1) * width)
        return Place(place.step + steps, place.epoch + 1 + epochs, position)
