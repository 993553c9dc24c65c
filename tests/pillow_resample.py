"""Pillow's bilinear resize, spelled out with numpy: the oracle whichever PIL is installed.

After ImagingResample (Pillow, src/libImaging/Resample.c): antialiased, coefficients of 22 bits, columns first, rounded
to 8 bits in between. Pillow-SIMD's own resize differs from it by up to two levels.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

PRECISION_BITS = 32 - 8 - 2
# Pillow-SIMD has its own version numbers: 12.1.1.post0.
STOCK_PILLOW = ".post" not in Image.__version__


def resize(pixels: np.ndarray, width: int, height: int) -> np.ndarray:
    """Return uint8 (height, width, channels) from uint8 (h, w, channels)."""
    if pixels.shape[1] != width:
        pixels = _columns(pixels, width)
    if pixels.shape[0] != height:
        pixels = _columns(pixels.swapaxes(0, 1), height).swapaxes(0, 1)
    return np.ascontiguousarray(pixels)


def _columns(pixels: np.ndarray, width: int) -> np.ndarray:
    size = pixels.shape[1]
    scale = size / width
    stretch = max(scale, 1.0)
    exact = pixels.astype(np.float64)  # sums of 8-bit values times 22-bit weights are whole numbers far below 2**53
    sums = np.empty((pixels.shape[0], width, pixels.shape[2]))
    for i in range(width):
        center = (i + 0.5) * scale
        first = max(int(center - stretch + 0.5), 0)
        last = min(int(center + stretch + 0.5), size)
        taps = [max(0.0, 1.0 - abs((x - center + 0.5) / stretch)) for x in range(first, last)]
        total = sum(taps)
        weights = np.array([int(tap / total * (1 << PRECISION_BITS) + 0.5) for tap in taps], np.float64)
        sums[:, i] = np.tensordot(exact[:, first:last], weights, axes=([1], [0]))
    levels = (np.rint(sums).astype(np.int64) + (1 << (PRECISION_BITS - 1))) >> PRECISION_BITS
    return np.clip(levels, 0, 255).astype(np.uint8)
