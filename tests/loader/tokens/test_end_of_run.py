"""Streams and mixes whose whole run is bounded end once, and their states hold what they say."""

from __future__ import annotations

import json
import warnings
from itertools import islice
from typing import Any

import numpy as np
import pytest
from token_oracle import Packed

import toolkit
from toolkit.errors import UsageError
from toolkit.loader.order.course import EndedRunWarning
from toolkit.loader.tokens.steps import StepStream

MADE = {
    "windows": {"seq_len": 700, "shuffle": "block", "seed": 5},
    "rows": {"seq_len": 700, "shuffle": "block", "pack": "best"},
    "dropped": {"seq_len": 700, "remainder": "drop"},
}


def made(packed: Packed, kind: str, world: int, state: str | None = None, **options: Any) -> list[StepStream]:
    """A stream for each rank."""
    ds = packed.open()
    streams: list[StepStream] = []
    for rank in range(world):
        form: dict[str, Any] = {"batch_size": 48 // world, "rank": rank, "world_size": world, "threads": 0, **options}
        if kind == "mix":
            form = {"seq_len": 700, **form}
            streams.append(toolkit.mix_tokens({"a": ds, "b": ds}, {"a": 3, "b": 1}, **form))
        else:
            streams.append(ds.tokens(**MADE[kind], **form))
        if state is not None:
            streams[-1].load_state_dict(json.loads(state))
    return streams


def driven(stream: StepStream, count: int | None = None) -> list[np.ndarray[Any, Any]]:
    """The next `count` batches of the run, of what is left of it when left out."""
    out: list[np.ndarray[Any, Any]] = []
    while not stream.finished and len(out) != count:
        out += [batch["tokens"] for batch in islice(stream, None if count is None else count - len(out))]
    return out


def joined(ranks: list[list[np.ndarray[Any, Any]]]) -> list[bytes]:
    return [np.concatenate(rows).tobytes() for rows in zip(*ranks, strict=True)]


@pytest.mark.parametrize("kind", [*MADE, "mix"])
@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("bound", [{"until_epoch": 2}, {"steps": 4}, {"total_steps": 4}], ids=str)
def test_a_bounded_run_is_the_same_interrupted_at_any_step(
    packed: Packed, kind: str, world: int, bound: dict[str, Any]
) -> None:
    # Without a bound, and in one go; a mix deals the next epoch as the one before.
    endless = made(packed, kind, 1)[0]
    each = len(endless)
    until = bound.get("until_epoch")
    count = until * each if until else 4
    unbounded = [batch["tokens"].tobytes() for _ in range(5) for batch in endless][:count]
    whole = joined([driven(stream) for stream in made(packed, kind, world, **bound)])
    assert whole == unbounded
    for cut in range(count + 1):
        first = made(packed, kind, world, **bound)
        before = joined([driven(stream, cut) for stream in first]) if cut else []
        states = {json.dumps(stream.state_dict()) for stream in first}
        assert len(states) == 1
        second = made(packed, kind, world, states.pop(), **bound)
        assert [stream.finished for stream in second] == [cut == count] * world
        assert before + joined([driven(stream) for stream in second]) == whole
        for stream in second:
            assert (stream.finished, len(stream), list(stream)) == (True, 0, [])


def test_a_finished_stream_goes_on_under_a_farther_bound(packed: Packed) -> None:
    stream = made(packed, "windows", 1, until_epoch=1)[0]
    driven(stream)
    state = json.dumps(stream.state_dict())
    assert [len(made(packed, "windows", 1, state, until_epoch=until)[0]) for until in (1, 2)] == [0, 3]
    assert len(made(packed, "windows", 1, state, until_epoch=9, epochs=None)[0]) == 8 * 3
    late = made(packed, "windows", 1, start_step=4, total_steps=3)[0]
    assert len(driven(late)) == 3
    assert late.finished
    phases = packed.open().tokens(phases=[(2, 4, 64)])
    assert not phases.finished
    assert (len(list(phases)), phases.finished, list(phases)) == (2, True, [])


def test_a_run_that_had_ended_is_warned_of_once_unless_it_is_bounded(packed: Packed) -> None:
    for kind, options, says in (("windows", {"epochs": 2}, "epochs=2"), ("mix", {}, "every row once")):
        stream = made(packed, kind, 1, **options)[0]
        states = [stream.state_dict() for _ in stream]
        with pytest.warns(EndedRunWarning, match=f"{says} had ended") as said:
            made(packed, kind, 1, **options)[0].load_state_dict(states[-1])
        assert [one.filename for one in said if one.category is EndedRunWarning] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made(packed, kind, 1, **options)[0].load_state_dict(made(packed, kind, 1)[0].state_dict())
            for state in states[:-1]:
                made(packed, kind, 1, **options)[0].load_state_dict(state)
            for bound in ({"until_epoch": 9}, {"steps": 99}, {"total_steps": 99}):
                made(packed, kind, 1, **options, **bound)[0].load_state_dict(states[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = made(packed, "windows", 1)[0]
        driven(stream, 3)
        made(packed, "windows", 1)[0].load_state_dict(stream.state_dict())  # a loop over epochs


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"step": 3.7}, r"step must be a whole number from 0 to \d+, got 3\.7"),
        ({"position": "7"}, r"position must be a whole number from 0 to \d+, got '7'"),
        ({"position": -1}, r"position must be a whole number from 0 to \d+, got -1"),
        ({"epoch": True}, r"epoch must be a whole number from 0 to \d+, got True"),
        ({"epoch": 10**40}, r"epoch must be a whole number from 0 to \d+, got 1000"),
        ({"step": None}, r"step must be a whole number from 0 to \d+, got None"),
        ({"version": 1}, "version 1, this version of toolkit knows 2"),
        ({"more": 1}, "it has more, which no token stream's state has"),
        ({"seq_len": 700.0}, r"seq_len 700\.0"),
        ({"block_size": False}, "block_size False"),
    ],
)
def test_states_that_can_not_be_are_refused(packed: Packed, change: dict[str, Any], says: str) -> None:
    for kind in ("windows", "mix"):
        stream = made(packed, kind, 1)[0]
        state = stream.state_dict()
        if next(iter(change)) in state or "more" in change or "version" in change:
            with pytest.raises(UsageError, match=says):
                stream.load_state_dict({**state, **change})
        assert stream.state_dict() == state
    for nothing in (None, 7, {}, {"version": 2}):
        with pytest.raises(UsageError, match="token stream's state"):
            stream.load_state_dict(nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"steps": 3, "total_steps": 3}, "give one of them"),
        ({"until_epoch": 0}, "until_epoch must be an int of at least 1, got 0"),
        ({"steps": 0.5}, r"steps must be an int of at least 1, got 0\.5"),
    ],
)
def test_bounds_that_can_not_be(packed: Packed, options: dict[str, Any], says: str) -> None:
    for kind in ("windows", "mix"):
        with pytest.raises(UsageError, match=says):
            made(packed, kind, 1, **options)
