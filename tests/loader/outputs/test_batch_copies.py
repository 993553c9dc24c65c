"""Batches that are pickled, deep-copied and copied: the same samples, in memory of their own."""

from __future__ import annotations

import copy
import gc
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import token_oracle

import toolkit
from toolkit import slot
from toolkit.loader.outputs.batch import Batch
from toolkit.loader.tokens.batch import TokenBatch
from toolkit.memory.holding import held_batches

STEPS = toolkit.pipeline(
    slot("image").decode_image().resize((8, 8)),
    slot("image", name="half").decode_image().resize((4, 4)).normalize("imagenet").cast("bfloat16"),
    slot("image", name="sizes").decode_image(),
    slot("image", name="file", optional=True).bytes(),
    slot("image", name="object").bytes().python(lambda value: {"n": len(value)}, "object"),
)
COPIES: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "copy": lambda batch: batch.copy(),
    "pickle 2": lambda batch: pickle.loads(pickle.dumps(batch, 2)),
    "pickle 5": lambda batch: pickle.loads(pickle.dumps(batch, 5)),
    "twice": lambda batch: copy.deepcopy(pickle.loads(pickle.dumps(batch))),
}


def plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if hasattr(value, "float") and not isinstance(value, np.ndarray):
        return np.asarray(value.float()).tolist()
    return np.asarray(value).tolist() if hasattr(value, "shape") else value


def last(packed: Path, output: str, pipeline: Any = STEPS, **options: Any) -> tuple[Any, Any]:
    options = {"batch_size": 8, "remainder": "pad", "shuffle": "full", "seed": 4, **options}
    loader = toolkit.open(packed, split="val").loader(pipeline, rank=0, world_size=1, output=output, **options)
    (*_, batch) = iter(loader)
    return loader, batch


def assert_same(made: Batch, batch: Batch) -> None:
    assert type(made) is type(batch)
    assert list(made) == list(batch)
    for name in batch:
        assert type(made[name]) is type(batch[name])
        assert plain(made[name]) == plain(batch[name])
        if hasattr(batch[name], "dtype"):
            assert made[name].dtype == batch[name].dtype
    assert (made.epoch, made.sample_keys) == (batch.epoch, batch.sample_keys)
    for name in ("positions", "rows", "mask"):
        mine, theirs = getattr(made, name), getattr(batch, name)
        assert type(mine) is type(theirs)
        assert np.array_equal(mine, theirs)
    assert {name: plain(there) for name, there in made.present.items()} == {
        name: plain(there) for name, there in batch.present.items()
    }
    assert repr(made) == repr(batch)


@pytest.mark.parametrize("output", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_is_the_same_samples(packed: Path, way: str, output: str) -> None:
    if output != "numpy":
        pytest.importorskip(output)
    _, batch = last(packed, output)
    made = COPIES[way](batch)
    assert_same(made, batch)
    assert made.sample_keys[-1] is None, "this batch is padded"
    assert not made.mask.all()


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_lies_in_memory_of_its_own(packed: Path, way: str) -> None:
    loader, batch = last(packed, "numpy", max_bytes="64MiB")
    expected = plain(list(batch.values()))
    made = COPIES[way](batch)
    batch["image"][:] = 7
    assert plain(list(made.values())) == expected
    made["image"][:] = 9
    assert (batch["image"] == 7).all()
    loader.close()
    del batch
    gc.collect()
    assert loader.stats()["budget_bytes"] == 0
    assert not held_batches(loader._budget)


def test_torch_and_jax_copies_share_nothing(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("jax")
    for way in COPIES.values():
        _, batch = last(packed, "torch")
        made = way(batch)
        batch["image"].zero_()
        assert made["image"].to(torch.float32).sum() > 0
        _, batch = last(packed, "jax")
        made = way(batch)
        assert made["image"].unsafe_buffer_pointer() != batch["image"].unsafe_buffer_pointer()


def test_a_shallow_copy_shares_arrays(packed: Path) -> None:
    _, batch = last(packed, "numpy")
    made = copy.copy(batch)
    assert_same(made, batch)
    assert made["image"] is batch["image"]
    made._columns["more"] = 1
    assert "more" not in batch


def test_a_batch_goes_to_another_process_without_its_dataset(packed: Path) -> None:
    _, batch = last(packed, "numpy")
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        said = pool.apply(describe, (batch,))
    assert said == (batch.sample_keys, batch.positions.tolist(), batch["image"].tolist(), 0)


def describe(batch: Batch) -> Any:
    return batch.sample_keys, batch.positions.tolist(), batch["image"].tolist(), batch.epoch


def test_a_batch_of_columns_alone_stays_one(packed: Path) -> None:
    for way in COPIES.values():
        made = way(Batch({"a": np.arange(3)}))
        assert made["a"].tolist() == [0, 1, 2]
        with pytest.raises(AttributeError, match="made of columns alone"):
            _ = made.epoch


@pytest.mark.parametrize("output", ["numpy", "torch", "jax"])
def test_token_batches(tmp_path: Path, output: str) -> None:
    if output != "numpy":
        pytest.importorskip(output)
    token_oracle.write(tmp_path / "ds", token_oracle.documents(50, 50))
    stream = toolkit.open(tmp_path / "ds").tokens(seq_len=64, batch_size=8, documents=True, output=output)
    (*_, batch) = iter(stream)
    for way in COPIES.values():
        made = way(batch)
        assert type(made) is TokenBatch
        assert {name: plain(array) for name, array in made.items()} == {
            name: plain(array) for name, array in batch.items()
        }
        assert (made.place, made.step, made.epoch) == (batch.place, batch.step, batch.epoch)
        assert np.array_equal(made.mask, batch.mask)
        assert not np.asarray(made.mask).all()
        if output == "numpy":
            assert not np.shares_memory(made["tokens"], batch["tokens"])
    assert copy.copy(batch)["tokens"] is batch["tokens"]
    assert copy.deepcopy(TokenBatch({"tokens": np.zeros((1, 2))}))["tokens"].shape == (1, 2)
