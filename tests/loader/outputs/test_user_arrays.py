"""Arrays of every dtype and layout out of user functions: equal values in every output, or an error with the place."""

from __future__ import annotations

import tempfile
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError, SampleError, ToolkitError

NUMBERS = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]
OTHERS = ["g", "O", "U3", "S3", "M8[ns]", "m8[s]", "i4,f4"]
OUTPUTS = ["numpy", "torch", "jax"]
JAX_NARROWS = {"i8": "i4", "u8": "u4", "f8": "f4", "c16": "c8"}


@pytest.fixture(scope="module")
def ds(packed: Path) -> toolkit.Dataset:
    return toolkit.open(packed, split="val", columns=["label"])


@pytest.fixture(autouse=True)
def no_warnings() -> Iterator[None]:
    """torch warns of arrays that it must not share."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def base(dtype: str) -> np.ndarray:
    if dtype in ("U3", "S3"):
        return np.array([["ab", "c"], ["d", "efg"], ["", "h"]], dtype)
    if dtype == "i4,f4":
        return np.zeros((3, 2), dtype)
    return np.array([[0, 1], [1, 0], [100, 5]]).astype("i8" if dtype[0] in "Mm" else dtype).astype(dtype)


class Marked(np.ndarray):
    """A subclass, as user code and other libraries have them."""


def layouts(a: np.ndarray) -> dict[str, np.ndarray]:
    frozen = a.copy()
    frozen.setflags(write=False)
    file = a
    if a.dtype.kind != "O":
        with tempfile.TemporaryFile() as opened:
            file = np.memmap(opened, a.dtype, "w+", shape=a.shape)
            file[...] = a
    packed = np.zeros(a.shape, [("pad", "i1"), ("value", a.dtype)])
    packed["value"] = a
    made = {
        "plain": a,
        "flipped": a[::-1],
        "both axes flipped": a[::-1, ::-1],
        "one row flipped": a[:1][::-1],
        "one number flipped": a[:1, :1][::-1, ::-1],
        "transposed": a.T,
        "strided": np.repeat(a, 3, axis=1)[:, ::3],
        "one for all": np.broadcast_to(a[:1], (4, 2)),
        "one for all, writable": np.lib.stride_tricks.as_strided(a, (4, 2), (0, a.itemsize)),
        "read-only": frozen,
        "read-only and flipped": frozen[:, ::-1],
        "big-endian": a.astype(a.dtype.newbyteorder(">")),
        "big-endian and flipped": a.astype(a.dtype.newbyteorder(">"))[::-1],
        "no axis": a[1, 1:].reshape(()),
        "empty": a[:0],
        "empty and flipped": a[:0][::-1],
        "a subclass": a.view(Marked),
        "masked nowhere": np.ma.masked_array(a),
        "mapped": file,
        "fields": packed["value"],
        "one field": packed[:1]["value"][:, :1],
    }
    if a.dtype.kind != "O":
        room = np.zeros(a.nbytes + 1, np.uint8)
        made["unaligned"] = room[1:].view(a.dtype).reshape(a.shape)
        made["unaligned"][...] = a
    return made


def from_step(value: np.ndarray) -> Any:
    return toolkit.pipeline(slot("label").scalar("int64").python(lambda label: value, "object"))


def from_schema(value: np.ndarray) -> Any:
    schema = (value.dtype.name, tuple(value.shape))
    return toolkit.pipeline(slot("label").scalar("int64").python(lambda label: value, schema))


def from_open_schema(value: np.ndarray) -> Any:
    schema = (value.dtype.name, (None,) * value.ndim)
    return toolkit.pipeline(slot("label").scalar("int64").python(lambda label: value, schema))


def from_list(value: np.ndarray) -> Any:
    return toolkit.pipeline(slot("label"), batch_maps=[lambda columns, rng: {"label": [value]}])


def from_tuple(value: np.ndarray) -> Any:
    return toolkit.pipeline(slot("label"), batch_maps=[lambda columns, rng: {"label": (value,)}])


def from_map(value: np.ndarray) -> Any:
    return toolkit.pipeline(slot("label"), batch_maps=[lambda columns, rng: {"label": value[None]}])


def from_inside(value: np.ndarray) -> Any:
    return toolkit.pipeline(slot("label").scalar("int64").python(lambda label: {"a": [(value, "x")]}, "object"))


PLACES: dict[str, Callable[[np.ndarray], Any]] = {
    "step": from_step,
    "step with schema": from_schema,
    "step with open schema": from_open_schema,
    "list": from_list,
    "tuple": from_tuple,
    "map": from_map,
    "inside": from_inside,
}


def delivered(ds: toolkit.Dataset, place: str, value: np.ndarray, output: str) -> Any:
    with ds.loader(PLACES[place](value), batch_size=1, threads=1, output=output) as loader:
        made = next(iter(loader))["label"][0]
    return made["a"][0][0] if place == "inside" else made


def kind_of(output: str) -> type:
    if output == "numpy":
        return np.ndarray
    if output == "torch":
        return pytest.importorskip("torch").Tensor
    return pytest.importorskip("jax").Array


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("place", PLACES)
def test_numbers_of_any_layout_arrive(ds: toolkit.Dataset, place: str, output: str) -> None:
    kind = kind_of(output)
    for dtype in [dtype for dtype in NUMBERS if dtype[0] != "c" or "schema" not in place]:
        for name, value in layouts(base(dtype)).items():
            expected = np.array(value, np.dtype(dtype))  # another array, native, in C order
            made = delivered(ds, place, value, output)
            case = f"{dtype}, {name}"
            if not isinstance(made, np.generic):  # a number of an array (1,)
                assert isinstance(made, kind), case
            found = np.asarray(made)
            wanted = JAX_NARROWS.get(dtype, dtype) if output == "jax" else dtype
            if place != "inside" or output != "numpy":  # what lies inside objects is numpy's own, as it was made
                assert found.dtype == np.dtype(wanted), case
            assert found.shape == expected.shape, case
            assert np.array_equal(found, expected), case
            if output == "torch":
                made.fill_(1)  # its memory is its own, all of it
                assert value.flags.writeable or np.array_equal(value, expected), case
            elif output == "numpy" and place != "inside" and isinstance(made, np.ndarray):
                assert made.flags.writeable, case
                assert type(made) is np.ndarray, case
    assert len(layouts(base("f4"))) > 20


@pytest.mark.parametrize("output", ["torch", "jax"])
@pytest.mark.parametrize("place", ["step", "list", "map", "inside"])
def test_what_a_framework_has_not_names_its_place(ds: toolkit.Dataset, place: str, output: str) -> None:
    kind_of(output)
    for dtype in OTHERS:
        for name, value in layouts(base(dtype)).items():
            with pytest.raises(ToolkitError) as caught:
                delivered(ds, place, value, output)
            error, case = caught.value, f"{dtype}, {name}: {caught.value}"
            assert f"dataset {ds.root}" in str(error), case
            assert "'label'" in str(error), case
            assert "has no " in str(error), case
            assert "give " in str(error), case
            if place in ("step", "inside"):
                assert isinstance(error, SampleError), case
                assert (error.row, error.key, error.slot) == (0, "val/ant/0000.jpg", "label"), case
                assert error.step.startswith("python("), case
            else:
                assert isinstance(error, LoaderError), case
                assert "positions 0..0, batch maps <lambda>" in str(error), case


@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("place", ["step", "step with open schema", "step with schema", "list", "map"])
def test_masked_numbers_are_refused(ds: toolkit.Dataset, place: str, output: str) -> None:
    kind_of(output)
    value = np.ma.masked_array(np.arange(6, dtype=np.int32).reshape(3, 2), mask=[[0, 1], [0, 0], [1, 0]])
    with pytest.raises(ToolkitError, match=r"2 of 6 values are masked.*\.filled\(value\)") as caught:
        delivered(ds, place, value, output)
    assert "label" in str(caught.value)
    assert ("key 'val/ant/0000.jpg'" if place.startswith("step") else "positions 0..0") in str(caught.value)


def test_the_sample_is_named_and_not_only_its_batch(ds: toolkit.Dataset) -> None:
    pytest.importorskip("torch")
    odd = toolkit.pipeline(
        slot("label").scalar("int64").python(lambda label: np.array("x" if label == 2 else 1.0), "object")
    )
    loader = ds.loader(odd, batch_size=7, threads=2, output="torch")
    with pytest.raises(SampleError, match=r"key 'val/cat/0000.jpg', slot 'label', step python.*torch has no <U1"):
        list(loader)


@pytest.mark.parametrize("output", OUTPUTS)
def test_columns_that_are_none(ds: toolkit.Dataset, output: str) -> None:
    kind_of(output)
    for wrong in ("abcdefghij" * 2, b"ab" * 10, dict.fromkeys(range(20)), set(range(20)), None, 3, iter([1] * 20)):
        made = toolkit.pipeline(slot("label"), batch_maps=[lambda columns, rng, wrong=wrong: {"label": wrong}])
        with pytest.raises(LoaderError, match=r"positions 0..19, batch map .*'label'"):
            list(ds.loader(made, batch_size=20, output=output))


@pytest.mark.parametrize("output", OUTPUTS)
def test_objects_that_are_no_arrays_stay_what_they_are(ds: toolkit.Dataset, output: str) -> None:
    kind = kind_of(output)
    pair = namedtuple("pair", ["a", "b"])
    objects = [None, "text", b"bytes", 3, (1, 2), {"a": [None]}, pair(1, "x"), [1.5], {1, 2}]
    for value in objects:
        made = toolkit.pipeline(slot("label").scalar("int64").python(lambda label, value=value: value, "object"))
        batch = next(iter(ds.loader(made, batch_size=3, output=output)))
        assert batch["label"] == [value] * 3
        assert type(batch["label"][0]) is type(value)
    made = toolkit.pipeline(slot("label").scalar("int64").python(lambda label: pair(np.ones(2, "f4"), "x"), "object"))
    value = next(iter(ds.loader(made, batch_size=3, output=output)))["label"][2]
    assert type(value) is pair
    assert isinstance(value.a, kind)


@pytest.mark.parametrize("value", [1e300, -1e300, 4e38, 1e300 + 0j, complex(0, -1e300)])
@pytest.mark.parametrize("place", ["step", "list", "map"])
def test_jax_makes_no_number_infinite(ds: toolkit.Dataset, place: str, value: complex) -> None:
    jax = pytest.importorskip("jax")
    array = np.array([1.0, np.inf, value, np.nan], np.complex128 if isinstance(value, complex) else np.float64)
    with pytest.raises(ToolkitError, match=r"label.* is no (float32|complex64), which JAX.*jax_enable_x64") as caught:
        delivered(ds, place, array, "jax")
    assert f"dataset {ds.root}" in str(caught.value)
    fine = np.array([1.0, np.inf, -np.inf, 3e38, 1e-300, np.nan])
    made = delivered(ds, place, fine, "jax")
    np.testing.assert_array_equal(np.asarray(made), fine.astype(np.float32))
    with jax.enable_x64(True):
        assert np.asarray(delivered(ds, place, array, "jax")).dtype == array.dtype
