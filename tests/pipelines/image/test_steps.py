"""Every step, and any mix of them, against PIL step by step; randomness against pure Python."""

from __future__ import annotations

from typing import Any

import image_steps as steps
import image_steps_oracle as oracle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_slots import MODES, compiled
from pictures import picture
from PIL import Image, ImageEnhance
from pillow_resample import STOCK_PILLOW

from toolkit._native.image.program import Scratch


def image_of(mode: str, width: int, height: int, seed: int = 0) -> Image.Image:
    made = picture(seed, width, height)
    if mode == "RGBA":
        made.putalpha(picture(seed + 1, width, height).convert("L"))
        return made
    return made.convert(mode)


def check(chain: list[Any], mode: str, width: int, height: int, key: int = 0) -> None:
    image = image_of(mode, width, height, key % 1000)
    pixels = np.asarray(image)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    made = compiled(*chain, mode=mode).apply(np.ascontiguousarray(pixels), Scratch(), key)
    expected = oracle.apply(image, chain, key)
    assert made.shape == expected.shape
    assert np.array_equal(made, expected)


FILTERS = list(steps.Filter)
SIZES = [(64, 48), (33, 70), (7, 5), (1, 1)]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filter", FILTERS)
def test_resize(filter: steps.Filter, mode: str) -> None:
    for width, height in SIZES:
        for to_height, to_width in ((20, 31), (48, 20), (90, 64), (1, 1), (3, 200)):
            check([steps.Resize(to_height, to_width, filter)], mode, width, height)
        check([steps.ResizeShort(24, filter)], mode, width, height)
        check([steps.ResizeLong(24, filter)], mode, width, height)
        check([steps.ResizeLong(100, filter)], mode, width, height)


@pytest.mark.parametrize("filter", FILTERS)
def test_flips_and_crops_before_a_resize(filter: steps.Filter) -> None:
    flips: list[list[Any]] = [[steps.HFlip(1.0)], [steps.VFlip(1.0)], [steps.HFlip(1.0), steps.VFlip(1.0)]]
    for flip in flips:
        for width, height in SIZES:
            for size in ((20, 31), (77, 90), (48, 13)):
                check([*flip, steps.Resize(*size, filter)], "RGB", width, height)
                check([*flip, steps.Resize(*size, filter), steps.Crop(3, 5, 9, 8)], "RGB", width, height)
        check([steps.Crop(2, 3, 30, 40), *flip, steps.Resize(20, 20, filter), *flip], "RGB", 64, 48)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "chain",
    [
        [steps.Crop(5, 7, 20, 30)],
        [steps.Crop(-5, -7, 90, 90)],
        [steps.Crop(1000, 0, 20, 20)],
        [steps.Crop(-1000, -1000, 20, 20), steps.Pad(1, 2, 3, 4, 9)],
        [steps.CenterCrop(20, 31)],
        [steps.CenterCrop(100, 31), steps.HFlip(1.0)],
        [steps.Pad(1, 2, 3, 4, 200)],
        [steps.Pad(1, 2, 3, 4, 200), steps.CenterCrop(90, 10)],
        [steps.Pad(9, 2, 3, 4, 200), steps.Crop(-2, -2, 30, 30), steps.Pad(1, 1, 1, 1, 7)],
        [steps.Crop(2, 2, 10, 10), steps.Pad(5, 5, 5, 5, 0), steps.Resize(30, 30, steps.Filter.BICUBIC)],
        [steps.Pad(5, 5, 5, 5, 90), steps.VFlip(1.0), steps.Crop(0, 0, 12, 12)],
        [steps.Grayscale(1)],
        [steps.Grayscale(3), steps.CenterCrop(80, 20)],
        [steps.Grayscale(3), steps.Resize(20, 20, steps.Filter.LANCZOS)],
    ],
)
def test_places(chain: list[Any], mode: str) -> None:
    for width, height in SIZES:
        check(chain, mode, width, height)


