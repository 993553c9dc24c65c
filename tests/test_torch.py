"""toolkit.torch: torch's own DataLoader over a packed dataset, and states that all ranks agree on."""

from __future__ import annotations

import copy
import json
import os
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import make_folder
from ports import torch_rendezvous
from waiting import PATIENCE

import toolkit
from toolkit import slot
from toolkit.errors import PipelineError, SampleError, UsageError
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

torch = pytest.importorskip("torch")
import toolkit.torch  # noqa: E402

STEPS = toolkit.pipeline(slot("image").decode_image().center_crop(16).normalize("half"))
CROPS = toolkit.pipeline(slot("image").decode_image().random_resized_crop(16).hflip())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    work = tmp_path_factory.mktemp("torch")
    make_folder(work / "photos", {"train/cat": 14, "train/dog": 10})
    pack(PackJob(source=str(work / "photos"), dataset=str(work / "packed")))
    return str(work / "packed")


def test_samples_are_those_of_the_loader(root: str) -> None:
    ds = toolkit.open(root, split="train")
    samples = toolkit.torch.Dataset(ds, STEPS)
    batches = list(torch.utils.data.DataLoader(samples, batch_size=9))
    expected = list(ds.loader(STEPS, batch_size=9, output="torch"))
    assert len(samples) == 24
    for batch, other in zip(batches, expected, strict=True):
        assert torch.equal(batch["image"], other["image"])
        assert torch.equal(batch["label"], other["label"])
    assert torch.equal(samples[-1]["image"], expected[-1]["image"][-1])
    assert samples[3]["label"] == 0
    assert toolkit.torch.Dataset(ds)[0] == {"image": ds[0]["image"], "label": torch.tensor(0)}


def test_views_and_bad_indices(root: str) -> None:
    ds = toolkit.open(root, split="train")
    samples = toolkit.torch.Dataset(ds[20:].repeat(2), STEPS)
    assert [int(samples[i]["label"]) for i in range(len(samples))] == [1] * 8
    for index in (8, -9):
        with pytest.raises(IndexError, match=r"0\.\.7"):
            samples[index]
    with pytest.raises(PipelineError, match="no column 'imag'"):
        toolkit.torch.Dataset(ds, toolkit.pipeline(slot("imag").decode_image()))
    with pytest.raises(UsageError, match="takes a pipeline"):
        toolkit.torch.Dataset(ds, slot("image"))  # type: ignore[arg-type]


def test_it_pickles_as_path_and_pin(root: str) -> None:
    samples = toolkit.torch.Dataset(toolkit.open(root, split="train"), STEPS)
    samples[0]
    data = pickle.dumps(samples)
    assert len(data) < 3000
    assert torch.equal(pickle.loads(data)[5]["image"], samples[5]["image"])


def test_workers_forked_and_spawned(root: str, tmp_path: Path) -> None:
    # In a process of its own: this one has JAX's threads, which a fork would leave behind.
    script = tmp_path / "workers.py"
    script.write_text(
        textwrap.dedent(f"""
        import torch, toolkit, toolkit.torch
        from toolkit import slot
        from torch.utils.data import DataLoader

        def main():
            steps = toolkit.pipeline(slot("image").decode_image().center_crop(16).normalize("half"))
            samples = toolkit.torch.Dataset(toolkit.open({root!r}, split="train"), steps)
            expected = torch.cat([batch["image"] for batch in DataLoader(samples, batch_size=5)])
            for context, workers in (("fork", 3), ("spawn", 1)):
                loader = DataLoader(samples, batch_size=5, num_workers=workers, multiprocessing_context=context)
                assert torch.equal(torch.cat([batch["image"] for batch in loader]), expected), context

        if __name__ == "__main__":
            main()
        """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_a_state_is_the_loaders_own_where_nothing_is_distributed(root: str) -> None:
    loader = toolkit.open(root, split="train").loader(batch_size=5)
    assert toolkit.torch.agreed_state(loader) == loader.state_dict()


RANKS = """
    import sys, torch.distributed as dist, toolkit, toolkit.torch
    from toolkit.errors import LoaderError
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    ds = toolkit.open(sys.argv[1], split="train", columns=["label"])
    loader = ds.loader(batch_size=4, shuffle="full", remainder="pad")
    batches = iter(loader)
    next(batches)
    state = toolkit.torch.agreed_state(loader)
    assert (state["epoch"], state["position"]) == (0, 8), state
    for wrong in ("step", "seed"):
        other = loader
        if rank == 1 and wrong == "step":
            next(batches)
        if wrong == "seed":
            other = ds.loader(batch_size=4, shuffle="full", seed=rank, remainder="pad")
        try:
            toolkit.torch.agreed_state(other)
            sys.exit(3)
        except LoaderError as error:
            words = {"step": "position 8 and 16", "seed": "seed 0 and 1"}[wrong]
            assert "rank 0 and rank 1" in str(error) and words in str(error), error
    dist.destroy_process_group()
"""


def test_ranks_compare_where_they_stand(root: str) -> None:
    with torch_rendezvous(2) as world:
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(RANKS), root],
                stderr=subprocess.PIPE, text=True, env={**os.environ, **world, "RANK": str(rank)},
            )
            for rank in range(2)
        ]  # fmt: skip
        for process in ranks:
            _, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0, errors


