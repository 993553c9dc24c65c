from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

import toolkit
from toolkit import slot
from toolkit.errors import CorruptShardError, LoaderError, UsageError
from toolkit.loader.order.course import EndedRunWarning


@pytest.fixture(scope="module")
def train(packed: Path) -> toolkit.Dataset:
    return toolkit.open(packed, split="train", columns=["label"])


def taken(loader: toolkit.Loader, count: int | None = None) -> list[tuple[int, int, int]]:
    """(epoch, position, row) of the next `count` batches of a new iter(), of all when left out."""
    out: list[tuple[int, int, int]] = []
    for number, batch in enumerate(loader, start=1):
        places = zip(batch.positions[batch.mask].tolist(), batch.rows[batch.mask].tolist(), strict=True)
        out += [(batch.epoch, position, row) for position, row in places]
        if number == count:
            break
    return out


def test_the_state_is_small_json_of_the_same_size_everywhere(train: toolkit.Dataset) -> None:
    loader = train.repeat(10**6).loader(batch_size=50, shuffle="full", epochs=3)
    sizes = set()
    for _ in zip(range(4), loader, strict=False):
        state = loader.state_dict()
        assert json.loads(json.dumps(state)) == state
        sizes.add(len(json.dumps(state)))
    assert state["position"] == 200
    assert max(sizes) < 600
    assert max(sizes) - min(sizes) <= 2


def test_it_counts_what_was_received_not_what_is_prefetched(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=10, shuffle="full", prefetch=8)
    assert loader.state_dict()["position"] == 0
    for number, _ in enumerate(loader, start=1):
        state = loader.state_dict()
        assert (state["epoch"], state["position"]) == ((0, 10 * number) if number < 15 else (1, 0))
    assert loader.state_dict() == state


@pytest.mark.parametrize("shuffle", ["full", "block", "none"])
def test_resume_at_every_step_within_and_between_epochs(train: toolkit.Dataset, shuffle: str) -> None:
    options: dict[str, Any] = {"shuffle": shuffle, "seed": 3, "epochs": 3}
    whole = taken(train.loader(batch_size=40, **options))
    assert len(whole) == 450
    for step in range(13):
        first = train.loader(batch_size=40, **options)
        before = taken(first, step) if step else []
        second = train.loader(batch_size=40, threads=3, prefetch=0, **options)
        with pytest.warns(EndedRunWarning) if step == 12 else nullcontext():
            second.load_state_dict(first.state_dict())
        after = taken(second)
        if step < 12:
            assert before + after == whole
        else:  # the run was over: the next iter() is the next three epochs
            assert {epoch for epoch, _, _ in after} == {3, 4, 5}


def test_epochs_are_counted_from_where_the_run_began(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=50, epochs=4)
    loader.set_epoch(2)
    taken(loader, 4)  # epoch 2, and a batch of epoch 3
    state = loader.state_dict()
    assert (state["first_epoch"], state["epoch"], state["position"]) == (2, 3, 50)

    again = train.loader(batch_size=50, epochs=4)
    again.load_state_dict(state)
    assert again.epoch == 3
    assert [place[:2] for place in taken(again)] == [(3, p) for p in range(50, 150)] + [
        (e, p) for e in (4, 5) for p in range(150)
    ]
    assert again.epoch == 6
    assert len(again) == 12

    longer = train.loader(batch_size=50, epochs=6)
    longer.load_state_dict(state)
    assert taken(longer)[-1][0] == 7
    shorter = train.loader(batch_size=50, epochs=1)
    with pytest.raises(UsageError, match=r"stands in epoch 3 of a run that began at epoch 2.*epochs=1"):
        shorter.load_state_dict(state)


