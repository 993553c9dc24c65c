"""normalize_batch() equals the normalize() of slots, and numpy where that takes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toolkit
from toolkit import slot
from toolkit.errors import LoaderError, PipelineError

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture
def photos(dataset: Path) -> toolkit.Dataset:
    return toolkit.open(dataset, split="train")


def load(photos: toolkit.Dataset, made: toolkit.Slot, *steps: Any, **options: Any) -> list[Any]:
    pipeline = toolkit.pipeline(made, batch_maps=list(steps))
    return [
        (batch["image"].copy(), batch.mask)
        for batch in photos.loader(pipeline, batch_size=8, remainder="pad", output="numpy", **options)
    ]


def resized() -> toolkit.Slot:
    return slot("image").decode_image().resize((37, 20))


@pytest.mark.parametrize("given", [("imagenet",), (MEAN, STD), ("half",)])
@pytest.mark.parametrize("axes", ["hwc", "chw"])
def test_uint8_becomes_what_a_slot_makes_of_it(photos: toolkit.Dataset, given: Any, axes: str) -> None:
    made = resized() if axes == "hwc" else resized().to_chw()
    got = load(photos, made, toolkit.normalize_batch(*given))
    wanted = load(photos, resized().normalize(*given))
    assert not got[-1][1].all()  # padding stays 0
    for (values, mask), (own, _) in zip(got, wanted, strict=True):
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values if axes == "chw" else values.transpose(0, 3, 1, 2), own)
        assert not values[~mask].any()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_shifted_as_they_are(photos: toolkit.Dataset, dtype: str) -> None:
    made = resized().cast(dtype)
    real = np.float64 if dtype == "float64" else np.float32
    step = toolkit.normalize_batch((100, 110, 120), (50, 60, 70))
    for (values, mask), (own, _) in zip(load(photos, made, step), load(photos, made), strict=True):
        shifted = (own.astype(real) - np.array([100, 110, 120], real)) / np.array([50, 60, 70], real)
        shifted[~mask] = 0
        np.testing.assert_array_equal(values, shifted.astype(dtype))


def test_uint8_is_mixed_before(photos: toolkit.Dataset) -> None:
    mix = toolkit.cutmix(1.0)
    got = load(photos, resized().to_chw(), mix, toolkit.normalize_batch("imagenet"), seed=3, shuffle="full")
    wanted = load(photos, resized().normalize("imagenet"), mix, seed=3, shuffle="full")
    for (values, _), (own, _) in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(values, own)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("imagnet",), "batch step normalize_batch: no statistics are called 'imagnet'.*Did you mean 'imagenet'"),
        ((MEAN,), r"means need a std: normalize_batch\(mean, std\)"),
        ((MEAN, (0.2,)), "mean has 3 values and std 1"),
        ((MEAN, (0.2, 0, 0.2)), "must be positive"),
        (("half", STD), "'half' brings its own std"),
        (((float("nan"),), (1,)), "mean must be a finite number, got nan"),
    ],
)
def test_what_can_not_be_is_refused_when_it_is_written(given: Any, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        toolkit.normalize_batch(*given)


def test_what_does_not_fit(photos: toolkit.Dataset) -> None:
    step = toolkit.normalize_batch("imagenet")
    with pytest.raises(PipelineError, match="expected arrays of one shape in column 'image'"):
        load(photos, slot("image").decode_image(), step)
    with pytest.raises(PipelineError, match=r"expected uint8, float16.* in column 'image', got a int32"):
        load(photos, resized().cast("int32"), step)
    with pytest.raises(PipelineError, match="expected 3 channels in column 'image'"):
        load(photos, slot("image").decode_image(mode="gray").resize((8, 8)), step)
    with pytest.raises(PipelineError, match="expected a column 'mask'"):
        load(photos, resized(), toolkit.normalize_batch("half", columns="mask"))
    with pytest.raises(LoaderError, match="which axis the channels are isn't known"):
        load(photos, resized(), toolkit.batch_map(lambda batch, rng: batch), step)


def test_it_reads_as_it_is_written() -> None:
    for step in (
        toolkit.normalize_batch("imagenet", columns=["image", "small"]),
        toolkit.normalize_batch((0.1, 0.2, 0.3), (1, 2, 3)),
    ):
        assert eval(f"toolkit.{step!r}") == step
    assert repr(toolkit.normalize_batch(MEAN, STD)) == 'normalize_batch("imagenet")'
