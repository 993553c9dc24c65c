"""cover, contain, thumbnail and scale_jitter against PIL itself, and what is known of their sizes before a picture."""

from __future__ import annotations

from typing import Any

import image_steps as steps
import image_steps_oracle as oracle
import numpy as np
import pytest
from image_slots import MODES, compiled, decode
from pictures import encode, picture
from PIL import Image, ImageOps
from pillow_resample import STOCK_PILLOW
from scipy.stats import kstest

from toolkit import slot
from toolkit._native.image.program import ImageError, Scratch
from toolkit.pipelines.randomness import draw, fold, sample_keys, step_id

FILTERS = list(steps.Filter)
SOURCES = [(64, 48), (33, 70), (50, 50), (7, 5), (1, 1), (91, 2)]
SIZES = [(20, 31), (31, 20), (24, 24), (80, 64), (1, 3), (3, 200)]
LEVELS = 0 if STOCK_PILLOW else 2


def made_of(image: Image.Image, *chain: Any, mode: str = "RGB", key: int = 0) -> np.ndarray:
    pixels = np.asarray(image)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    return compiled(*chain, mode=mode).apply(np.ascontiguousarray(pixels), Scratch(), key)


def near(made: np.ndarray, image: Image.Image) -> bool:
    """Pillow 13 makes the vertical pass first where that is less work, and Pillow-SIMD has rounding of its own."""
    expected = np.asarray(image).reshape(made.shape).astype(int)
    return made.shape == expected.shape and bool(np.abs(made - expected).max() <= LEVELS)


@pytest.mark.parametrize("filter", FILTERS)
def test_they_are_pils(filter: steps.Filter) -> None:
    method = Image.Resampling[filter.name]
    for seed, (width, height) in enumerate(SOURCES):
        image = picture(seed, width, height)
        for high, wide in SIZES:
            fitted = made_of(image, steps.Cover(high, wide, filter))
            assert near(fitted, ImageOps.fit(image, (wide, high), method)), (width, height, high, wide)
            if round(high * width / height) and round(wide * height / width):
                contained = ImageOps.contain(image, (wide, high), method)
                assert near(made_of(image, steps.Contain(high, wide, False, 0, filter)), contained)
                padded = ImageOps.pad(image, (wide, high), method, color=(9, 9, 9))
                assert near(made_of(image, steps.Contain(high, wide, True, 9, filter)), padded)
            small = image.copy()
            small.thumbnail((wide, high), method, reducing_gap=None)
            assert near(made_of(image, steps.Thumbnail(high, wide, filter)), small)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("filter", FILTERS)
def test_mixed_with_other_steps(filter: steps.Filter, mode: str) -> None:
    chains: list[list[Any]] = [
        [steps.HFlip(1.0), steps.Cover(20, 31, filter), steps.VFlip(1.0)],
        [steps.VFlip(1.0), steps.HFlip(1.0), steps.Cover(31, 20, filter), steps.Crop(3, 2, 9, 8)],
        [steps.Crop(3, 5, 30, 41), steps.Cover(30, 30, filter), steps.CenterCrop(12, 40)],
        [steps.Pad(3, 5, 7, 9, 200), steps.Cover(17, 30, filter)],
        [steps.Cover(30, 30, filter), steps.Cover(20, 31, filter)],
        [steps.HFlip(1.0), steps.Contain(31, 20, True, 77, filter), steps.Crop(-2, -2, 40, 20)],
        [steps.Contain(31, 20, False, 0, filter), steps.Contain(20, 31, True, 5, filter), steps.HFlip(1.0)],
        [steps.Thumbnail(31, 20, filter), steps.Thumbnail(8, 8, filter)],
        [steps.ScaleJitter(30, 20, (0.1, 2.0), filter), steps.HFlip(0.5), steps.RandomCrop(16, 16)],
    ]
    for chain in chains:
        for width, height in SOURCES:
            image = picture(3, width, height).convert(mode)
            for key in (1, 2, 3) if len(chain) == 3 else (0,):
                expected = oracle.apply(image, chain, key)
                made = made_of(image, *chain, mode=mode, key=key)
                assert made.shape == expected.shape
                assert np.array_equal(made, expected), (chain, width, height)