def test_one_epoch_an_iter_goes_on_in_the_right_epoch(train: toolkit.Dataset) -> None:
    """for epoch in range(loader.epoch, 3): loader.set_epoch(epoch); for batch in loader: ..."""
    whole = [place for epoch in range(3) for place in taken(_at(train.loader(batch_size=50, shuffle="full"), epoch))]
    for stop in range(1, 9):
        loader = train.loader(batch_size=50, shuffle="full")
        before: list[tuple[int, int, int]] = []
        left = stop
        for epoch in range(3):
            before += taken(_at(loader, epoch), min(left, 3)) if left else []
            left -= min(left, 3)
            if not left:
                break
        again = train.loader(batch_size=50, shuffle="full")
        again.load_state_dict(loader.state_dict())
        after = [place for epoch in range(again.epoch, 3) for place in taken(_at(again, epoch))]
        assert before + after == whole


def _at(loader: toolkit.Loader, epoch: int) -> toolkit.Loader:
    loader.set_epoch(epoch)
    return loader


def test_an_epoch_with_nothing_left_for_larger_batches_ends(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=10, shuffle="full")
    taken(loader, 14)
    again = train.loader(batch_size=20, remainder="drop", shuffle="full")
    again.load_state_dict(loader.state_dict())
    assert taken(again) == []  # ten samples are left, and dropped
    assert (again.epoch, again.state_dict()["epoch"], again.state_dict()["position"]) == (1, 1, 0)
    assert len(taken(again)) == 140


def test_an_iter_that_delivers_nothing_uses_nothing_up(train: toolkit.Dataset) -> None:
    # Lightning calls iter() once to look at the loader, and again to train.
    loader = train.loader(batch_size=50, shuffle="full")
    iter(loader)
    assert [place[:2] for place in taken(loader, 1)] == [(0, p) for p in range(50)]
    again = train.loader(batch_size=50, shuffle="full")
    again.load_state_dict(loader.state_dict())
    for _ in range(2):
        iter(again)
        assert again.state_dict() == loader.state_dict()
    assert [place[:2] for place in taken(again)] == [(0, p) for p in range(50, 150)]
    iter(again)
    assert {place[0] for place in taken(again)} == {1}


def test_set_epoch_to_another_epoch_leaves_the_state_behind(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=50)
    taken(loader, 1)
    again = train.loader(batch_size=50)
    again.load_state_dict(loader.state_dict())
    assert again.state_dict() == loader.state_dict()
    assert [place[:2] for place in taken(_at(again, 5))] == [(5, p) for p in range(150)]


def test_a_failed_batch_is_not_counted(damaged: Path) -> None:
    ds = toolkit.open(damaged, split="train")
    Path(ds.files[1]).unlink()
    loader = ds.loader(batch_size=4)
    received: list[int] = []
    with pytest.raises(CorruptShardError):
        received.extend(row for batch in loader for row in batch.rows)
    assert loader.state_dict()["position"] == len(received) > 0


def test_a_loaded_state_ends_the_running_iteration(train: toolkit.Dataset) -> None:
    loader = train.loader(batch_size=50, shuffle="full")
    running = iter(loader)
    first = next(running)
    state = loader.state_dict()
    loader.load_state_dict(state)
    with pytest.raises(LoaderError, match="another iteration"):
        next(running)
    assert loader.state_dict() == state
    assert first.rows.tolist() + [row for _, _, row in taken(loader)] == [
        row for _, _, row in taken(train.loader(batch_size=50, shuffle="full"))
    ]


CROP = toolkit.pipeline(slot("image").decode_image().center_crop(8))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"seed": 1}, r"another run: seed 0 there, 1 here\."),
        ({"shuffle": "none"}, "order full there, none here"),
        ({"shuffle": "none", "weights": [1.0] * 150}, "order full there, weighted"),
        ({"view": lambda ds: ds[:149]}, "view .* there, .* here; samples 150 there, 149 here"),
        ({"view": lambda ds: ds[::-1]}, "view .* there, .* here. Make"),
        ({"view": lambda ds: ds.open_split("val")}, "view .* samples 150 there, 20 here"),
        ({"pipeline": CROP}, "pipeline .* there, .* here"),
        ({"seed": 2, "pipeline": CROP}, "seed 0 there, 2 here; pipeline"),
    ],
)
def test_the_state_of_another_run_is_refused_by_name(packed: Path, change: dict[str, Any], says: str) -> None:
    ds = toolkit.open(packed, split="train")
    options: dict[str, Any] = {"batch_size": 10, "shuffle": "full"}
    state = ds.loader(**options).state_dict()
    view: Callable[[Any], Any] = change.pop("view", lambda ds: ds)
    with pytest.raises(UsageError, match=says):
        view(ds).loader(**{**options, **change}).load_state_dict(state)


