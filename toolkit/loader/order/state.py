"""Where a run is, as a small dict for JSON: the same on every rank, good for any number of ranks and batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import UsageError
from toolkit.escapes import short
from toolkit.loader.order.order import ORDER_VERSION

__all__ = [
    "MOST",
    "Cursor",
    "Run",
    "check_state",
    "checked_epoch",
    "differing_states",
    "dump_state",
    "load_state",
    "same_value",
    "whole_number",
]

_FORMAT = 2
MOST = (1 << 62) - 1  # an epoch, a step


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of the next sample.

    Attributes:
        first_epoch: Where the iter() that this belongs to began: it ends `epochs` later.
        epoch: The epoch of the next sample.
        position: Its position in the epoch's order, over all ranks.
        step: Batches that the run has delivered so far, on each rank, in all its epochs.
    """

    first_epoch: int
    epoch: int
    position: int
    step: int


@dataclass(frozen=True, slots=True)
class Run:
    """What makes a run what it is, and must be the same where its state is loaded.

    Attributes:
        pin: The pin of the dataset; of joined ones, a hash of their pins.
        view: Hash of the view.
        order: Name of the order.
        samples: Positions in an epoch.
        seed: Of the order.
        pipeline: Hash of what changes samples.
        global_batch_size, world_size: Samples of all ranks in a step, and how many ranks there are, where samples
            depend on what else is in their batch; None where they don't, and then a state doesn't hold them.
        mix: What decides how the sources of a mix are dealt, as JSON has it; None without one.
    """

    pin: str
    view: str
    order: str
    samples: int
    seed: int
    pipeline: str
    global_batch_size: int | None = None
    world_size: int | None = None
    mix: object = None

    def facts(self) -> dict[str, object]:
        """Return those that count."""
        return {name: value for name in _RUN if (value := getattr(self, name)) is not None}


_RUN = tuple(Run.__dataclass_fields__)
_OF_SOME = ("global_batch_size", "world_size", "mix")
_CURSOR = tuple(Cursor.__dataclass_fields__)


def dump_state(run: Run, cursor: Cursor) -> dict[str, Any]:
    """Return the state: about 500 bytes of JSON, whatever the position."""
    return {
        "format": _FORMAT,
        "order_version": ORDER_VERSION,
        **run.facts(),
        **{name: getattr(cursor, name) for name in _CURSOR},
    }


def load_state(state: Mapping[str, Any], run: Run) -> Cursor:
    """Return where a state says to go on.

    Raises:
        UsageError: It is no loader's state, or of another run; the message names everything that differs.
    """
    facts = run.facts()
    if isinstance(state, Mapping):  # what one has of these and the other hasn't differs
        of_state = [name for name in _OF_SOME if name in state]
        state = {**{name: None for name in _OF_SOME if name in facts}, **state}
        facts |= {name: None for name in of_state if name not in facts}
    check_state(state, "loader's", {"format": _FORMAT, "order_version": ORDER_VERSION}, facts, _CURSOR)
    cursor = Cursor(
        first_epoch=whole_number(state, "first_epoch"),
        epoch=whole_number(state, "epoch"),
        position=whole_number(state, "position", run.samples),
        step=whole_number(state, "step"),
    )
    if cursor.first_epoch > cursor.epoch:
        raise UsageError(
            f"the state points outside the run: it stands in epoch {cursor.epoch} and began at {cursor.first_epoch}"
        )
    return cursor


def check_state(
    state: object, whose: str, versions: Mapping[str, int], facts: Mapping[str, object], places: Sequence[str]
) -> None:
    """Raise UsageError unless a state is one, and of this run.

    Args:
        state: What should be a dict of exactly these versions, facts and places.
        whose: What it should be the state of, as in "loader's".
        versions: What this toolkit knows.
        facts: What the run is; the message names each that differs.
        places: Names of the other fields.
    """
    if not isinstance(state, Mapping):
        raise UsageError(f"a {whose} state is a dict, got {type(state).__name__}")
    for name, known in versions.items():
        if name in state and not same_value(state[name], known):
            raise UsageError(f"the state has {name} {short(state[name])}, this version of toolkit knows {known}")
    names = (*versions, *facts, *places)
    missing = [name for name in names if name not in state]
    if missing:
        raise UsageError(f"this is no {whose} state: it has no {', '.join(missing)}")
    unknown = [short(name) for name in state if name not in names]
    if unknown:  # it might change what comes next
        raise UsageError(f"this is no {whose} state: it has {', '.join(unknown)}, which no {whose} state has")
    differing = [name for name in facts if not same_value(state[name], facts[name])]
    if "pin" in differing and "view" in differing:
        differing.remove("view")  # follows from the pin
    if differing:
        said = "; ".join(f"{name} {_shown(state[name])} there, {_shown(facts[name])} here" for name in differing)
        raise UsageError(
            f"the state is of another run: {said}. Make it as it was, of the data opened by its pin, or begin "
            "without the state"
        )


def same_value(one: object, other: object) -> bool:
    """Whether two JSON values are the same: not as in Python, where 1 is True and 1.0."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same_value(one[name], other[name]) for name in one)
    return type(one) is type(other) and one == other


def checked_epoch(epoch: object) -> int:
    """Return an epoch. Raises UsageError: it is no int from 0 on, or too large."""
    if not isinstance(epoch, int) or isinstance(epoch, bool) or not 0 <= epoch <= MOST:
        raise UsageError(f"an epoch is a whole number from 0 to {MOST}, got {short(epoch, quoted=True)}")
    return int(epoch)


def whole_number(state: Mapping[str, Any], name: str, most: int = MOST) -> int:
    """Return a state's field. Raises UsageError: it is no int from 0 to `most`."""
    value = state[name]
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise UsageError(f"the state's {name} must be a whole number from 0 to {most}, got {short(value, quoted=True)}")
    return int(value)


def differing_states(states: Sequence[Mapping[str, Any]]) -> str | None:
    """Say how the states of the ranks, in their order, differ from rank 0's; None when all are equal."""
    for rank, state in enumerate(states):
        names = [name for name, value in states[0].items() if state.get(name) != value]
        if names:
            said = "; ".join(f"{name} {short(states[0][name])} and {short(state.get(name))}" for name in names)
            return (
                f"rank 0 and rank {rank} are not at the same place of the same run: {said}. Take the state at the same "
                "step on all ranks, of loaders made alike"
            )
    return None


def _shown(value: object) -> str:
    """Return a fact as text: hashes are long, and say as much in their first digits."""
    return short(value) if isinstance(value, str) else short(value, 240)
