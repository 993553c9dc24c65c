"""accuracy="fast": 40 dB or better against exact on photographs, wherever and however small a part is wanted."""

from __future__ import annotations

import functools
from typing import Any

import image_steps as steps
import numpy as np
import pytest
from image_slots import MODES, compiled
from native.image.test_image_oracle import jpeg, photo
from PIL import Image

from toolkit._native.image.program import Scratch

BILINEAR = steps.Filter.BILINEAR
RANDOM = steps.RandomResizedCrop(224, 224, (0.08, 1.0), (3 / 4, 4 / 3), BILINEAR)
CHAINS: list[list[Any]] = [
    [],
    [steps.ResizeShort(256, BILINEAR), steps.CenterCrop(224, 224)],
    [steps.ResizeShort(100, steps.Filter.BICUBIC), steps.CenterCrop(90, 90), steps.HFlip(1.0)],
    [steps.ResizeShort(40, steps.Filter.LANCZOS)],
    [steps.Resize(30, 31, BILINEAR), steps.Resize(90, 90, BILINEAR)],
    [steps.Crop(31, 57, 200, 211), steps.VFlip(1.0), steps.Resize(60, 61, BILINEAR)],
    [RANDOM, steps.HFlip(0.5)],
]
OPTIONS = [{}, {"subsampling": 0}, {"subsampling": 1, "progressive": True}, {"subsampling": 2, "quality": 75}]


@functools.cache
def photograph(seed: int, width: int, height: int, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return jpeg(photo(width, height, seed, noise=6.0), exif=exif, **OPTIONS[seed % len(OPTIONS)])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("chain", CHAINS)
def test_fast_is_within_40_db(chain: list[Any], mode: str) -> None:
    exact, fast = compiled(*chain, mode=mode), compiled(*chain, mode=mode, accuracy=steps.Accuracy.FAST)
    scratch = Scratch()
    sizes = [(500, 375, 1), (371, 503, 1), (640, 481, 1), (1201, 803, 1), (501, 375, 6), (377, 501, 3), (805, 603, 5)]
    for seed, (width, height, orientation) in enumerate(sizes):
        data = photograph(seed, width, height, orientation)
        for key in (1, 2):
            wanted = exact.decode(data, scratch, key).astype(np.float64)
            made = fast.decode(data, scratch, key)
            assert made.shape == wanted.shape
            error = ((made - wanted) ** 2).mean()
            assert 10 * np.log10(255**2 / max(error, 1e-9)) >= 40, (width, height, orientation)


def test_fast_has_no_shift() -> None:
    """Edges stay where they are: a step in brightness, seen at an eighth, through every orientation."""
    pixels = np.zeros((800, 1203, 3), np.uint8)
    pixels[333:, 511:] = 200
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = jpeg(Image.fromarray(pixels), quality=95, exif=exif)
        chain = [steps.ResizeShort(50, BILINEAR)]
        exact = compiled(*chain).decode(data, Scratch()).astype(float)
        fast = compiled(*chain, accuracy=steps.Accuracy.FAST).decode(data, Scratch()).astype(float)
        assert abs(fast.mean() - exact.mean()) < 0.3
        assert np.abs(fast - exact).max() < 16


def test_nearest_is_never_scaled() -> None:
    data = photograph(1, 1201, 803, 1)
    chain = [steps.ResizeShort(50, steps.Filter.NEAREST)]
    exact = compiled(*chain).decode(data, Scratch())
    assert np.array_equal(compiled(*chain, accuracy=steps.Accuracy.FAST).decode(data, Scratch()), exact)
