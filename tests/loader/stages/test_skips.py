"""on_error="skip", padding, and the accounting of epochs: no sample goes missing without a word."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import encode, picture

import toolkit
from toolkit import slot
from toolkit.errors import CorruptShardError, LoaderError, SampleError
from toolkit.loader import loader as loader_module

STEPS = toolkit.pipeline(slot("image").decode_image().center_crop(16).normalize("half"))
BAD = (2, 5, 6, 19)  # images that no decoder takes


@pytest.fixture
def spoilt(tmp_path: Path, commit_samples: Callable[..., str]) -> toolkit.Dataset:
    """20 samples in two shards, four of which can't be decoded."""
    good = encode(picture(24, 24, 1), "JPEG")
    samples = [
        {
            "__key__": f"k{i:02d}",
            "image": {"bytes": b"\xff\xd8\xff nothing" if i in BAD else good, "path": "a"},
            "label": i % 2,
        }
        for i in range(20)
    ]
    commit_samples(tmp_path / "spoilt", {"train": [samples[:11], samples[11:]]}, batch_body_bytes=4000)
    return toolkit.open(tmp_path / "spoilt")


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("output", ["numpy", "torch", "jax"])
def test_a_skipped_sample_keeps_its_place(
    spoilt: toolkit.Dataset, threads: int, output: str, caplog: pytest.LogCaptureFixture
) -> None:
    loader = spoilt.loader(
        STEPS, batch_size=8, shuffle="full", seed=1, on_error="skip", epochs=2, threads=threads, output=output
    )
    with caplog.at_level(logging.WARNING, "toolkit.loader"):
        batches = list(loader)
    for epoch in (0, 1):
        rows = np.concatenate([batch.rows for batch in batches if batch.epoch == epoch])
        mask = np.concatenate([batch.mask for batch in batches if batch.epoch == epoch])
        assert sorted(rows.tolist()) == list(range(20))
        assert sorted(rows[~mask].tolist()) == list(BAD)
    for batch in batches:
        images, labels = np.asarray(batch["image"]), np.asarray(batch["label"])
        assert not images[~batch.mask].any()
        assert not labels[~batch.mask].any()
        assert (np.abs(images[batch.mask]).sum(axis=(1, 2, 3)) > 0).all()
        assert labels[batch.mask].tolist() == [row % 2 for row in batch.rows[batch.mask].tolist()]
        assert batch.sample_keys == [f"k{row:02d}" for row in batch.rows.tolist()]
    stats = loader.stats()
    assert (stats["samples"], stats["skipped"]) == (32, 8)
    assert sum("skipped the sample at position" in record.message for record in caplog.records) == 8
    assert sum("key 'k19'" in record.message for record in caplog.records) == 2


def test_lists_have_none_where_a_sample_was_skipped(spoilt: toolkit.Dataset) -> None:
    ragged = toolkit.pipeline(slot("image").decode_image())
    (batch,) = spoilt.loader(ragged, batch_size=20, on_error="skip")
    assert [i for i, image in enumerate(batch["image"]) if image is None] == list(BAD)


