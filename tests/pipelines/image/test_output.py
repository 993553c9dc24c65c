"""What finished pixels are written as: every layout, dtype and number of channels, against numpy."""

from __future__ import annotations

from typing import Any

import image_steps as steps
import numpy as np
import pytest
from image_slots import compiled, run_batch
from pictures import encode, picture

from toolkit._native.image.program import Scratch

PIXELS = np.array(picture(1, 75, 61).convert("RGBA"))
PIXELS[:, :, 3] = np.asarray(picture(2, 75, 61).convert("L"))
CHANNELS = {"L": 1, "RGB": 3, "RGBA": 4}
WHOLE = ["uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]
CHW = steps.ToChw()
HWC = steps.ToHwc()


def pixels(mode: str) -> np.ndarray:
    return np.ascontiguousarray(PIXELS[:, :, : CHANNELS[mode]])


def made(mode: str, *chain: Any) -> np.ndarray:
    image = compiled(*chain, mode=mode)
    result = image.apply(pixels(mode), Scratch())
    assert result.dtype == image.dtype
    if image.logical_dtype != "bfloat16":
        assert image.dtype == np.dtype(image.logical_dtype)
    return result


def bfloat16(values: np.ndarray) -> np.ndarray:
    """Round float32 to the nearest 16-bit prefix, halves to even: in float64, where that is exact."""
    bits = values.astype(np.float32).view(np.uint32).astype(np.int64)
    low = bits & 0xFFFF
    up = (low > 0x8000) | ((low == 0x8000) & (bits >> 16 & 1 == 1))
    return ((bits >> 16) + up).astype(np.uint16)


@pytest.mark.parametrize("mode", CHANNELS)
@pytest.mark.parametrize("layout", [HWC, CHW])
@pytest.mark.parametrize("dtype", [*WHOLE, *FLOATS])
def test_cast_of_pixels(dtype: str, layout: steps.ImageStep, mode: str) -> None:
    expected = pixels(mode).astype(dtype)
    expected = expected.transpose(2, 0, 1) if layout is CHW else expected
    assert np.array_equal(made(mode, steps.Cast(dtype), layout), expected)
    assert np.array_equal(made(mode, layout, steps.Cast(dtype)), expected)


@pytest.mark.parametrize("layout", [HWC, CHW])
def test_bfloat16(layout: steps.ImageStep) -> None:
    as_floats = made("RGB", steps.Cast("float32"), layout)
    assert np.array_equal(made("RGB", steps.Cast("bfloat16"), layout), bfloat16(as_floats))
    normalize = steps.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    as_floats = made("RGB", normalize, layout)
    assert np.array_equal(made("RGB", normalize, steps.Cast("bfloat16"), layout), bfloat16(as_floats))
    assert compiled(steps.Cast("bfloat16")).logical_dtype == "bfloat16"
    assert compiled(steps.Cast("bfloat16")).dtype == np.uint16


@pytest.mark.parametrize("mode", CHANNELS)
def test_normalize(mode: str) -> None:
    count = CHANNELS[mode]
    mean, std = (0.485, 0.456, 0.406, 0.5)[:count], (0.229, 0.224, 0.225, 0.25)[:count]
    normalize = steps.Normalize(mean, std)
    image = made(mode, normalize)
    exact = (pixels(mode).astype(np.float64) / 255 - mean) / std
    assert image.dtype == np.float32
    assert np.abs(image - exact.transpose(2, 0, 1)).max() < 1e-6
    assert np.array_equal(made(mode, normalize, HWC), image.transpose(1, 2, 0))
    for dtype in FLOATS:
        assert np.array_equal(made(mode, normalize, steps.Cast(dtype)), image.astype(dtype))
        assert np.array_equal(made(mode, normalize, steps.Cast(dtype), HWC), image.astype(dtype).transpose(1, 2, 0))


@pytest.mark.parametrize("spread", [1e-8, 1e-6, 1e-5, 1.0, 300.0, 1e4])
def test_float16_of_any_size(spread: float) -> None:
    normalize = steps.Normalize((0.3, 0.5, 0.6), (1 / (255 * spread),) * 3)
    as_floats = made("RGB", normalize)
    with np.errstate(over="ignore"):
        expected = as_floats.astype(np.float16)
    assert np.array_equal(made("RGB", normalize, steps.Cast("float16")), expected)


def test_whole_numbers_of_normalized_values_are_cut_and_stay_in_range() -> None:
    normalize = steps.Normalize((0.5, 0.5, 0.5), (1e-6, 1e-3, 1.0))
    as_floats = made("RGB", normalize).astype(np.float64)
    for dtype in WHOLE:
        limits = np.iinfo(dtype)
        result = made("RGB", normalize, steps.Cast(dtype)).astype(np.float64)
        assert np.array_equal(result, np.trunc(np.clip(as_floats, float(limits.min), float(limits.max))))


def test_shapes() -> None:
    assert compiled(steps.CenterCrop(5, 7)).shape == (5, 7, 3)
    assert compiled(steps.CenterCrop(5, 7), CHW).shape == (3, 5, 7)
    assert compiled(steps.CenterCrop(5, 7), steps.Pad(1, 2, 3, 4, 0), mode="L").shape == (9, 13, 1)
    assert compiled(steps.CenterCrop(5, 7), steps.Grayscale(1), CHW).shape == (1, 5, 7)
    assert compiled(steps.Resize(10, 30, steps.Filter.NEAREST), steps.ResizeShort(20, steps.Filter.NEAREST)).shape == (
        20,
        60,
        3,
    )
    assert compiled(steps.Resize(10, 30, steps.Filter.NEAREST), steps.ResizeLong(20, steps.Filter.NEAREST)).shape == (
        6,
        20,
        3,
    )
    assert compiled(steps.ResizeShort(20, steps.Filter.NEAREST)).shape is None
    assert compiled(steps.HFlip(0.5)).random
    assert not compiled(steps.CenterCrop(5, 7)).random


NORMALIZE = steps.Normalize((0.5,) * 3, (0.5,) * 3)


@pytest.mark.parametrize(
    "chain",
    [
        [NORMALIZE, steps.CenterCrop(5, 5)],
        [steps.Cast("float32"), steps.HFlip(0.5)],
        [CHW, NORMALIZE],
        [NORMALIZE, NORMALIZE],
        [steps.Cast("int8")],
        [steps.Normalize((0.5,), (0.5,))],
        [steps.Normalize((0.5,) * 3, (0.0,) * 3)],
    ],
)
def test_orders_that_make_no_sense(chain: list[Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the texts differ
        compiled(*chain)


def test_every_step_has_a_kernel() -> None:
    image = compiled(steps.ResizeShort(9, steps.Filter.LANCZOS), steps.HFlip(0.5), steps.Grayscale(3), NORMALIZE)
    assert [place for place, _ in image.kernels()] == [0, 1, 2, 3, 4]
    assert "libjpeg-turbo" in image.kernels()[0][1]
    assert "lanczos" in image.kernels()[1][1]


def test_batches_draw_from_their_keys_alone() -> None:
    chain = [steps.RandomResizedCrop(32, 32, (0.1, 1.0), (0.7, 1.4), steps.Filter.BILINEAR), steps.HFlip(0.5)]
    image = compiled(*chain)
    encoded = [encode(picture(i, 90 + i, 70)) for i in range(6)] + [encode(picture(9, 60, 70), "PNG")]
    keys = np.random.default_rng(1).integers(0, 2**64, len(encoded), np.uint64)
    together, failures = run_batch(image, encoded, keys)
    assert not failures
    order = np.array([3, 6, 0, 5, 1, 4, 2])
    shuffled, _ = run_batch(image, [encoded[i] for i in order], keys[order])
    assert np.array_equal(shuffled, together[order])
    for i, one in enumerate(encoded):
        assert np.array_equal(image.decode(one, Scratch(), int(keys[i])), together[i])
    other, _ = run_batch(image, encoded, keys + np.uint64(1))
    assert not np.array_equal(other, together)


def test_raw_pictures() -> None:
    image = compiled(steps.ResizeShort(40, steps.Filter.BILINEAR), steps.CenterCrop(32, 32), NORMALIZE)
    plain, gray = compiled(steps.CenterCrop(50, 60)), compiled(steps.CenterCrop(50, 60), mode="L")
    pictures = [np.asarray(picture(i, 80 + i, 60)) for i in range(3)]
    pictures += [np.asarray(picture(5, 90, 70).convert("L"))[:, :, None], PIXELS]
    held = [np.ascontiguousarray(one) for one in pictures]
    addresses = np.array([one.ctypes.data for one in held], np.uint64)
    sizes = np.array([one.shape for one in held], np.int64)
    for one in (image, plain, gray):
        out = np.zeros((len(held), *one.shape), one.dtype)
        assert one.run_raw(addresses, sizes, out, Scratch()) == []
        for place, stored in zip(out, held, strict=True):
            assert np.array_equal(place, one.apply(stored, Scratch()))
    assert np.array_equal(plain.apply(held[0], Scratch()), held[0][5:55, 10:70])
    limited = compiled(steps.CenterCrop(5, 5), max_pixels=80 * 60)
    failures = limited.run_raw(addresses, sizes, np.zeros((len(held), 5, 5, 3), np.uint8), Scratch())
    assert [failure.index for failure in failures] == [1, 2, 3]
    assert "max_pixels" in failures[0].message