def test_random_steps_draw_by_epoch_and_index_once_one_is_told(root: str) -> None:
    ds = toolkit.open(root, split="train")
    samples = toolkit.torch.Dataset(ds, CROPS, seed=5)
    samples.set_epoch(0)
    first = samples[3]["image"]
    assert torch.equal(samples.__getitems__([7, 3])[1]["image"], first)
    samples.set_epoch(1)
    second = samples[3]["image"]
    assert not torch.equal(first, second)
    assert torch.equal(pickle.loads(pickle.dumps(samples))[3]["image"], second)
    other = toolkit.torch.Dataset(ds, CROPS, seed=6)
    other.set_epoch(0)
    assert not torch.equal(other[3]["image"], first)


def by_epoch(root: str, epoch: int, seed: int = 0) -> list[Any]:
    """What the samples are in an epoch that is told."""
    samples = toolkit.torch.Dataset(toolkit.open(root, split="train"), CROPS, seed=seed)
    samples.set_epoch(epoch)
    return [samples[i]["image"] for i in range(len(samples))]


def test_every_use_draws_anew(root: str) -> None:
    # The n-th use of a sample draws as epoch n does, whatever else was used in between, and in the same batch.
    samples = toolkit.torch.Dataset(toolkit.open(root, split="train"), CROPS, seed=5)
    epochs = [by_epoch(root, epoch, seed=5) for epoch in range(4)]
    uses = [(3, 0), (3, 1), (7, 0), (-21, 2), (7, 1)]
    for index, use in uses:
        assert torch.equal(samples[index]["image"], epochs[use][index % 24])
    batch = samples.__getitems__([7, 3, 0, 3 - 24, 7])
    expected = [epochs[2][7], epochs[3][3], epochs[0][0], by_epoch(root, 4, seed=5)[3], epochs[3][7]]
    assert all(torch.equal(made["image"], other) for made, other in zip(batch, expected, strict=True))
    for index in (24, -25):
        with pytest.raises(IndexError):
            samples[index]
    assert torch.equal(samples[0]["image"], epochs[1][0])  # an index that is none was no use of another


