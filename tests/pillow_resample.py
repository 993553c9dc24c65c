"""Pillow's resize, spelled out with numpy: the oracle whichever PIL is installed.

After ImagingResample (Pillow, src/libImaging/Resample.c): antialiased, coefficients of 22 bits, columns first, rounded
to 8 bits in between. Pillow-SIMD's own resize differs from it by up to two levels.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from PIL import Image

PRECISION_BITS = 32 - 8 - 2
# Pillow-SIMD has its own version numbers: 12.1.1.post0.
STOCK_PILLOW = ".post" not in Image.__version__


Box = tuple[float, float, float, float]  # left, top, right, bottom


def resize(pixels: np.ndarray, width: int, height: int, filter: str = "bilinear", box: Box | None = None) -> np.ndarray:
    """Return uint8 (height, width, channels) from uint8 (h, w, channels); alpha is a channel like the others."""
    left, top, right, bottom = (float(np.float32(end)) for end in box or (0, 0, pixels.shape[1], pixels.shape[0]))
    if filter == "nearest":
        columns = _nearest(pixels.shape[1], width, left, _length(left, right))
        return np.ascontiguousarray(pixels[_nearest(pixels.shape[0], height, top, _length(top, bottom))][:, columns])
    if (pixels.shape[1], left, right) != (width, 0, width):
        pixels = _columns(pixels, width, *FILTERS[filter], left, _length(left, right))
    if (pixels.shape[0], top, bottom) != (height, 0, height):
        across = pixels.swapaxes(0, 1)
        pixels = _columns(across, height, *FILTERS[filter], top, _length(top, bottom)).swapaxes(0, 1)
    return np.ascontiguousarray(pixels)


def resize_rgba(pixels: np.ndarray, width: int, height: int, filter: str, box: Box | None = None) -> np.ndarray:
    """Return what Image.resize gives for RGBA: colours are premultiplied by alpha, and divided by it afterwards."""
    is_whole = box is None or box == (0, 0, pixels.shape[1], pixels.shape[0])
    if filter == "nearest" or (pixels.shape[:2] == (height, width) and is_whole):
        return resize(pixels, width, height, filter, box)
    alpha = pixels[:, :, 3:].astype(int)
    product = pixels[:, :, :3] * alpha + 128
    premultiplied = np.concatenate([((product >> 8) + product) >> 8, alpha], axis=2).astype(np.uint8)
    made = resize(premultiplied, width, height, filter, box)
    alpha = made[:, :, 3:].astype(int)
    divided = np.minimum(255 * made[:, :, :3].astype(int) // np.maximum(alpha, 1), 255)
    made[:, :, :3] = np.where((alpha == 0) | (alpha == 255), made[:, :, :3], divided)
    return made


def _length(begin: float, end: float) -> float:
    return float(np.float32(end) - np.float32(begin))


def _nearest(size: int, out: int, begin: float, length: float) -> list[int]:
    """Source of each output: the place is added up, not multiplied, as in ImagingScaleAffine (Geometry.c)."""
    scale = length / out
    place, found = begin + scale * 0.5, []
    for _ in range(out):
        found.append(min(int(place), size - 1))
        place += scale
    return found


def _triangle(x: float) -> float:
    return max(0.0, 1.0 - abs(x))


def _cubic(x: float) -> float:
    x = abs(x)
    if x < 1.0:
        return (1.5 * x - 2.5) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * -0.5 if x < 2.0 else 0.0


def _sinc(x: float) -> float:
    return math.sin(x * math.pi) / (x * math.pi) if x != 0.0 else 1.0


def _lanczos(x: float) -> float:
    return _sinc(x) * _sinc(x / 3) if -3.0 <= x < 3.0 else 0.0


FILTERS: dict[str, tuple[Callable[[float], float], float]] = {
    "bilinear": (_triangle, 1.0),
    "bicubic": (_cubic, 2.0),
    "lanczos": (_lanczos, 3.0),
}


def _columns(
    pixels: np.ndarray, width: int, weigh: Callable[[float], float], support: float, begin: float, length: float
) -> np.ndarray:
    size = pixels.shape[1]
    scale = length / width
    stretch = max(scale, 1.0)
    inverse = 1.0 / stretch
    exact = pixels.astype(np.float64)  # sums of 8-bit values times 22-bit weights are whole numbers far below 2**53
    sums = np.empty((pixels.shape[0], width, pixels.shape[2]))
    for i in range(width):
        center = begin + (i + 0.5) * scale
        first = max(int(center - stretch * support + 0.5), 0)
        last = min(int(center + stretch * support + 0.5), size)
        taps = [weigh((x - center + 0.5) * inverse) for x in range(first, last)]
        total = sum(taps)
        scaled = [tap / total * (1 << PRECISION_BITS) for tap in taps]
        weights = np.array([int(weight + (0.5 if weight >= 0 else -0.5)) for weight in scaled], np.float64)
        sums[:, i] = np.tensordot(exact[:, first:last], weights, axes=([1], [0]))
    levels = (np.rint(sums).astype(np.int64) + (1 << (PRECISION_BITS - 1))) >> PRECISION_BITS
    return np.clip(levels, 0, 255).astype(np.uint8)
