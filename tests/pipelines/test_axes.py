"""reshape and transpose against numpy, of pictures and of other arrays, in batches of one shape and of many."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from keyed_rows import keyed
from pictures import encode, picture

import toolkit
from toolkit import slot
from toolkit.errors import PipelineError, SampleError


@pytest.fixture
def ds(tmp_path: Path, commit_rows: Any) -> toolkit.Dataset:
    pictures = pa.array([encode(picture(seed, 24 + seed, 18)) for seed in range(7)])
    arrays = pa.array([np.arange(6, dtype="<f4").tobytes()] * 7)
    commit_rows(tmp_path / "ds", {"train": [[keyed({"image": pictures, "x": arrays})]]})
    return toolkit.open(tmp_path / "ds")


def batches(ds: toolkit.Dataset, made: toolkit.Slot, size: int = 3) -> list[Any]:
    with ds.loader(toolkit.pipeline(made), batch_size=size, seed=3) as loader:
        return [batch[made.name] for batch in loader]


IMAGE = slot("image").decode_image()
SMALL = IMAGE.random_resized_crop((6, 8)).normalize("imagenet")


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_pictures(ds: toolkit.Dataset, dtype: str) -> None:
    cast = SMALL.cast(dtype).random_erasing(0.9)
    for made, plain in zip(batches(ds, cast.reshape((3, -1))), batches(ds, cast), strict=True):
        assert made.dtype == plain.dtype
        assert np.array_equal(made, plain.reshape(len(plain), 3, 48))
    for made, plain in zip(batches(ds, cast.transpose((2, 0, 1)).reshape(-1)), batches(ds, cast), strict=True):
        assert np.array_equal(made, plain.transpose(0, 3, 1, 2).reshape(len(plain), -1))


def test_pixels(ds: toolkit.Dataset) -> None:
    small = IMAGE.resize((6, 8))
    for made, plain in zip(batches(ds, small.transpose((1, 0, 2))), batches(ds, small), strict=True):
        assert made.dtype == np.uint8
        assert np.array_equal(made, plain.transpose(0, 2, 1, 3))


def test_pictures_of_any_size(ds: toolkit.Dataset) -> None:
    made = IMAGE.reshape((-1, 3)).transpose((1, 0))
    for some, plain in zip(batches(ds, made), batches(ds, IMAGE), strict=True):
        for one, other in zip(some, plain, strict=True):
            assert np.array_equal(one, other.reshape(-1, 3).T)
    with pytest.raises(SampleError, match=r"step reshape.*1296 numbers don't make the shape \(-1, 7\)"):
        batches(ds, IMAGE.reshape((-1, 7)))


def test_other_arrays(ds: toolkit.Dataset) -> None:
    (made,) = batches(ds, slot("x").array("float32", (6,)).reshape((2, 3)).transpose((1, 0)).clamp(1, 4), 7)
    assert np.array_equal(made, np.tile(np.arange(6, dtype=np.float32).reshape(2, 3).T.clip(1, 4), (7, 1, 1)))


def test_missing_pictures_are_filled(tmp_path: Path, commit_rows: Any) -> None:
    pictures = pa.array([encode(picture(1, 24, 18)), None, encode(picture(2, 24, 18))])
    commit_rows(tmp_path / "ds", {"train": [[keyed({"image": pictures})]]})
    ds = toolkit.open(tmp_path / "ds")
    made = slot("image", optional=True, fill=7).decode_image().resize((4, 5)).cast("float32")
    (plain,), (flat,) = batches(ds, made), batches(ds, made.reshape(-1))
    assert np.array_equal(flat, plain.reshape(3, 60))
    assert (flat[1] == 7).all()


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: SMALL.reshape((7, -1)), r"step 4 reshape.*expected a shape of 144 numbers, got \(7, -1\)"),
        (lambda: SMALL.reshape((3, 8)), r"expected a shape of 144 numbers, got \(3, 8\)"),
        (lambda: SMALL.reshape((0, -1)), r"expected a shape of 144 numbers, got \(0, -1\)"),
        (lambda: SMALL.reshape((-1, -1)), "only one size of shape can be -1"),
        (lambda: SMALL.reshape("abc"), "shape must be a tuple of sizes"),
        (lambda: SMALL.reshape((-2,)), "a size of shape must be an int of 0 or more, got -2"),
        (lambda: SMALL.transpose((0, 1)), "expected 2 axes, as many as are named, got 3"),
        (lambda: SMALL.transpose((0, 1, 1)), "axes must name each axis once"),
        (lambda: SMALL.transpose((1, 2, 3)), "axes must name each axis once"),
        (lambda: SMALL.transpose(2), "axes must be the order of the axes"),
        (lambda: slot("x").reshape(3), "expected an array, got a stored value: decode first"),
        (lambda: slot("x").npy().transpose((1, 0)), "expected an array whose number of axes is known"),
    ],
)
def test_refusals(build: Any, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        build()
