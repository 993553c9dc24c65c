"""A run that is bounded ends once, however often it is interrupted; one that isn't says so when it begins anew."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import warnings
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE

import toolkit
from toolkit.errors import UsageError
from toolkit.loader.order.course import EndedRunWarning

Places = list[tuple[int, list[int]]]


@pytest.fixture(scope="module")
def train(packed: Path) -> toolkit.Dataset:
    return toolkit.open(packed, split="train", columns=["label"])


def planned(samples: int, batch: int, until: int | None, steps: int | None, *, drop: bool) -> Places:
    """(epoch, positions) of each global batch of a bounded run, counted one by one."""
    out: Places = []
    epoch = 0
    while until is None or epoch < until:
        for first in range(0, samples, batch):
            positions = list(range(first, min(first + batch, samples)))
            if drop and len(positions) < batch:
                continue
            if steps is not None and len(out) == steps:
                return out
            out.append((epoch, positions))
        epoch += 1
    return out


def driven(loader: toolkit.Loader, count: int | None = None) -> Places:
    """The next `count` batches of the run, of what is left of it when left out: the loop that a training job is."""
    out: Places = []
    while not loader.finished and len(out) != count:
        for batch in islice(loader, None if count is None else count - len(out)):
            out.append((batch.epoch, batch.positions[batch.mask].tolist()))
    return out


def joined(ranks: list[Places]) -> Places:
    """The global batches of the ranks' slices."""
    assert len({len(rank) for rank in ranks}) == 1
    out: Places = []
    for slices in zip(*ranks, strict=True):
        assert len({epoch for epoch, _ in slices}) == 1
        out.append((slices[0][0], [place for _, places in slices for place in places]))
    return out


BOUNDS = [
    {"until_epoch": 3},
    {"steps": 7},
    {"steps": 6},  # the end of an epoch
    {"until_epoch": 2, "steps": 100},
    {"until_epoch": 9, "steps": 5},
    {"until_epoch": 3, "epochs": 2},
    {"until_epoch": 3, "epochs": None},
    {"steps": 8, "epochs": None},
    {"steps": 1, "epochs": 4},
]


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
@pytest.mark.parametrize(("world", "remainder"), [(1, "keep"), (1, "drop"), (3, "pad"), (3, "drop")])
def test_a_bounded_run_is_the_same_interrupted_at_any_batch(
    train: toolkit.Dataset, bound: dict[str, Any], world: int, remainder: str
) -> None:
    def ranks(state: str | None = None) -> list[toolkit.Loader]:
        made = [
            train.loader(
                batch_size=60 // world, shuffle="full", rank=rank, world_size=world, remainder=remainder, threads=1,
                **bound,
            )
            for rank in range(world)
        ]  # fmt: skip
        for loader in made if state else ():
            loader.load_state_dict(json.loads(state or ""))
        return made

    whole = planned(150, 60, bound.get("until_epoch"), bound.get("steps"), drop=remainder == "drop")
    assert joined([driven(loader) for loader in ranks()]) == whole
    for cut in range(len(whole) + 1):
        first = ranks()
        before = joined([driven(loader, cut) for loader in first]) if cut else []
        states = {json.dumps(loader.state_dict()) for loader in first}
        assert len(states) == 1
        state = states.pop()
        assert json.loads(state)["step"] == cut
        second = ranks(state)
        assert [loader.finished for loader in second] == [cut == len(whole)] * world
        after = joined([driven(loader) for loader in second])
        assert before + after == whole
        for loader in second:
            assert loader.finished
            assert list(loader) == []
            assert loader.state_dict()["step"] == len(whole)


