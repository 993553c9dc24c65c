"""A batch where other libraries take it over: Lightning and Accelerate move it, JAX takes it as a pytree."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections import OrderedDict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toolkit
from toolkit import slot
from toolkit.loader.outputs.batch import Batch
from toolkit.loader.tokens.batch import TokenBatch

STEPS = toolkit.pipeline(slot("image").decode_image().resize((8, 8)))


def first(packed: Path, output: str) -> Batch:
    return next(iter(toolkit.open(packed, split="train").loader(STEPS, batch_size=4, shuffle="full", output=output)))


def assert_same_samples(moved: Any, batch: Batch) -> None:
    assert type(moved) is Batch
    assert list(moved) == list(batch)
    assert moved.epoch == 0
    assert moved.positions is batch.positions
    assert moved.sample_keys == batch.sample_keys
    assert moved.mask is batch.mask


def test_to_moves_tensors_and_keeps_what_the_batch_is_of(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    batch = first(packed, "torch")
    moved = batch.to(torch.device("meta"), non_blocking=True)
    assert_same_samples(moved, batch)
    assert {values.device.type for values in moved.values()} == {"meta"}
    assert batch["image"].device.type == "cpu"
    assert batch.to("cpu")["image"].data_ptr() == batch["image"].data_ptr()


def test_to_moves_tensors_in_lists_and_leaves_the_rest(packed: Path) -> None:
    torch = pytest.importorskip("torch")
    batch = Batch({"sizes": [torch.zeros(2), torch.zeros(3)], "text": ["a", None], "array": np.zeros(2)})
    moved = batch.to("meta")
    assert [tensor.device.type for tensor in moved["sizes"]] == ["meta", "meta"]
    assert moved["text"] == ["a", None]
    assert moved["array"] is batch["array"]


@pytest.mark.parametrize("kind", [Batch, TokenBatch])
def test_what_accelerate_and_lightning_ask_of_a_type(kind: type[Mapping[str, Any]]) -> None:
    """Both try `.to(device)`, Accelerate with `non_blocking=`; else, and to gather or slice, type(batch)(a mapping)."""
    torch = pytest.importorskip("torch")
    assert callable(kind.to)  # Lightning asks the class
    batch = kind({"tokens": torch.zeros(2, 3)})
    assert isinstance(batch, Mapping)
    assert batch.to("meta", non_blocking=False)["tokens"].device.type == "meta"
    again = type(batch)(OrderedDict((name, values + 1) for name, values in batch.items()))
    assert torch.equal(again["tokens"], torch.ones(2, 3))
    assert "tokens" in repr(again)
    for attribute in ("epoch", "mask", *(("positions", "sample_keys") if kind is Batch else ("step",))):
        with pytest.raises(AttributeError, match="made of columns alone"):
            getattr(again, attribute)
        assert not hasattr(again, attribute)


def test_accelerate(packed: Path) -> None:
    operations = pytest.importorskip("accelerate.utils.operations")
    batch = first(packed, "torch")
    moved = operations.send_to_device(batch, "meta", non_blocking=True)
    assert_same_samples(moved, batch)
    assert moved["image"].device.type == "meta"
    assert operations.find_batch_size(batch) == 4
    doubled = operations.recursively_apply(lambda tensor: tensor * 2, batch)
    assert (doubled["label"] == batch["label"] * 2).all()


def test_lightning_utilities(packed: Path) -> None:
    apply_func = pytest.importorskip("lightning_utilities.core.apply_func")
    torch = pytest.importorskip("torch")
    batch = first(packed, "torch")
    doubled = apply_func.apply_to_collection(batch, torch.Tensor, lambda tensor: tensor * 2)
    assert (doubled["label"] == batch["label"] * 2).all()


def test_lightning(packed: Path) -> None:
    fabric = pytest.importorskip("lightning.fabric.utilities.apply_func")
    torch = pytest.importorskip("torch")
    batch = first(packed, "torch")
    moved = fabric.move_data_to_device(batch, torch.device("meta"))
    assert_same_samples(moved, batch)
    assert moved["image"].device.type == "meta"


@pytest.mark.parametrize("output", ["numpy", "jax"])
def test_a_pytree_of_its_columns(packed: Path, output: str) -> None:
    jax = pytest.importorskip("jax")
    batch = first(packed, output)
    leaves, structure = jax.tree.flatten(batch)
    assert [leaf.shape for leaf in leaves] == [(4, 8, 8, 3), (4,)]
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(batch)[0]]
    assert paths == ["['image']", "['label']"]
    doubled = jax.tree.map(lambda values: values * 2, batch)
    assert type(doubled) is Batch
    assert (np.asarray(doubled["label"]) == np.asarray(batch["label"]) * 2).all()
    with pytest.raises(AttributeError, match="take it from the batch that the loader gave"):
        _ = doubled.positions
    placed = jax.device_put(batch, jax.devices()[0])
    assert isinstance(placed["image"], jax.Array)
    assert jax.tree.unflatten(structure, leaves)["image"] is batch["image"]


def test_batches_of_one_form_compile_a_function_once(packed: Path) -> None:
    jax = pytest.importorskip("jax")
    traced = []

    @jax.jit
    def double(batch: Batch) -> Batch:
        traced.append(list(batch))
        return Batch({name: values * 2 for name, values in batch.items()})

    for batch in toolkit.open(packed, split="train").loader(STEPS, batch_size=10, epochs=2, output="jax"):
        assert (np.asarray(double(batch)["label"]) == np.asarray(batch["label"]) * 2).all()
    assert traced == [["image", "label"]]


def test_jax_is_not_imported_for_those_who_do_not_and_found_when_it_is(packed: Path) -> None:
    program = f"""
        import sys, toolkit
        batches = iter(toolkit.open({str(packed)!r}, split="train", columns=["label"]).loader(batch_size=4))
        next(batches)
        assert "jax" not in sys.modules and "torch" not in sys.modules
        import jax
        assert len(jax.tree.leaves(next(batches))) == 1  # an array, and not the batch itself
        assert jax.tree.leaves(next(batches))[0].shape == (4,)
    """
    pytest.importorskip("jax")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
