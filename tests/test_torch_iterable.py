"""toolkit.torch's datasets in torch's DataLoader and torchdata's StatefulDataLoader: resumed, with and without workers.

Each in a process of its own: this one has JAX's threads, which a fork would leave behind.
"""

from __future__ import annotations

import importlib.util
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import make_folder
from waiting import PATIENCE

import toolkit
from toolkit import slot
from toolkit.errors import UsageError
from toolkit.loader.order.cut import Cut, Remainder
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

torch = pytest.importorskip("torch")
import toolkit.torch  # noqa: E402

needs_torchdata = pytest.mark.skipif(importlib.util.find_spec("torchdata") is None, reason="torchdata is not installed")
STEPS = toolkit.pipeline(slot("image").decode_image().resize((8, 8)).hflip().normalize("half"))

COMMON = """
    import sys
    import torch, toolkit, toolkit.torch
    from toolkit import slot
    from toolkit.errors import UsageError

    ds = toolkit.open(sys.argv[1], split="train")
    steps = toolkit.pipeline(slot("image").decode_image().resize((8, 8)).hflip().normalize("half"))
    options = {"shuffle": "full", "seed": 1}

    def as_lists(batch):
        return [batch["__positions__"].tolist(), batch["__mask__"].tolist(), batch["image"].sum().item()]

    def planned(epoch, **more):
        loader = ds.loader(steps, output="torch", **options, **more)
        loader.set_epoch(epoch)
        return [[b.positions.tolist(), b.mask.tolist(), b["image"].sum().item()] for b in loader]
"""

DATA_LOADER = """
    from torch.utils.data import DataLoader

    def main():
        keep, drop = {"batch_size": 7}, {"batch_size": 5, "remainder": "drop"}
        pad = {"batch_size": 5, "remainder": "pad", "rank": 1, "world_size": 3}
        for workers, context, cases in (
            (0, None, (keep, drop, pad)), (2, "fork", (keep, drop, pad)), (5, "fork", (pad,)), (2, "spawn", (keep,))
        ):
            for more in cases:
                data = toolkit.torch.IterableDataset(ds, steps, **options, **more)
                loader = DataLoader(data, batch_size=None, num_workers=workers, multiprocessing_context=context)
                assert len(loader) == len(planned(0, **more))
                for epoch in (0, 3) if context == "fork" else (3,):
                    data.set_epoch(epoch)
                    assert [as_lists(batch) for batch in loader] == planned(epoch, **more), (workers, context, more)

    if __name__ == "__main__":
        main()
"""

STATEFUL_BATCHES = """
    from torchdata.stateful_dataloader import StatefulDataLoader

    def make(workers, seed=1):
        data = toolkit.torch.IterableDataset(ds, steps, batch_size=5, **{**options, "seed": seed})
        return data, StatefulDataLoader(data, batch_size=None, num_workers=workers)

    for workers in (0, 2):
        data, loader = make(workers)
        for epoch in (0, 1):
            data.set_epoch(epoch)
            whole, states = [], []
            for batch in loader:
                whole.append(as_lists(batch))
                states.append(loader.state_dict())
            after = loader.state_dict()
            assert whole == planned(epoch, batch_size=5)
            for step in (0, 3, len(whole) - 2, len(whole) - 1):
                for says in (True, False):
                    again, resumed = make(workers)
                    if says:
                        again.set_epoch(epoch)
                    resumed.load_state_dict(states[step])
                    assert [as_lists(batch) for batch in resumed] == whole[step + 1 :], (workers, epoch, step)
                    again.set_epoch(epoch + 1)
                    assert [as_lists(batch) for batch in resumed] == planned(epoch + 1, batch_size=5)
            # Taken behind the loop: what comes next is the next epoch.
            again, resumed = make(workers)
            resumed.load_state_dict(after)
            again.set_epoch(epoch + 1)
            assert [as_lists(batch) for batch in resumed] == planned(epoch + 1, batch_size=5), (workers, epoch)
        _, other = make(workers, seed=2)
        other.load_state_dict(states[3])
        try:
            list(other)
        except UsageError as error:
            assert "seed 1 there, 2 here" in str(error)
        else:
            raise AssertionError("another run's state")
"""