@pytest.mark.parametrize("bound", [{"until_epoch": 2}, {"steps": 6}], ids=str)
def test_a_finished_state_delivers_nothing_until_the_bound_is_farther(
    train: toolkit.Dataset, bound: dict[str, Any]
) -> None:
    loader = train.loader(batch_size=50, epochs=2, **bound)
    assert not loader.finished
    for number, _ in enumerate(loader, start=1):
        assert loader.finished == (number == 6)  # as the state that would be saved now
    again = train.loader(batch_size=50, epochs=2, **bound)
    again.load_state_dict(loader.state_dict())
    assert (again.finished, driven(again), list(again)) == (True, [], [])
    assert again.state_dict() == loader.state_dict()
    farther = {name: value * 2 for name, value in bound.items()}
    longer = train.loader(batch_size=50, epochs=2, **farther)
    longer.load_state_dict(again.state_dict())
    assert [epoch for epoch, _ in driven(longer)] == [2, 2, 2, 3, 3, 3]


def test_steps_are_those_of_the_run_whatever_the_batch_size_was(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=10, steps=20)
    driven(loader, 17)  # an epoch and two batches
    again = train.loader(batch_size=40, steps=20, epochs=None)
    again.load_state_dict(loader.state_dict())
    assert [(epoch, len(places)) for epoch, places in driven(again)] == [(1, 40), (1, 40), (1, 40)]
    assert (again.state_dict()["epoch"], again.state_dict()["position"], again.state_dict()["step"]) == (1, 140, 20)
    assert len(train.loader(batch_size=40, steps=20, epochs=None)) == 20
    assert len(train.loader(batch_size=40, steps=20, epochs=2)) == 8
    assert len(train.loader(batch_size=40, until_epoch=10**12, epochs=None)) == 4 * 10**12


def test_loops_over_epochs_are_bounded_too(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=50, until_epoch=2)
    seen = []
    for epoch in range(5):
        loader.set_epoch(epoch)
        seen += [batch.epoch for batch in loader]
    assert seen == [0, 0, 0, 1, 1, 1]
    assert loader.finished


def test_a_last_epoch_that_was_left_is_not_finished_until_another_begins(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=50, until_epoch=1)
    for _ in loader:
        break
    assert not loader.finished  # what a job saves now has two batches left
    again = train.loader(batch_size=50, until_epoch=1)
    again.load_state_dict(loader.state_dict())
    assert len(driven(again)) == 2
    assert list(loader) == []  # a new iter() begins behind the epoch that was left
    assert loader.finished


def test_what_is_left_may_hold_no_batch(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=20, remainder="drop", until_epoch=1)
    state = {**loader.state_dict(), "position": 140, "step": 14}
    loader.load_state_dict(state)
    assert loader.finished
    assert list(loader) == []
    empty = train[:0]
    for bound in ({"until_epoch": 2}, {"steps": 3}):
        for epochs in (1, None):
            none = empty.loader(batch_size=4, epochs=epochs, **bound)  # type: ignore[arg-type]
            assert (none.finished, list(none), len(none)) == (True, [], 0)
    assert not empty.loader(batch_size=4).finished


def test_a_run_that_had_ended_is_warned_of_once_unless_it_is_bounded(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=50, epochs=2)
    states = [loader.state_dict() for _ in loader]
    assert not loader.finished
    again = train.loader(batch_size=50, epochs=2)
    with pytest.warns(EndedRunWarning, match=r"epochs=2 had ended.*epoch 2.*until_epoch=2 or steps=") as said:
        again.load_state_dict(states[-1])
    assert [one.filename for one in said if one.category is EndedRunWarning] == [__file__]
    assert [batch.epoch for batch in again] == [2, 2, 2, 3, 3, 3]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for state in (loader.state_dict() for loader in (train.loader(batch_size=50, epochs=2),)):
            train.loader(batch_size=50, epochs=2).load_state_dict(state)
        for state in states[:-1]:
            train.loader(batch_size=50, epochs=2).load_state_dict(state)
        train.loader(batch_size=50).load_state_dict(states[-1])  # a loop over epochs
        train.loader(batch_size=50, epochs=2, until_epoch=9).load_state_dict(states[-1])
        train.loader(batch_size=50, epochs=2, steps=9).load_state_dict(states[-1])
        other = train.loader(batch_size=50, epochs=2)
        other.set_epoch(4)  # nothing was delivered
        train.loader(batch_size=50, epochs=2).load_state_dict(other.state_dict())


