"""What one iter() delivers: up to the end of its epochs, or of a whole run that is bounded over all restarts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from toolkit.loader.order.cut import Cut
from toolkit.loader.order.state import Cursor

__all__ = ["Bound", "Course", "EndedRunWarning", "Stretch", "ended_text"]

_ENDLESS = 1 << 62  # epochs


class EndedRunWarning(UserWarning):
    """A state was loaded in which a run had ended, and nothing says that the job is over: it is trained again."""


@dataclass(frozen=True, slots=True)
class Bound:
    """Where a run ends, however often it is interrupted.

    Attributes:
        epochs: Epochs of an iter(); None is without end.
        until_epoch: The epoch before which the run ends; None: no epoch ends it.
        steps: Batches of the run, on each rank; None: no number ends it.
    """

    epochs: int | None
    until_epoch: int | None
    steps: int | None

    @property
    def is_whole(self) -> bool:
        """Whether it bounds the whole run, and not each iter() alone."""
        return self.until_epoch is not None or self.steps is not None

    def is_reached(self, cut: Cut, cursor: Cursor) -> bool:
        """Whether the whole run is bounded and nothing is left of it."""
        return self.is_whole and self._course(cut, cursor, self._until(_ENDLESS)).steps == 0

    def course(self, cut: Cut, start: Cursor) -> Course:
        """Return what an iter() delivers from `start` on."""
        if self.epochs is None:
            return self._course(cut, replace(start, first_epoch=start.epoch), self._until(_ENDLESS))
        return self._course(cut, start, self._until(start.first_epoch + self.epochs))

    def after_epoch(self, cursor: Cursor) -> Cursor:
        """Return where `cursor` is at the end of its epoch: at the beginning of the next, maybe of another iter()."""
        following = cursor.epoch + 1
        same = self.epochs is not None and following < cursor.first_epoch + self.epochs
        return Cursor(cursor.first_epoch if same else following, following, 0, cursor.step)

    def _until(self, end: int) -> int:
        return end if self.until_epoch is None else min(end, self.until_epoch)

    def _course(self, cut: Cut, start: Cursor, end: int) -> Course:
        each, here = cut.steps(), cut.steps(start.position)
        end = max(end, start.epoch)
        count = here + (end - start.epoch - 1) * each if end > start.epoch else 0
        if self.steps is not None and self.steps - start.step < count:
            count = max(0, self.steps - start.step)
            behind = -(-(count - here) // each) if count > here else 0
            end = start.epoch + behind + (1 if count else 0)
        if not count and end == _ENDLESS:
            end = start.epoch  # no epoch has a batch
        return Course(self, cut, start, end, count)


@dataclass(frozen=True, slots=True)
class Stretch:
    """What an iter() delivers of one epoch.

    Attributes:
        start: Where it begins.
        steps: Batches from there on, on each rank; of DataLoader's workers, of all of them together.
        is_whole: Whether the epoch ends with it.
    """

    start: Cursor
    steps: int
    is_whole: bool


@dataclass(frozen=True, slots=True)
class Course:
    """The stretches of an iter().

    Attributes:
        bound: Where it ends, and the run.
        cut: This rank's share of every epoch.
        start: Where it begins.
        end: The epoch that the next iter() begins at.
        steps: Batches, on each rank.
    """

    bound: Bound
    cut: Cut
    start: Cursor
    end: int
    steps: int

    def stretches(self) -> Iterator[Stretch]:
        """Yield its part of each epoch."""
        left, at = self.steps, self.start
        while at.epoch < self.end:
            there = self.cut.steps(at.position)
            steps = min(left, there)
            yield Stretch(at, steps, steps == there)
            left -= steps
            at = self.bound.after_epoch(replace(at, step=at.step + steps))


def ended_text(epochs: str, following: int, until: int) -> str:
    """Say that a state's run of `epochs` had ended, and that epoch `following` comes next; `until` ends it for good."""
    return (
        f"in this state a run of {epochs} had ended: the next iter() goes on with epoch {following}, as another run. "
        f"Where a job that is over may be started again, bound all of it with until_epoch={until} or steps=; then "
        "nothing is delivered, and `finished` is True"
    )