def test_of_a_jpeg_only_what_is_needed_is_decoded_alike() -> None:
    image = picture(5, 301, 200)
    for orientation in (1, 3, 6):
        exif = Image.Exif()
        exif[0x0112] = orientation
        encoded = encode(image, exif=exif.tobytes())
        whole = Image.fromarray(decode(encoded))
        for chain in (
            [steps.Cover(64, 64, steps.Filter.BILINEAR)],
            [steps.Contain(64, 64, True, 1, steps.Filter.BICUBIC)],
        ):
            assert np.array_equal(decode(encoded, *chain), oracle.apply(whole, chain))
        fast = decode(encoded, steps.Cover(24, 24, steps.Filter.BILINEAR), accuracy=steps.Accuracy.FAST)
        exact = decode(encoded, steps.Cover(24, 24, steps.Filter.BILINEAR))
        assert ((fast.astype(float) - exact) ** 2).mean() < 255**2 / 10**4  # 40 dB


@pytest.mark.parametrize("most", [(20, 31), (31, 20), (1, 60), (500, 7)])
def test_sizes_are_known_as_soon_as_the_pictures_is(most: tuple[int, int]) -> None:
    for width, height in [*SOURCES, (640, 480), (37, 1000), (999, 998)]:
        known = slot("x").decode_image().crop(0, 0, height, width)
        for one in (known.contain(most, pad=False), known.thumbnail(most), known.contain(most), known.cover(most)):
            made = compiled(*one.steps[1:])
            assert made.shape == _after(one.steps) == made.apply(np.zeros((4, 4, 3), np.uint8), Scratch()).shape
    assert _after(slot("x").decode_image().resize((30, 20)).scale_jitter(8).steps) is None


def _after(chain: Any) -> tuple[int, ...] | None:
    from toolkit.pipelines.state import State, ValueKind

    state = State(ValueKind.STORED)
    for step in chain:
        state = step.after(state)
    return state.fixed_shape


def test_scale_jitter_draws_what_it_says() -> None:
    keys = sample_keys(1, 0, "", np.arange(3000, dtype=np.int64)).tolist()
    step = steps.ScaleJitter(4000, 4000, (0.1, 2.0), steps.Filter.NEAREST)
    image = compiled(step, max_pixels=1 << 27)
    sizes = [image._program.result_size(500, 1000, key) for key in keys]
    scales = np.array([width for _, width in sizes]) / 4000
    assert kstest(scales, "uniform", (0.1, 1.9)).pvalue > 1e-3
    drawn = [0.1 + draw(fold(key, step_id("ScaleJitter#0")), 0) * 1.9 for key in keys]
    assert sizes == [(int(500 * (4.0 * scale)), int(1000 * (4.0 * scale))) for scale in drawn]
    # Golden: these never change.
    assert sizes[:4] == [(3601, 7203), (3769, 7539), (283, 567), (3352, 6704)]


def test_a_bound_may_be_wide() -> None:
    """What comes of a picture counts, not the size that it may have at most."""
    pixels = np.asarray(picture(1, 20, 10))
    thumbnail = steps.Thumbnail(65535, 65535, steps.Filter.BILINEAR)
    assert np.array_equal(compiled(thumbnail).apply(pixels, Scratch()), pixels)
    jitter = steps.ScaleJitter(65535, 65535, (1e-3, 1e-3), steps.Filter.BILINEAR)
    assert compiled(jitter).apply(pixels, Scratch(), 1).shape == (32, 65, 3)
    contain = slot("image").decode_image().contain(65535, pad=False).steps[1]
    with pytest.raises(ImageError, match=r"65535 x 32768 pixels after its resize, more than max_pixels"):
        compiled(contain).apply(pixels, Scratch())


def test_a_jitter_that_makes_a_picture_too_large_is_named() -> None:
    from image_slots import run_batch

    image = compiled(steps.ScaleJitter(60, 80, (1.5, 1.5), steps.Filter.BILINEAR), max_pixels=4_800)
    _, [failure] = run_batch(image, [encode(picture(1, 80, 60))], np.array([5], np.uint64))
    assert failure.step == "scale_jitter((60, 80), scale_range=(1.5, 1.5))"
    assert "more than max_pixels=4800" in failure.message