def test_a_missing_number_is_skipped_too(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    samples = [{"__key__": f"k{i}", "image": None, "label": None if i == 3 else 1} for i in range(6)]
    commit_samples(tmp_path / "gaps", {"train": [samples]})
    ds = toolkit.open(tmp_path / "gaps", columns=["label"])
    with pytest.raises(SampleError, match="key 'k3'"):
        list(ds.loader(batch_size=6))
    (batch,) = ds.loader(batch_size=6, on_error="skip")
    assert batch["label"].tolist() == [1, 1, 1, 0, 1, 1]
    assert batch.mask.tolist() == [True, True, True, False, True, True]


def test_samples_of_a_missing_shard_are_skipped_up_to_the_limit(spoilt: toolkit.Dataset) -> None:
    Path(spoilt.files[1]).unlink()
    loader = spoilt.loader(batch_size=4, on_error="skip", max_skips=9)
    masks = [batch.mask for batch in loader]
    assert np.concatenate(masks).tolist() == [True] * 11 + [False] * 9
    delivered = []
    with pytest.raises(LoaderError, match=r"epoch 0: more than max_skips=8 .*it is missing") as caught:
        delivered += list(spoilt.loader(batch_size=4, on_error="skip", max_skips=8))
    assert isinstance(caught.value.__cause__, CorruptShardError)


def test_the_limit_counts_from_each_epoch_on(spoilt: toolkit.Dataset) -> None:
    options: dict[str, Any] = {"batch_size": 4, "on_error": "skip", "epochs": 3}
    assert len(list(spoilt.loader(STEPS, max_skips=4, **options))) == 15
    with pytest.raises(LoaderError, match="epoch 0: more than max_skips=3"):
        list(spoilt.loader(STEPS, max_skips=3, **options))
    with pytest.raises(LoaderError, match="max_skips=0"):
        list(spoilt.loader(STEPS, max_skips=0, **options))


def test_raising_is_what_happens_unasked(spoilt: toolkit.Dataset) -> None:
    with pytest.raises(SampleError, match="key 'k02'"):
        list(spoilt.loader(STEPS, batch_size=20))


def test_padding_is_masked_and_empty(packed: Path) -> None:
    ds = toolkit.open(packed, split="val")
    seen = []
    for rank in range(3):
        loader = ds.loader(STEPS, batch_size=3, rank=rank, world_size=3, remainder="pad", prefetch=0, epochs=2)
        batches = list(loader)
        assert len(batches) == len(loader) == 6
        for batch in batches:
            assert batch["image"].shape == (3, 3, 16, 16)
            assert len(batch.mask) == len(batch.positions) == len(batch.rows) == len(batch.sample_keys) == 3
            assert not batch["image"][~batch.mask].any()
            assert (batch.positions[~batch.mask] == -1).all()
            assert (batch.rows[~batch.mask] == -1).all()
            assert [key is None for key in batch.sample_keys] == (~batch.mask).tolist()
            seen += [(batch.epoch, position) for position in batch.positions[batch.mask].tolist()]
        assert loader.stats()["samples"] == (16 if rank == 0 else 12)  # 18 of 20 fill batches
    assert sorted(seen) == [(epoch, position) for epoch in (0, 1) for position in range(20)]


def test_more_ranks_and_threads_than_samples(packed: Path) -> None:
    ds = toolkit.open(packed, split="val")[:3]
    seen = []
    for rank in range(8):
        with ds.loader(batch_size=2, rank=rank, world_size=8, remainder="pad", threads=20) as loader:
            (batch,) = loader
            assert len(batch["image"]) == len(batch["label"]) == 2
            seen += batch.positions[batch.mask].tolist()
    assert sorted(seen) == [0, 1, 2]


def test_an_epoch_that_is_short_raises(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A defect somewhere in between, as a filled batch that holds fewer samples than were planned.
    plan = loader_module.plan_batches

    def short(*arguments: Any) -> Any:
        for planned in plan(*arguments):
            yield planned if planned.positions[0] else type(planned)(planned.epoch, planned.positions, planned.rows, 9)

    monkeypatch.setattr(loader_module, "plan_batches", short)
    loader = toolkit.open(packed, split="val").loader(batch_size=10)
    with pytest.raises(LoaderError, match="epoch 0 delivered 19 samples and skipped 0, planned were 20"):
        list(loader)


def test_what_memory_leaves_out_does_not_depend_on_threads(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    """A worker's memory of the sample before is no reason to leave the next one out."""
    sides = [int(side) for side in np.random.default_rng(2).integers(100, 1400, 32)]
    samples = [
        {"__key__": f"k{i:02d}", "image": {"bytes": encode(picture(i, side, side), "PNG"), "path": "a"}, "label": 0}
        for i, side in enumerate(sides)
    ]
    commit_samples(tmp_path / "mixed", {"train": [samples]})
    ds = toolkit.open(tmp_path / "mixed")
    for cap in ("10MiB", "14MiB", "20MiB"):
        found = []
        for threads in (1, 4):
            with ds.loader(STEPS, batch_size=4, threads=threads, on_error="skip", max_bytes=cap) as loader:
                found.append(np.concatenate([batch.mask for batch in loader]).tolist())
        assert found[0] == found[1], cap
        if cap == "10MiB":
            assert not all(found[0])
        assert any(found[0])
