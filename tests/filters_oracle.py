"""What steps that look at neighbours mean, in numpy: each takes and gives pixels of (height, width, channels)."""

from __future__ import annotations

from typing import Protocol

import image_steps as steps
import numpy as np
from PIL import Image

__all__ = ["FILTERS", "apply", "blurred", "sharpened"]


class Drawn(Protocol):
    """The numbers that a step draws."""

    def __getitem__(self, k: int) -> float: ...


FILTERS = (steps.GaussianBlur, steps.Sharpness)


def apply(image: Image.Image, step: steps.ImageStep, u: Drawn) -> Image.Image:
    """Return the picture behind one of FILTERS."""
    if u[0] >= step.p:
        return image
    pixels = np.asarray(image).reshape(image.height, image.width, -1)
    match step:
        case steps.Sharpness(factor, mirror):
            by = between(factor, u[1])
            made = sharpened(pixels, 2 - by if mirror and u[2] < 0.5 else by)
        case steps.GaussianBlur(size, sigma):
            made = blurred(pixels, size, between(sigma, u[1]))
        case _:
            raise AssertionError(step)
    return Image.fromarray(made if made.shape[2] > 1 else made[:, :, 0])


def between(ends: tuple[float, float], drawn: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * drawn


def sharpened(pixels: np.ndarray, factor: float) -> np.ndarray:
    """PIL.ImageEnhance.Sharpness."""
    if min(pixels.shape[:2]) < 3:
        return pixels
    smooth, (height, width) = pixels.copy(), pixels.shape[:2]
    around = [pixels[y : y + height - 2, x : x + width - 2].astype(int) for y in range(3) for x in range(3)]
    smooth[1:-1, 1:-1] = (sum(around) + 4 * around[4]) / 13 + 0.5
    smooth[:, :, 3:] = pixels[:, :, 3:]
    start = smooth.astype(np.float32)
    return np.clip(start + np.float32(factor) * (pixels - start), 0, 255).astype(np.uint8)


def blurred(pixels: np.ndarray, size: int | None, sigma: float) -> np.ndarray:
    """torchvision's gaussian_blur; without a size scipy's gaussian_filter with mirrored borders."""
    half = int(4 * sigma + 0.5) if size is None else size // 2
    weights = np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2)
    weights /= weights.sum()
    height, width = pixels.shape[:2]
    grown = np.pad(pixels.astype(float), ((half, half), (half, half), (0, 0)), mode="reflect")
    rows = sum(weight * grown[k : k + height] for k, weight in enumerate(weights))
    return np.rint(sum(weight * rows[:, k : k + width] for k, weight in enumerate(weights))).astype(np.uint8)
