"""The words that a column's way is written in: slot(...) and chain(). Data: printable, comparable, hashable."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from toolkit.errors import PipelineError
from toolkit.escapes import short
from toolkit.pipelines import families  # noqa: F401 - its steps are the words
from toolkit.pipelines.check import BadArgumentError, a_flag, a_text
from toolkit.pipelines.image.limits import check_limits, check_order, check_size
from toolkit.pipelines.plugin_words import PluginWords
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.step import Step, Steps, chain_text, literal

__all__ = ["Chain", "Fill", "Slot", "chain", "slot"]

Fill = bool | int | float | str | None


@dataclass(frozen=True, slots=True, repr=False)
class Chain(PluginWords, Steps):
    """Steps that are bound to no column yet. Immutable; slots and other chains take them with .then(chain)."""

    steps: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        return chain_text(self.steps)

    @property
    def place(self) -> str:
        """Who is speaking, for messages."""
        return "chain"

    def with_step(self, step: Step) -> Self:
        """Return the chain with one more step; whether it fits is seen when a slot takes the chain.

        Raises:
            PipelineError: There are more steps on pixels than a picture may pass through.
        """
        steps = (*self.steps, step)
        with _placed(self.place, steps):
            check_limits(steps)
        return replace(self, steps=steps)

    def then(self, more: Chain) -> Self:
        """Return the chain with the steps of another behind its own. Raises PipelineError as with_step does."""
        longer = self
        for step in _chain(self.place, more).steps:
            longer = longer.with_step(step)
        return longer


@dataclass(frozen=True, slots=True, repr=False)
class Slot(PluginWords):
    """What becomes of one column: immutable, every word returns a new slot.

    Attributes:
        column: The column it reads.
        name: What it is called in batches.
        optional: A missing value is no error: `fill` takes its place, and batch.present[name] says where.
        fill: The value there; None is zeros, in a list None.
        sync: The slot, or group of slots, that its random steps draw alike with; None: see toolkit.pipeline().
        steps: The steps, in order.
    """

    column: str
    name: str
    optional: bool = False
    fill: Fill = None
    sync: str | None = None
    steps: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        given = {"name": (self.name, self.column), "optional": (self.optional, False)}
        given |= {"fill": (self.fill, None), "sync": (self.sync, None)}
        named = "".join(f", {name}={literal(value)}" for name, (value, usual) in given.items() if value != usual)
        return f"slot({literal(self.column)}{named})" + "".join(f".{step.text()}" for step in self.steps)

    @property
    def place(self) -> str:
        """Who is speaking, for messages."""
        return f"slot {self.name!r}"

    @property
    def is_random(self) -> bool:
        """Whether any step draws."""
        return any(step.draws for step in self.steps)

    def with_step(self, step: Step) -> Self:
        """Return the slot with one more step. Raises PipelineError when it doesn't fit what comes before it."""
        longer = replace(self, steps=(*self.steps, step))
        states = longer.states(State(ValueKind.STORED))
        with _placed(self.place, longer.steps):
            check_limits(longer.steps)
            check_order(longer.steps)
            check_size(longer.steps, states)
        return longer

    def then(self, more: Chain) -> Self:
        """Return the slot with the steps of a chain behind its own. Raises PipelineError when one doesn't fit."""
        longer = self
        for step in _chain(self.place, more).steps:
            longer = longer.with_step(step)
        return longer

    def states(self, stored: State) -> list[State]:
        """Return what the value is after each step, of a column whose values are `stored`. Raises PipelineError."""
        states = [stored]
        for place, step in enumerate(self.steps, start=1):
            with _placed(self.place, self.steps[:place]):
                states.append(step.after(states[-1]))
        return states[1:]


def slot(
    column: str, *, name: str | None = None, optional: bool = False, fill: Fill = None, sync: str | None = None
) -> Slot:
    """Begin a slot that reads `column`; see Slot for the others. Raises PipelineError."""
    place = f"slot {short(column, 80, quoted=True)}"
    try:
        a_text("column", column)
        for option, value in (("name", name), ("sync", sync)):
            if value is not None:
                a_text(option, value)
        a_flag("optional", optional)
        fill = _fill(fill)
    except BadArgumentError as error:
        raise PipelineError(f"{place}: {error}") from None
    if sync is not None and (not sync or sync.startswith("#")):
        raise PipelineError(
            f"{place}: sync={short(sync, 80, quoted=True)} is how toolkit calls groups of its own: give another text"
        )
    if fill is not None and not optional:
        raise PipelineError(f"{place}: fill={short(fill, 80, quoted=True)} is only for optional=True")
    return Slot(column, column if name is None else name, optional, fill, sync)


def chain() -> Chain:
    """Begin a chain of steps for several slots: slot("image").then(chain)."""
    return Chain()


def _fill(value: object) -> Fill:
    if isinstance(value, str):
        return a_text("fill", value)
    if value is not None and not isinstance(value, (bool, int, float)):
        raise BadArgumentError(f"fill must be a number or a text, got {short(value, 80, quoted=True)}")
    return float(value) if isinstance(value, float) else value  # numpy's float64 is a float, and reads otherwise


@contextlib.contextmanager
def _placed(place: str, steps: Sequence[Step]) -> Iterator[None]:
    """Say of a misfit where it is: at the last of the steps."""
    try:
        yield
    except MisfitError as error:
        raise PipelineError(f"{place}, step {len(steps)} {steps[-1].text()}: {error}") from None


def _chain(place: str, value: object) -> Chain:
    if not isinstance(value, Chain):
        raise PipelineError(f"{place}: then() takes a chain, got {type(value).__name__}: begin with toolkit.chain()")
    return value