def test_ranks_draw_apart(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # A DistributedSampler gives a sample to another rank in the next epoch, for which it is the first use.
    ds = toolkit.open(root, split="train")
    drawn = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        samples = toolkit.torch.Dataset(ds, CROPS)
        drawn.append([samples[3]["image"] for _ in range(2)])
        samples.set_epoch(2)
        drawn[-1].append(samples[3]["image"])
    expected = [by_epoch(root, number)[3] for number in range(4)]
    for rank in range(2):
        for use in range(2):
            assert torch.equal(drawn[rank][use], expected[2 * use + rank])
    assert torch.equal(drawn[0][2], drawn[1][2])  # an epoch that is told is one for all ranks


def test_a_launcher_that_says_nonsense_is_no_error(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "many")
    samples = toolkit.torch.Dataset(toolkit.open(root, split="train"), CROPS)
    assert torch.equal(samples[3]["image"], by_epoch(root, 0)[3])


def test_batch_maps_are_refused(root: str) -> None:
    with pytest.raises(PipelineError, match="batch maps need the batches of toolkit's own loader"):
        toolkit.torch.Dataset(
            toolkit.open(root, split="train"), toolkit.pipeline(batch_maps=[lambda columns, rng: columns])
        )


@pytest.mark.parametrize("epoch", [0, (1 << 31) - 1, 1 << 31, (1 << 62) - 1])
def test_an_epoch_that_is_told_stays(root: str, epoch: int) -> None:
    samples = toolkit.torch.Dataset(toolkit.open(root, split="train"), CROPS)
    samples.set_epoch(epoch)
    assert samples.state_dict()["epoch"] == epoch
    assert torch.equal(samples[3]["image"], samples[3]["image"])


def test_a_state_counts_on(root: str) -> None:
    ds = toolkit.open(root, split="train")
    samples, other = toolkit.torch.Dataset(ds, CROPS), toolkit.torch.Dataset(ds, CROPS)
    for index in (3, 3, 5):
        samples[index]
    state = json.loads(json.dumps(samples.state_dict()))
    assert (state["epoch"], state["counts"]) == (2, "uses")
    other.load_state_dict(state)
    assert torch.equal(other[5]["image"], by_epoch(root, 2)[5])  # as often as the one that was used most often
    other.load_state_dict(state)
    assert torch.equal(other[5]["image"], by_epoch(root, 3)[5])
    other.set_epoch(7)
    other.load_state_dict(state)
    assert torch.equal(other[5]["image"], by_epoch(root, 7)[5])
    for wrong in (None, {}, {**state, "counts": "batches"}, {**state, "counts": None}):
        with pytest.raises(UsageError, match=r"no state of toolkit\.torch\.Dataset"):
            other.load_state_dict(wrong)  # type: ignore[arg-type]


def test_an_epoch_that_is_none(root: str) -> None:
    samples = toolkit.torch.Dataset(toolkit.open(root, split="train"), CROPS)
    for wrong in (-1, 1.5, True, "1", 1 << 62):
        with pytest.raises(UsageError, match="an epoch is a whole number from 0 to"):
            samples.set_epoch(wrong)  # type: ignore[arg-type]
    samples.set_epoch((1 << 62) - 1)
    assert samples[0]["image"].shape == (16, 16, 3)


def test_a_copy_goes_its_own_way(root: str) -> None:
    samples = toolkit.torch.Dataset(toolkit.open(root, split="train"), CROPS)
    samples.set_epoch(4)
    for other in (pickle.loads(pickle.dumps(samples)), copy.deepcopy(samples)):
        assert torch.equal(other[1]["image"], samples[1]["image"])
        other.set_epoch(5)
        assert not torch.equal(other[1]["image"], samples[1]["image"])


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_workers_know_of_epochs_and_uses_even_those_that_persist(root: str, tmp_path: Path, context: str) -> None:
    script = tmp_path / "epochs.py"
    script.write_text(
        textwrap.dedent(f"""
        import torch, toolkit, toolkit.torch
        from toolkit import slot
        from torch.utils.data import DataLoader

        def crops(samples, **options):
            loader = DataLoader(samples, batch_size=3, **options)
            return lambda: torch.cat([batch["image"] for batch in loader])

        def main():
            steps = toolkit.pipeline(slot("image").decode_image().random_resized_crop(16).hflip())
            ds = toolkit.open({root!r}, split="train")
            alone, epochs = toolkit.torch.Dataset(ds, steps), []
            for epoch in range(2):
                alone.set_epoch(epoch)
                epochs.append(crops(alone)())
            assert not torch.equal(*epochs)
            shared = dict(num_workers=2, multiprocessing_context={context!r})
            samples = toolkit.torch.Dataset(ds, steps)
            persist = crops(samples, persistent_workers=True, **shared)
            for epoch in (0, 1, 0):
                samples.set_epoch(epoch)
                assert torch.equal(persist(), epochs[epoch]), ("persist", epoch)
            # Where each worker imports all anew, one is enough for the rest.
            shared["num_workers"] = {1 if context == "spawn" else 2}
            anew = crops(samples, **shared)
            samples.set_epoch(1)
            assert torch.equal(anew(), epochs[1])
            assert torch.equal(anew(), epochs[1])
            for options in (dict(persistent_workers=True), dict()):
                untold = crops(toolkit.torch.Dataset(ds, steps), **shared, **options)
                for epoch in range(2):
                    assert torch.equal(untold(), epochs[epoch]), ("untold", options, epoch)

        if __name__ == "__main__":
            main()
        """)
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=3 * PATIENCE)
    assert done.returncode == 0, done.stderr


def test_what_torch_has_not_names_the_sample(root: str) -> None:
    steps = toolkit.pipeline(slot("label").scalar("int64").python(lambda label: np.array("x"), "object"))
    samples = toolkit.torch.Dataset(toolkit.open(root, split="train", columns=["label"])[2:], steps)
    with pytest.raises(
        SampleError, match=r"slot 'label', step python\(.*torch has no <U1: give a list of str"
    ) as caught:
        samples.__getitems__([3, 1])
    assert caught.value.row == 5
    assert caught.value.key == samples._dataset.keys([3])[0]
