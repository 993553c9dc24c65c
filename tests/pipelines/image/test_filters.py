"""Steps that look at neighbours: against the oracle, the tools they follow, and the distributions they draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import filters_oracle as oracle
import image_steps as steps
import numpy as np
import pytest
from image_slots import MODES, compiled
from pictures import picture
from PIL import Image, ImageEnhance
from pillow_resample import STOCK_PILLOW

from toolkit._native.image.program import Scratch
from toolkit.pipelines.randomness import sample_keys

SIZES = [(64, 48), (33, 70), (300, 3), (3, 41), (2, 9), (5, 1), (1, 1)]
KEYS = sample_keys(15, 0, "", np.arange(4000, dtype=np.int64)).tolist()


def pixels_of(mode: str, width: int, height: int, seed: int = 0) -> np.ndarray:
    """Return pixels with edges, plains and noise, (height, width, channels)."""
    made = np.asarray(picture(seed, width, height)).copy()
    noise = np.random.default_rng(seed).integers(0, 256, made.shape, np.uint8)
    made[:, : width // 3] = noise[:, : width // 3]
    made[height // 2 :, width // 2 :] = 255
    alpha = noise[:, :, :1]
    return {"RGB": made, "L": made[:, :, :1].copy(), "RGBA": np.concatenate([made, alpha], 2)}[mode]


def run(pixels: np.ndarray, *chain: Any, key: int = KEYS[0]) -> np.ndarray:
    mode = {1: "L", 3: "RGB", 4: "RGBA"}[pixels.shape[2]]
    return compiled(*chain, mode=mode).apply(pixels, Scratch(), key)


def image_of(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(pixels if pixels.shape[2] > 1 else pixels[:, :, 0])


def array_of(image: Image.Image) -> np.ndarray:
    return np.asarray(image).reshape(image.height, image.width, -1)


def check_draws(measured: Sequence[float], distribution: Callable[[np.ndarray], np.ndarray], step: float = 0.0) -> None:
    """Check by Kolmogorov and Smirnov, at 0.1 %, that the distribution gives such values, measured in steps."""
    values = np.sort(measured)
    wanted, count = distribution(values), len(values)
    distance = max((np.arange(1, count + 1) / count - wanted).max(), (wanted - np.arange(count) / count).max())
    assert distance < 1.95 / np.sqrt(count) + step, distance


# --- sharpness ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("factor", [0.0, 0.1, 1.0, 1.9, 7.5])
def test_sharpness_is_that_of_pil(factor: float, mode: str) -> None:
    for width, height in SIZES:
        pixels = pixels_of(mode, width, height)
        made = run(pixels, steps.Sharpness((factor, factor)))
        assert np.array_equal(made, oracle.sharpened(pixels, factor))
        of_pil = array_of(ImageEnhance.Sharpness(image_of(pixels)).enhance(factor))
        assert np.abs(made.astype(int) - of_pil).max() <= (0 if STOCK_PILLOW else 1 + factor)


def test_sharpness_of_alpha_stays() -> None:
    pixels = pixels_of("RGBA", 40, 30)
    assert np.array_equal(run(pixels, steps.Sharpness((3.0, 3.0)))[:, :, 3], pixels[:, :, 3])


DOT = np.zeros((3, 3, 3), np.uint8)
DOT[1, 1] = 255  # smoothed 98, so that a factor moves it by 157


def factors(step: steps.Sharpness, count: int = 4000) -> np.ndarray:
    """Return the factors that samples draw, which are below 1, in steps of 1/157."""
    program, scratch = compiled(step), Scratch()
    return np.array([(float(program.apply(DOT, scratch, key)[1, 1, 0]) - 98 + 0.5) / 157 for key in KEYS[:count]])


def test_sharpness_draws_evenly() -> None:
    check_draws(factors(steps.Sharpness((0.2, 0.9))), lambda v: np.clip((v - 0.2) / 0.7, 0, 1), 1 / 157 / 0.7)


def test_sharpness_draws_either_sign_and_whether() -> None:
    assert abs((factors(steps.Sharpness((0.25, 0.25), True)) < 0.5).mean() - 0.5) < 0.03
    assert abs((factors(steps.Sharpness((0.25, 0.25), False, 0.3)) < 0.5).mean() - 0.3) < 0.03


def test_sharpness_never_draws_otherwise() -> None:
    assert np.round(factors(steps.Sharpness((0.0, 1.0)), 6) * 157).tolist() == [156, 31, 113, 113, 64, 58]