@pytest.mark.parametrize("mode", MODES)
def test_random_steps(mode: str) -> None:
    chains: list[list[Any]] = [
        [steps.RandomCrop(20, 31)],
        [steps.RandomCrop(60, 31), steps.HFlip(0.5), steps.VFlip(0.5)],
        [steps.RandomResizedCrop(24, 20, (0.08, 1.0), (3 / 4, 4 / 3), steps.Filter.BILINEAR), steps.HFlip(0.5)],
        [steps.RandomResizedCrop(24, 20, (0.9, 1.0), (3.0, 4.0), steps.Filter.BICUBIC)],
        [steps.HFlip(0.5), steps.RandomCrop(30, 30), steps.HFlip(0.5), steps.RandomCrop(10, 10)],
    ]
    rng = np.random.default_rng(5)
    for chain in chains:
        for width, height in SIZES:
            for key in rng.integers(0, 2**64, 6, np.uint64).tolist():
                check(chain, mode, width, height, key)


JITTER = steps.ColorJitter((0.4, 1.6), (0.4, 1.6), (0.0, 2.0), (-0.5, 0.5))


@pytest.mark.parametrize("mode", MODES)
def test_color_jitter(mode: str) -> None:
    parts = [
        steps.ColorJitter((0.0, 3.0), None, None, None),
        steps.ColorJitter(None, (0.0, 3.0), None, None),
        steps.ColorJitter(None, None, (0.0, 3.0), None),
        steps.ColorJitter(None, None, None, (-0.5, 0.5)),
        JITTER,
    ]
    rng = np.random.default_rng(6)
    for part in parts:
        for key in rng.integers(0, 2**64, 12, np.uint64).tolist():
            check([part], mode, 40, 30, key)
    for key in rng.integers(0, 2**64, 12, np.uint64).tolist():
        check([JITTER, steps.HFlip(0.5), JITTER, steps.CenterCrop(40, 20)], mode, 40, 30, key)


@pytest.mark.parametrize("mode", MODES)
def test_the_oracle_is_image_enhance(mode: str) -> None:
    image = image_of(mode, 60, 50)
    for factor in (0.0, 0.3, 1.0, 1.7):
        alone = (factor, factor)
        for chain, enhancement in [
            ([steps.ColorJitter(alone, None, None, None)], ImageEnhance.Brightness),
            ([steps.ColorJitter(None, alone, None, None)], ImageEnhance.Contrast),
            ([steps.ColorJitter(None, None, alone, None)], ImageEnhance.Color),
        ]:
            expected = np.asarray(enhancement(image).enhance(factor), np.int16)
            made = oracle.apply(image, chain).astype(np.int16)
            assert np.abs(made.reshape(expected.shape) - expected).max() <= (0 if STOCK_PILLOW else 2)


def test_all_permutations_of_a_jitter_occur() -> None:
    found = {int(oracle.Draws(key, JITTER, 0)[4] * 24) for key in range(300)}
    assert found == set(range(24))
    for key in range(0, 300, 3):
        check([JITTER], "RGB", 6, 5, key)


def test_hue_of_every_colour() -> None:
    levels = np.arange(0, 256, 5, dtype=np.uint8)
    colours = np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(len(levels), -1, 3)
    for factor in (-0.5, -0.1, 0.0, 0.21, 0.5):
        chain = [steps.ColorJitter(None, None, None, (factor, factor))]
        made = compiled(*chain).apply(np.ascontiguousarray(colours), Scratch(), 1)
        assert np.array_equal(made, np.asarray(oracle.turn_hue(Image.fromarray(colours), factor)))


