"""What steps that look at neighbours mean, in numpy or PIL: pixels of (height, width, channels)."""

from __future__ import annotations

import math
from typing import Any, Protocol

import image_steps as steps
import numpy as np
import scipy.ndimage
from PIL import Image, ImageFilter

__all__ = ["FILTERS", "apply", "blurred", "moved", "sharpened", "through_pil"]


class Drawn(Protocol):
    """The numbers that a step draws."""

    def __getitem__(self, k: int) -> float: ...


FILTERS = (steps.GaussianBlur, steps.MedianBlur, steps.MotionBlur, steps.Sharpness, steps.UnsharpMask)


def apply(image: Image.Image, step: steps.ImageStep, u: Drawn) -> Image.Image:
    """Return the picture behind one of FILTERS."""
    if u[0] >= step.p:
        return image
    pixels = np.asarray(image).reshape(image.height, image.width, -1)
    match step:
        case steps.Sharpness(factor, mirror):
            by = drawn(factor, u[1])
            made = sharpened(pixels, 2 - by if mirror and u[2] < 0.5 else by)
        case steps.GaussianBlur(size, sigma):
            made = blurred(pixels, size, drawn(sigma, u[1]))
        case steps.MotionBlur(size, angle, direction):
            made = moved(pixels, size, drawn(angle, u[1]), drawn(direction, u[2]))
        case steps.MedianBlur(radius):
            made = through_pil(pixels, ImageFilter.MedianFilter(2 * drawn(radius, u[1]) + 1))
        case steps.UnsharpMask(radius, percent, threshold):
            made = through_pil(pixels, ImageFilter.UnsharpMask(drawn(radius, u[1]), drawn(percent, u[2]), threshold))
        case _:
            raise AssertionError(step)
    return image_of(made)


def image_of(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(pixels if pixels.shape[2] > 1 else pixels[:, :, 0])


def drawn(value: Any, u: float) -> Any:
    """A field that is one value or a range of them."""
    if not isinstance(value, tuple):
        return value
    low, high = value
    return low + int(u * (high - low + 1)) if isinstance(low, int) else low + (high - low) * u


def through_pil(pixels: np.ndarray, filter: Any) -> np.ndarray:
    """A filter of PIL's that repeats borders. Pillow-SIMD reads beyond a side of one pixel, so it gets two."""
    height, width = pixels.shape[:2]
    grown = np.ascontiguousarray(np.pad(pixels, ((0, height == 1), (0, width == 1), (0, 0)), mode="edge"))
    made = np.asarray(image_of(grown).filter(filter))
    return np.ascontiguousarray(made.reshape(grown.shape)[:height, :width])


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


def moved(pixels: np.ndarray, size: int, degrees: float, direction: float) -> np.ndarray:
    """motion_blur by its formula."""
    half, first = size // 2, (1 - direction) / 2
    kernel = np.zeros((size + 2, size + 2))
    for i in range(size):
        weight = 2 / size * (first + (1 - 2 * first) * i / (size - 1))
        x = 1 + half + (i - half) * math.cos(math.radians(degrees))
        y = 1 + half - (i - half) * math.sin(math.radians(degrees))
        for row in range(size + 2):
            for column in range(size + 2):
                kernel[row, column] += weight * max(0.0, 1 - abs(row - y)) * max(0.0, 1 - abs(column - x))
    planes = [
        scipy.ndimage.correlate(plane, kernel, mode="mirror") for plane in np.moveaxis(pixels.astype(float), 2, 0)
    ]
    return np.rint(np.stack(planes, 2)).astype(np.uint8)
