"""The words that a column's way is written in: slot(...) and chain(). Data: printable, comparable, hashable."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from toolkit.errors import PipelineError
from toolkit.pipelines import families  # noqa: F401 - its steps are the words
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.step import Step, Steps, chain_text, literal
from toolkit.pipelines.words import Words

__all__ = ["Chain", "Fill", "Slot", "chain", "slot"]

Fill = bool | int | float | str | None


@dataclass(frozen=True, slots=True, repr=False)
class Chain(Words, Steps):
    """Steps that are bound to no column yet. Immutable; slots and other chains take them with .then(chain)."""

    steps: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        return chain_text(self.steps)

    @property
    def place(self) -> str:
        """Who is speaking, for messages."""
        return "chain"

    def with_step(self, step: Step) -> Self:
        """Return the chain with one more step; whether it fits is seen when a slot takes the chain."""
        return replace(self, steps=(*self.steps, step))

    def then(self, more: Chain) -> Self:
        """Return the chain with the steps of another behind its own."""
        return replace(self, steps=(*self.steps, *_chain(self.place, more).steps))


@dataclass(frozen=True, slots=True, repr=False)
class Slot(Words):
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
        longer.states(State(ValueKind.STORED))
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
            try:
                states.append(step.after(states[-1]))
            except MisfitError as error:
                raise PipelineError(f"{self.place}, step {place} {step.text()}: {error}") from None
        return states[1:]


def slot(
    column: str, *, name: str | None = None, optional: bool = False, fill: Fill = None, sync: str | None = None
) -> Slot:
    """Begin a slot that reads `column`; see Slot for the others. Raises PipelineError."""
    for option, value in (("column", column), ("name", name), ("sync", sync)):
        if not isinstance(value, str) and (option == "column" or value is not None):
            raise PipelineError(f"slot {column!r}: {option} must be a text, got {value!r}")
    if not isinstance(optional, bool):
        raise PipelineError(f"slot {column!r}: optional must be True or False, got {optional!r}")
    if fill is not None and not isinstance(fill, (bool, int, float, str)):
        raise PipelineError(f"slot {column!r}: fill must be a number or a text, got {fill!r}")
    if fill is not None and not optional:
        raise PipelineError(f"slot {column!r}: fill={fill!r} is only for optional=True")
    return Slot(column, column if name is None else name, optional, fill, sync)


def chain() -> Chain:
    """Begin a chain of steps for several slots: slot("image").then(chain)."""
    return Chain()


def _chain(place: str, value: object) -> Chain:
    if not isinstance(value, Chain):
        raise PipelineError(f"{place}: then() takes a chain, got {type(value).__name__}: begin with toolkit.chain()")
    return value
