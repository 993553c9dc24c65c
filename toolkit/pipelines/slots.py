"""The words a pipeline is written in: slot(...), chain() and pipeline(...). Data: printable, comparable, hashable."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

from toolkit.errors import PipelineError
from toolkit.pipelines.batch_maps import BatchMap, as_batch_map
from toolkit.pipelines.functions import function_identity
from toolkit.pipelines.image_words import ImageWords
from toolkit.pipelines.randomness import RANDOM_VERSION
from toolkit.pipelines.rules import after
from toolkit.pipelines.spec import Step, is_random, literal, step_text
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.value_steps import Python
from toolkit.pipelines.value_words import ValueWords

if TYPE_CHECKING:
    from toolkit.loader.dataset import Dataset
    from toolkit.loader.dry_run import DryRun

__all__ = ["Chain", "Fill", "Pipeline", "Slot", "chain", "pipeline", "slot"]

Fill = bool | int | float | str | None
# Fields of steps that refuse samples, or let them pass, and change none.
_LIMITS = frozenset({"max_pixels", "max_bytes", "truncated", "timeout"})


@dataclass(frozen=True, slots=True, repr=False)
class Chain(ImageWords, ValueWords):
    """Steps that are bound to no column yet. Immutable; slots and other chains take them with .then(chain)."""

    steps: tuple[Step, ...] = ()

    def __repr__(self) -> str:
        return "chain()" + "".join(f".{step_text(step)}" for step in self.steps)

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
class Slot(ImageWords, ValueWords):
    """What becomes of one column: immutable, every word returns a new slot.

    Attributes:
        column: The column it reads.
        name: What it is called in batches.
        optional: A missing value is no error: `fill` takes its place, and batch.present[name] says where.
        fill: The value there; None is zeros, in a list None.
        sync: The slot, or group of slots, that its random steps draw alike with; None: see pipeline().
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
        return f"slot({literal(self.column)}{named})" + "".join(f".{step_text(step)}" for step in self.steps)

    @property
    def place(self) -> str:
        """Who is speaking, for messages."""
        return f"slot {self.name!r}"

    @property
    def is_random(self) -> bool:
        """Whether any step draws."""
        return any(is_random(step) for step in self.steps)

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
                states.append(after(step, states[-1]))
            except MisfitError as error:
                raise PipelineError(f"{self.place}, step {place} {step_text(step)}: {error}") from None
        return states[1:]


@dataclass(frozen=True, slots=True, repr=False)
class Pipeline:
    """Slots, and functions that run on whole batches. Columns that no slot reads pass through as they are stored."""

    slots: tuple[Slot, ...]
    batch_maps: tuple[BatchMap, ...] = ()

    def __repr__(self) -> str:
        lines = [f"    {item!r},\n" for item in self.slots]
        if self.batch_maps:
            lines.append(f"    batch_maps=[{', '.join(map(repr, self.batch_maps))}],\n")
        return f"pipeline(\n{''.join(lines)})"

    @property
    def required_columns(self) -> tuple[str, ...]:
        """The columns that the slots read, each once."""
        return tuple(dict.fromkeys(item.column for item in self.slots))

    @property
    def sync_groups(self) -> Mapping[str, str]:
        """The sync group of each slot, by its name; see pipeline()."""
        by_name = {item.name: item for item in self.slots}
        seen: Counter[str] = Counter()
        groups = {}
        for item in self.slots:
            if item.sync is None:
                number = seen[item.column]
                seen[item.column] += 1
                groups[item.name] = f"#{number}" if number else ""
        return {name: _group(item, by_name, groups) for name, item in by_name.items()}

    def describe(self) -> str:
        """Return a hash of what changes samples, and of nothing else.

        Limits don't count (max_pixels, max_bytes, truncated, timeout), nor does a function's code: its module, name and
        `version` do. So does the version of the random generator, where a step draws.
        """
        groups = self.sync_groups
        said: dict[str, object] = {
            "slots": sorted(
                [item.name, item.column, item.fill, groups[item.name] if item.is_random else None, _shaping(item.steps)]
                for item in self.slots
            ),
            "batch_maps": [
                [function_identity(each.fn), each.version, each.adds, each.drops] for each in self.batch_maps
            ],
        }
        if self.batch_maps or any(item.is_random for item in self.slots):
            said["random_version"] = RANDOM_VERSION
        return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()

    def explain(self, dataset: Dataset | None = None) -> str:
        """Return a tree of slots and steps: dtype, shape, layout, and what runs each step.

        Args:
            dataset: What the columns are taken from; without one, nothing is known of them.

        Raises:
            PipelineError: A slot doesn't fit the dataset.
        """
        from toolkit.pipelines.explain import explain

        return explain(self, dataset)

    def dry_run(self, dataset: Dataset, samples: int = 8) -> DryRun:
        """Run the first samples of a dataset, one by one: what the slots give, and errors by key."""
        return dataset.dry_run(self, samples)


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


def pipeline(*slots: Slot, batch_maps: Sequence[BatchMap | Callable[..., Any]] = ()) -> Pipeline:
    """Put slots together.

    Random steps of the same class draw alike in slots that read different columns, so that an image and its mask are
    cut and flipped alike. A second slot of the same column draws on its own, as a second view should. `sync=` on a slot
    overrules both: the name of a slot that it agrees with, or any name that several slots share.

    Args:
        slots: What becomes of columns.
        batch_maps: fn(columns, rng) -> columns, run in order on each batch; see toolkit.pipelines.batch_maps.

    Raises:
        PipelineError: Two slots have the same name, or something is no slot.
    """
    seen: set[str] = set()
    for item in slots:
        if not isinstance(item, Slot):
            raise PipelineError(f"pipeline() takes slots, got {type(item).__name__}: begin with slot('column')")
        if item.name in seen:
            raise PipelineError(
                f"two slots are called {item.name!r}: join their steps in one, or name one: "
                f"slot({item.column!r}, name={item.name + '2'!r})"
            )
        seen.add(item.name)
    made = Pipeline(tuple(slots), tuple(as_batch_map(each) for each in batch_maps))
    _ = made.sync_groups  # a circle is found here
    return made


def _group(item: Slot, by_name: Mapping[str, Slot], usual: Mapping[str, str]) -> str:
    """Follow `sync` from slot to slot, to a name that is no other slot's or to a slot without one."""
    visited: list[str] = []
    while item.sync is not None:
        if item.sync == item.name or item.sync not in by_name:
            return item.sync
        if item.name in visited:
            raise PipelineError(f"the slots {', '.join(visited)} sync with each other in a circle: give them one name")
        visited.append(item.name)
        item = by_name[item.sync]
    return usual[item.name]


def _chain(place: str, value: object) -> Chain:
    if not isinstance(value, Chain):
        raise PipelineError(f"{place}: then() takes a chain, got {type(value).__name__}: begin with toolkit.chain()")
    return value


def _shaping(steps: tuple[Step, ...]) -> list[object]:
    return [[type(step).__name__, {name: _plain(value) for name, value in _fields(step)}] for step in steps]


def _fields(step: Step) -> list[tuple[str, object]]:
    if isinstance(step, Python):
        return [
            ("fn", function_identity(step.fn)),
            *((n, getattr(step, n)) for n in ("dtype", "shape", "random", "version")),
        ]
    return [(field.name, getattr(step, field.name)) for field in fields(step) if field.name not in _LIMITS]


def _plain(value: object) -> object:
    return getattr(value, "value", value)
