"""What tests of steps on whole pictures share: pictures, running one step, and how results and draws are compared."""

from __future__ import annotations

from typing import Any

import image_steps as steps
import numpy as np
from image_slots import compiled
from pictures import picture
from PIL import Image

from toolkit._native.image.program import Scratch
from toolkit.pipelines.randomness import sample_keys

__all__ = ["EVEN", "SIZES", "array_of", "check_close", "check_draws", "image_of", "pixel", "pixels_of", "run"]

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


def check_close(made: np.ndarray, wanted: np.ndarray, mean: float = 0.05) -> None:
    """Check that no pixel is more than a level off, and what they are off in the mean."""
    apart = np.abs(made.astype(int) - wanted)
    assert apart.max() <= 1
    assert apart.mean() <= mean or apart.size < 1000


def check_draws(found: np.ndarray, wanted: np.ndarray) -> None:
    """Check by Kolmogorov and Smirnov, at 0.1 %, that values are distributed as others, which are many more."""
    levels = np.union1d(found, wanted)
    shares = [np.searchsorted(np.sort(values), levels, side="right") / len(values) for values in (found, wanted)]
    assert np.abs(shares[0] - shares[1]).max() < 1.95 * np.sqrt(1 / len(found) + 1 / len(wanted))


def pixel(step: steps.ImageStep, pixels: np.ndarray, y: int, x: int, count: int = 4000) -> np.ndarray:
    """Return a value of red, as samples draw it."""
    program, scratch = compiled(step), Scratch()
    return np.array([program.apply(pixels, scratch, key)[y, x, 0] for key in KEYS[:count]], int)


EVEN = (np.arange(100_000) + 0.5) / 100_000