def test_the_pin_is_named_when_the_data_is_another(
    tmp_path: Path, commit_samples: Callable[..., str], train: toolkit.Dataset
) -> None:
    loaders = []
    for label in (0, 1):
        commit_samples(tmp_path / str(label), {"train": [[{"__key__": "a", "image": None, "label": label}]]})
        loaders.append(toolkit.open(tmp_path / str(label)).loader(batch_size=1))
    with pytest.raises(UsageError, match=r"another run: pin [0-9a-f]{20}… there, [0-9a-f]{20}… here\. Make"):
        loaders[1].load_state_dict(loaders[0].state_dict())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": 1}, "format 1, this version of toolkit knows 2"),
        ({"format": 2.0}, r"format 2\.0, this version of toolkit knows 2"),
        ({"order_version": 9}, "order_version 9, this version of toolkit knows 1"),
        ({"position": 151}, "position must be a whole number from 0 to 150, got 151"),
        ({"first_epoch": 5}, "points outside the run"),
        ({"position": -1}, "position must be a whole number from 0 to 150, got -1"),
        ({"position": 1.0}, r"position must be a whole number from 0 to 150, got 1\.0"),
        ({"step": 3.7}, r"step must be a whole number from 0 to \d+, got 3\.7"),
        ({"epoch": True}, r"epoch must be a whole number from 0 to \d+, got True"),
        ({"epoch": "0"}, r"epoch must be a whole number from 0 to \d+, got '0'"),
        ({"epoch": 10**5000}, "got a int that can't be shown"),
        ({"pin": 10**5000}, "another run: pin a int that can't be shown there"),
        ({"epoch": 10**30}, r"epoch must be a whole number from 0 to \d+, got 10{19}…"),
        ({"seed": False}, "another run: seed False there, 0 here"),
        ({"samples": 150.0}, r"another run: samples 150\.0 there, 150 here"),
        ({"pin": 7}, "another run: pin 7 there"),
        ({"position": None}, "no position"),
        ({"steps": 3}, "it has steps, which no loader's state has"),
    ],
)
def test_states_that_can_not_be_are_refused(train: toolkit.Dataset, change: dict[str, Any], says: str) -> None:
    loader = train.loader(batch_size=10)
    state = {name: value for name, value in {**loader.state_dict(), **change}.items() if value is not None}
    with pytest.raises(UsageError, match=says):
        loader.load_state_dict(state)
    for nothing in (None, 7, {}):
        with pytest.raises(UsageError, match="loader's state"):
            loader.load_state_dict(nothing)  # type: ignore[arg-type]


def test_resuming_far_in_reads_what_resuming_near_reads(train: toolkit.Dataset) -> None:
    far = train.repeat((1 << 62) // 150 - 1)
    loader = far.loader(batch_size=64, shuffle="full", prefetch=0, threads=1)
    assert len(list(train.loader(batch_size=64))) > 1  # tables and record batches are read once
    calls: dict[int, int] = {}
    for position in (0, 10**12, len(far) - 64):
        loader.load_state_dict({**loader.state_dict(), "first_epoch": 0, "epoch": 0, "position": position})
        count = 0

        def count_calls(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event == "call"

        sys.setprofile(count_calls)
        batch = next(iter(loader))
        sys.setprofile(None)
        calls[position] = count
        assert batch.positions[0] == position
    # Work, not time: the same Python calls at every position.
    assert max(calls.values()) < 1.2 * min(calls.values())
