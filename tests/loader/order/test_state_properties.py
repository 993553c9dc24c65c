"""Any run, cut anywhere and resumed on other ranks, is a list of epochs in order; no other state passes for one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolkit
from toolkit.errors import UsageError

QUICK = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
JUNK = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.integers(), max_size=2),
    st.sampled_from([2**62, 2**63, -(2**70), 10**400, 1e308, 3.7, b"7", {}, {"epoch": 1}]),
)  # fmt: skip


@pytest.fixture(scope="module")
def small(packed: Path) -> toolkit.Dataset:
    return toolkit.open(packed, split="train", columns=["label"])[:31]


def order(samples: toolkit.Dataset, epochs: int, **options: Any) -> list[tuple[int, int, int]]:
    """(epoch, position, row) of all epochs: one sample at a time, each epoch by a loader of its own."""
    out = []
    for epoch in range(epochs):
        one = samples.loader(batch_size=1, threads=1, **options)
        one.set_epoch(epoch)
        out += [(epoch, int(batch.positions[0]), int(batch.rows[0])) for batch in one]
    return out


@QUICK
@given(data=st.data())
def test_runs_cut_anywhere_are_what_the_oracle_says(small: toolkit.Dataset, data: st.DataObject) -> None:
    options = {"shuffle": data.draw(st.sampled_from(["full", "block", "none"])), "seed": data.draw(st.integers(0, 3))}
    until = data.draw(st.integers(1, 3))
    bounded = data.draw(st.booleans())
    bound: dict[str, Any] = {"until_epoch": until} if bounded else {}
    expected = order(small, until, **options)
    seen: list[tuple[int, int, int]] = []
    state: str | None = None
    place = (0, 0)
    while place[0] < until:
        world = data.draw(st.sampled_from([1, 3]))
        batch = data.draw(st.integers(1, 12))
        epochs = data.draw(st.sampled_from([1, 2, None])) if bounded else until
        stop = data.draw(st.integers(1, 8))
        ranks = [
            small.loader(batch_size=batch, rank=rank, world_size=world, remainder="pad", threads=1, prefetch=1,
                         epochs=epochs if epochs is None else max(epochs, until), **options, **bound)
            for rank in range(world)
        ]  # fmt: skip
        if state is not None:
            for loader in ranks:
                loader.load_state_dict(json.loads(state))
        for number, batches in enumerate(zip(*ranks, strict=True), start=1):
            found = [
                (each.epoch, int(position), int(row))
                for each in batches
                for position, row, there in zip(each.positions, each.rows, each.mask, strict=True)
                if there
            ]
            # The oracle: the next world * batch samples of this epoch.
            left = [one for one in expected if one[0] == place[0] and one[1] >= place[1]][: world * batch]
            assert found == left
            seen += found
            place = (place[0], left[-1][1] + 1) if left[-1][1] + 1 < len(small) else (place[0] + 1, 0)
            states = {json.dumps(loader.state_dict()) for loader in ranks}
            assert len(states) == 1
            assert (json.loads(min(states))["epoch"], json.loads(min(states))["position"]) == place
            if number == stop or place[0] == until:
                break
        state = states.pop()
        for loader in ranks:
            assert loader.finished == (bounded and place[0] == until)
            loader.close()
    assert seen == expected


@QUICK
@given(data=st.data())
def test_no_changed_state_is_taken_for_one(small: toolkit.Dataset, data: st.DataObject) -> None:
    loader = small.loader(batch_size=4, shuffle="full", until_epoch=5)
    state = {**loader.state_dict(), "epoch": 2, "first_epoch": 2, "position": 8, "step": 18}
    loader.load_state_dict(state)
    name = data.draw(st.sampled_from([*state, "more", ""]))
    change = data.draw(st.one_of(st.just("drop"), JUNK))
    changed = (
        {key: value for key, value in state.items() if key != name} if change == "drop" else state | {name: change}
    )
    places = {"position": (0, 31), "step": (0, 2**62 - 1), "epoch": (2, 2**62 - 1), "first_epoch": (0, 2)}
    least, most = places.get(name, (1, 0))
    fits = type(change) is int and least <= change <= most
    same = name in state and type(change) is type(state[name]) and change == state[name]
    if fits or same or (change == "drop" and name not in state):
        if name not in ("epoch", "first_epoch"):  # those may leave an iter() of one epoch nothing: that is refused too
            loader.load_state_dict(changed)
        return
    with pytest.raises(UsageError) as said:
        loader.load_state_dict(changed)
    assert len(str(said.value)) < 600
    assert loader.state_dict() == state  # what stood before still stands
