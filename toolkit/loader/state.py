"""Where a run is, as a small dict for JSON: the same on every rank, good for any number of ranks and batch size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolkit.errors import UsageError
from toolkit.loader.order import ORDER_VERSION

__all__ = ["Cursor", "Run", "differing_states", "dump_state", "load_state"]

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Cursor:
    """The place of the next sample.

    Attributes:
        first_epoch: Where the iter() that this belongs to began: it ends `epochs` later.
        epoch: The epoch of the next sample.
        position: Its position in the epoch's order, over all ranks.
    """

    first_epoch: int
    epoch: int
    position: int


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
    """

    pin: str
    view: str
    order: str
    samples: int
    seed: int
    pipeline: str


_RUN = tuple(Run.__dataclass_fields__)
_CURSOR = tuple(Cursor.__dataclass_fields__)


def dump_state(run: Run, cursor: Cursor) -> dict[str, Any]:
    """Return the state: about 500 bytes of JSON, whatever the position."""
    return {
        "format": _FORMAT,
        "order_version": ORDER_VERSION,
        **{name: getattr(run, name) for name in _RUN},
        **{name: getattr(cursor, name) for name in _CURSOR},
    }


def load_state(state: Mapping[str, Any], run: Run) -> Cursor:
    """Return where a state says to go on.

    Raises:
        UsageError: It is no loader's state, or of another run; the message names everything that differs.
    """
    if not isinstance(state, Mapping):
        raise UsageError(f"a loader's state is a dict, got {type(state).__name__}")
    missing = [name for name in ("format", "order_version", *_RUN, *_CURSOR) if name not in state]
    if missing:
        raise UsageError(f"this is no loader's state: it has no {', '.join(missing)}")
    for name, known in (("format", _FORMAT), ("order_version", ORDER_VERSION)):
        if state[name] != known:
            raise UsageError(f"the state has {name} {state[name]!r}, this version of toolkit knows {known}")
    differing = [name for name in _RUN if state[name] != getattr(run, name)]
    if "pin" in differing and "view" in differing:
        differing.remove("view")  # follows from the pin
    if differing:
        said = "; ".join(f"{name} {_short(state[name])} there, {_short(getattr(run, name))} here" for name in differing)
        raise UsageError(f"the state is of another run: {said}. Make the loader as it was, or begin without the state")
    numbers = [state[name] for name in _CURSOR]
    if not all(isinstance(number, int) and not isinstance(number, bool) and number >= 0 for number in numbers):
        raise UsageError(f"the state's {', '.join(_CURSOR)} must be whole numbers from 0 on, got {numbers}")
    cursor = Cursor(*numbers)
    if cursor.position > run.samples or cursor.first_epoch > cursor.epoch:
        raise UsageError(f"the state points outside the run: {cursor}, an epoch has {run.samples} samples")
    return cursor


def differing_states(states: Sequence[Mapping[str, Any]]) -> str | None:
    """Say how the states of the ranks, in their order, differ from rank 0's; None when all are equal."""
    for rank, state in enumerate(states):
        names = [name for name, value in states[0].items() if state.get(name) != value]
        if names:
            said = "; ".join(f"{name} {_short(states[0][name])} and {_short(state.get(name))}" for name in names)
            return (
                f"rank 0 and rank {rank} are not at the same place of the same run: {said}. Take the state at the same "
                "step on all ranks, of loaders made alike"
            )
    return None


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 24 else f"{text[:20]}…"