def test_what_a_loop_asks_for_at_its_last_batch_is_kept(train: toolkit.Dataset) -> None:
    """The end of an iteration wrote over an epoch, or a state, that the loop's body had asked for."""
    loader = train.loader(batch_size=50)
    first = loader.state_dict()
    for number, _ in enumerate(loader, start=1):
        if number == 3:
            loader.set_epoch(7)
    assert loader.epoch == 7
    assert {batch.epoch for batch in loader} == {7}
    for number, _ in enumerate(loader, start=1):
        if number == 3:
            loader.load_state_dict(first)
    assert loader.state_dict() == first
    assert {batch.epoch for batch in loader} == {0}
    for number, _ in enumerate(loader, start=1):
        if number == 1:
            loader.set_epoch(5)  # the next iter()'s; this one goes on
    assert {batch.epoch for batch in loader} == {5}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"epochs": None}, "epochs=None goes on to the end of the run: say until_epoch= or steps="),
        ({"until_epoch": 0}, "until_epoch must be an int of at least 1, got 0"),
        ({"steps": 2.5}, r"steps must be an int of at least 1, got 2\.5"),
        ({"steps": True}, "steps must be an int of at least 1, got True"),
        ({"epochs": 0}, "epochs must be an int of at least 1, got 0"),
    ],
)
def test_bounds_that_can_not_be(train: toolkit.Dataset, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        train.loader(batch_size=10, **options)


def test_torch_datasets_end_where_the_run_does(train: toolkit.Dataset) -> None:
    torch = pytest.importorskip("toolkit.torch")

    def made(**options: Any) -> Any:
        return torch.IterableDataset(train, batch_size=40, shuffle="full", **options)

    def epochs(data: Any, numbers: range) -> list[int]:
        out = []
        for epoch in numbers:
            data.set_epoch(epoch)
            out.append(len(list(data)))
        return out

    assert epochs(made(until_epoch=2), range(4)) == [4, 4, 0, 0]
    data = made(steps=6)
    assert epochs(data, range(4)) == [4, 2, 0, 0]
    assert data.finished
    data.set_epoch(1)
    assert not data.finished
    assert (len(data), len(made(steps=3))) == (4, 3)

    batches = iter(data)
    next(batches)
    next(batches)
    state = pickle.loads(pickle.dumps(data.state_dict()))
    over = made(steps=6)
    over.load_state_dict(state)
    assert over.state_dict() == state
    assert over.finished
    assert list(over) == []
    longer = made(steps=7)
    longer.load_state_dict(state)
    assert not longer.finished
    assert [batch["__positions__"].tolist() for batch in longer] == [list(range(80, 120))]
    for wrong in ({**state, "epoch": 0.5}, {**state, "epoch": 5}, {**state, "epoch": "1"}):
        with pytest.raises(UsageError, match="epoch"):
            made().load_state_dict(wrong)


WORKERS = """
import sys
import torch, toolkit, toolkit.torch

def main():
    ds = toolkit.open(sys.argv[1], split="train", columns=["label"])
    for workers in (0, 1, 2, 3):
        for bound in ({"steps": 7}, {"until_epoch": 2}, {"steps": 2}):
            data = toolkit.torch.IterableDataset(ds, batch_size=40, shuffle="full", **bound)
            found = []
            for epoch in range(3):
                data.set_epoch(epoch)
                loader = torch.utils.data.DataLoader(data, batch_size=None, num_workers=workers)
                found += [(epoch, batch["__positions__"].tolist()) for batch in loader]
            whole = ds.loader(batch_size=40, shuffle="full", epochs=None, **bound)
            expected = [(batch.epoch, batch.positions.tolist()) for batch in whole]
            assert found == expected, (workers, bound, found)

if __name__ == "__main__":
    main()
"""


def test_workers_of_a_data_loader_end_where_the_run_does(packed: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "workers.py"
    script.write_text(WORKERS)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, packed],
        capture_output=True,
        text=True,
        timeout=3 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