sides = st.integers(1, 60)
filters = st.sampled_from(FILTERS)
chances = st.sampled_from([0.0, 0.5, 1.0])
ranges = st.sampled_from([None, (0.5, 1.5), (0.0, 0.0), (1.0, 1.0)])
factors = st.sampled_from([0.0, 0.4, 1.0, 1.9, (0.1, 1.9)])
OF_COLOURS = (steps.Grayscale, steps.ChannelShuffle, steps.ChannelDrop, steps.ColorTemperature)
any_step = st.one_of(
    st.builds(steps.Resize, sides, sides, filters),
    st.builds(steps.ResizeShort, sides, filters),
    st.builds(steps.ResizeLong, sides, filters),
    st.builds(steps.Cover, sides, sides, filters),
    st.builds(steps.Contain, sides, sides, st.booleans(), st.integers(0, 255), filters),
    st.builds(steps.Thumbnail, sides, sides, filters),
    st.builds(steps.ScaleJitter, sides, sides, st.sampled_from([(0.1, 2.0), (0.01, 1.0), (1.0, 1.0)]), filters),
    st.builds(steps.Crop, st.integers(-20, 40), st.integers(-20, 40), sides, sides),
    st.builds(steps.CenterCrop, sides, sides),
    st.builds(steps.RandomCrop, sides, sides),
    st.builds(steps.RandomResizedCrop, sides, sides, st.just((0.1, 1.0)), st.just((0.5, 2.0)), filters),
    st.builds(steps.Pad, *[st.integers(0, 9)] * 4, st.integers(0, 255)),
    st.builds(steps.HFlip, chances),
    st.builds(steps.VFlip, chances),
    st.builds(steps.ColorJitter, ranges, ranges, ranges, st.sampled_from([None, (-0.5, 0.5)])),
    st.builds(steps.Sharpness, factors, st.booleans(), chances),
    st.builds(steps.ShearX, st.just((-0.4, 0.4)), st.booleans(), fill=st.integers(0, 255)),
    st.builds(steps.TranslateY, st.just((-0.6, 0.6)), st.just(steps.Unit.FRACTION), fill=st.integers(0, 255)),
    st.builds(steps.Rotate, st.sampled_from([(-180.0, 180.0), (90.0, 90.0)]), expand=st.booleans()),
    st.builds(steps.Grayscale, st.just(3), chances),
    st.builds(steps.Brightness, factors, st.booleans(), chances),
    st.builds(steps.Contrast, factors, st.booleans(), chances),
    st.builds(steps.Saturation, factors, st.booleans(), chances),
    st.builds(steps.Posterize, st.sampled_from([1, 3, 8, (1, 8)]), chances),
    st.builds(steps.Solarize, st.sampled_from([0.0, 99.5, 128.0, 256.0, (0.0, 256.0)]), chances),
    st.builds(steps.SolarizeAdd, st.sampled_from([-40, 110, (0, 110)]), st.sampled_from([0.0, 128.0, 256.0]), chances),
    st.builds(steps.Invert, chances),
    st.builds(steps.Equalize, chances),
    st.builds(steps.Gamma, st.sampled_from([0.0, 2.2, (0.5, 2.0)]), st.sampled_from([0.8, 1.0, 1.5]), chances),
    st.builds(steps.Lut, st.sampled_from([tuple(range(0, 256))[::-1]]), chances),
    st.builds(steps.ChannelShuffle, chances),
    st.builds(steps.ChannelDrop, st.sampled_from([1, 2, (1, 2)]), st.sampled_from([0, 99]), chances),
    st.builds(steps.ColorTemperature, st.sampled_from([1000.0, 5000.0, (1000.0, 40000.0)]), chances),
    st.builds(steps.Autocontrast, st.sampled_from([(0.0, 0.0), (5.0, 20.0)]), chances),
)


@settings(max_examples=250, deadline=None)
@given(
    chain=st.lists(any_step, max_size=6),
    mode=st.sampled_from(["RGB", "L", "RGBA"]),
    width=sides,
    height=sides,
    key=st.integers(0, 2**64 - 1),
)
def test_any_mix_of_steps(chain: list[Any], mode: str, width: int, height: int, key: int) -> None:
    if mode != "RGB":
        chain = [step for step in chain if not isinstance(step, OF_COLOURS)]
    check(chain, mode, width, height, key)