STATEFUL_SAMPLES = """
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    def make(workers, seed=1):
        data = toolkit.torch.Dataset(ds, steps, seed=seed)
        sampler = StatefulDistributedSampler(data, num_replicas=1, rank=0, shuffle=True, seed=4)
        return data, sampler, StatefulDataLoader(data, batch_size=5, sampler=sampler, num_workers=workers)

    def epoch_of(made, epoch, state=None, says=True):
        data, sampler, loader = made
        if says:
            data.set_epoch(epoch)
        sampler.set_epoch(epoch)
        if state is not None:
            loader.load_state_dict(state)
        found = []
        for batch in loader:
            found.append((batch["label"].tolist(), batch["image"].sum().item(), loader.state_dict()))
        return found

    for workers in (0, 2):
        made = make(workers)
        for epoch in (0, 1):
            whole = epoch_of(made, epoch)
            assert sum(len(labels) for labels, _, _ in whole) == len(ds)
            for says in (True, False):  # the state knows which epoch's draws they were
                rest = epoch_of(make(workers), epoch, whole[2][2], says)
                assert [found[:2] for found in rest] == [found[:2] for found in whole[3:]], (workers, epoch, says)
        try:
            epoch_of(make(workers, seed=2), 0, whole[2][2])
        except UsageError as error:
            assert "seed 1 there, 2 here" in str(error)
        else:
            raise AssertionError("another run's state")
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    work = tmp_path_factory.mktemp("iterable")
    make_folder(work / "photos", {"train/cat": 20, "train/dog": 13})
    pack(PackJob(source=str(work / "photos"), dataset=str(work / "packed")))
    return str(work / "packed")


def run(program: str, root: str, tmp_path: Path) -> None:
    script = tmp_path / "program.py"  # a file: spawned workers read it again
    script.write_text(textwrap.dedent(COMMON) + textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script, root], capture_output=True, text=True, timeout=3 * PATIENCE
    )
    assert done.returncode == 0, done.stderr


def test_workers_deal_out_the_batches_of_a_loader(root: str, tmp_path: Path) -> None:
    run(DATA_LOADER, root, tmp_path)


@needs_torchdata
def test_batches_are_resumed_in_torchdata(root: str, tmp_path: Path) -> None:
    run(STATEFUL_BATCHES, root, tmp_path)


@needs_torchdata
def test_samples_are_resumed_in_torchdata(root: str, tmp_path: Path) -> None:
    run(STATEFUL_SAMPLES, root, tmp_path)


def test_states_without_torchdata(root: str) -> None:
    """What torchdata does with a dataset: the state into another one's, then iter()."""
    ds = toolkit.open(root, split="train")
    data = toolkit.torch.IterableDataset(ds, STEPS, batch_size=5, shuffle="full")
    data.set_epoch(2)
    assert data.state_dict()["loader"]["position"] == 0
    batches = iter(data)
    first = [next(batches) for _ in range(3)]
    state = pickle.loads(pickle.dumps(data.state_dict()))
    rest = [batch["__positions__"].tolist() for batch in batches]
    again = pickle.loads(pickle.dumps(data))
    again.load_state_dict(state)
    assert [batch["__positions__"].tolist() for batch in again] == rest
    delivered = [batch["__positions__"].tolist() for batch in first] + rest
    assert [position for positions in delivered for position in positions] == list(range(33))
    again.load_state_dict(state)
    again.set_epoch(3)  # the state stands in another one
    assert len(list(again)) == len(again) == 7
    for wrong in ({}, {"epoch": 0}, None):
        with pytest.raises(UsageError, match=r"no state of toolkit\.torch\.IterableDataset"):
            again.load_state_dict(wrong)
    with pytest.raises(UsageError, match="samples 33 there, 32 here"):
        toolkit.torch.IterableDataset(ds[1:], STEPS, batch_size=5, shuffle="full").load_state_dict(state)


def test_a_samples_dataset_keeps_the_epoch_of_its_state(root: str) -> None:
    ds = toolkit.open(root, split="train")
    data = toolkit.torch.Dataset(ds, STEPS)
    data.set_epoch(5)
    state = data.state_dict()
    other = toolkit.torch.Dataset(ds, STEPS)
    other.load_state_dict(state)
    assert torch.equal(other[3]["image"], data[3]["image"])
    assert torch.equal(pickle.loads(pickle.dumps(other))[3]["image"], data[3]["image"])
    asked = toolkit.torch.Dataset(ds, STEPS)
    asked.set_epoch(6)
    asked.load_state_dict(state)
    assert asked.state_dict()["epoch"] == 6
    with pytest.raises(UsageError, match=r"pipeline .* there"):
        toolkit.torch.Dataset(ds).load_state_dict(state)


def test_options_that_a_data_loader_has_no_use_for(root: str) -> None:
    ds = toolkit.open(root, split="train")
    with pytest.raises(UsageError, match=r"takes no epochs=: an iter\(\) gives one epoch: call set_epoch"):
        toolkit.torch.IterableDataset(ds, STEPS, batch_size=5, epochs=3, device="cuda")
    with pytest.raises(UsageError, match="remainder='keep' would give ranks unequal batches"):
        toolkit.torch.IterableDataset(ds, STEPS, batch_size=5, rank=0, world_size=2)


@given(
    samples=st.integers(0, 60),
    batch_size=st.integers(1, 7),
    rank=st.integers(0, 2),
    workers=st.integers(1, 4),
    data=st.data(),
    remainder=st.sampled_from(list(Remainder)),
)
def test_workers_shares_make_the_ranks(
    samples: int, batch_size: int, rank: int, workers: int, data: st.DataObject, remainder: Remainder
) -> None:
    """Dealt out in turn, the workers' batches are the rank's; a worker goes on from any of its own places."""
    world_size = 1 if remainder is Remainder.KEEP else 3
    about = {"samples": samples, "batch_size": batch_size, "world_size": world_size, "remainder": remainder}
    whole = Cut(**about, rank=rank % world_size)
    start = data.draw(st.integers(0, samples))
    expected = [whole.positions(start, batch).tolist() for batch in range(whole.batches(start))]
    for worker in range(workers):
        cut = Cut(**about, rank=rank % world_size, worker=worker, workers=workers)
        found = [cut.positions(start, batch).tolist() for batch in range(cut.batches(start))]
        assert found == expected[worker::workers]
        assert cut.planned(start) == sum(position >= 0 for positions in found for position in positions)
        if found:
            at = data.draw(st.integers(0, len(found) - 1))
            later = cut.after(start, (at + 1) * cut.workers)
            assert [cut.positions(later, batch).tolist() for batch in range(cut.batches(later))] == found[at + 1 :]
