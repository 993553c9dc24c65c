"""What kernels draw by counting, said in numpy: an oracle for steps that draw for each pixel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F = np.float32


def fold(state: int | NDArray[np.uint64], part: int | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 bits for each state and part, as toolkit.pipelines.randomness.fold does."""
    x = np.atleast_1d(np.asarray(state, np.uint64)) + np.asarray(part, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def bits(key: int, rows: int, columns: int) -> NDArray[np.uint64]:
    """Return uint64 (rows, columns): draw x of the key of row y."""
    keys = fold(key, np.arange(rows, dtype=np.uint64))
    return fold(keys[:, None], np.arange(columns, dtype=np.uint64)[None])


def normals(keys: NDArray[np.uint64], count: int) -> NDArray[np.float32]:
    """Return float32 (n, count): the numbers of the normal distribution that each key draws.

    In float32 step by step, in the order of the kernel's source.
    """
    blocks = -(-count // 64)
    drawn = fold(keys[:, None], np.arange(32 * blocks, dtype=np.uint64)[None])
    radius, angle = (drawn >> np.uint64(40)).astype(np.int32) + 1, drawn.astype(np.uint32)
    rest, power = np.frexp(radius.astype(F))  # rest within 0.5 .. 1
    low = rest < F(0.70710677)
    rest, power = np.where(low, rest * F(2), rest), np.where(low, power - 1, power) - 24
    s = (rest - F(1)) / (rest + F(1))
    t = s * s
    series = F(1) + t * (F(1 / 3) + t * (F(1 / 5) + t * (F(1 / 7) + t * F(1 / 9))))
    log = power.astype(F) * F(np.log(2)) + F(2) * s * series
    length = np.sqrt(F(-2) * log)
    f = ((angle & np.uint32(0x3FFFFFFF)).astype(np.int32) - np.int32(1 << 29)).astype(F) * F(np.pi / 2**31)
    g = f * f
    sine = f * (F(1) - g * (F(1 / 6) - g * (F(1 / 120) - g * (F(1 / 5040) - g * F(1 / 362880)))))
    even = F(1) - g * (F(1 / 2) - g * (F(1 / 24) - g * (F(1 / 720) - g * F(1 / 40320))))
    cosine = np.where(angle >> np.uint32(31), -even, even)
    swapped = (angle >> np.uint32(30) & np.uint32(1)).astype(bool)
    pairs = [np.where(swapped, sine, cosine), np.where(swapped, cosine, sine)]
    made = np.stack([(length * part).reshape(len(keys), blocks, 32) for part in pairs], axis=2)
    return made.reshape(len(keys), 64 * blocks)[:, :count]


def normal_planes(key: int, channels: int, height: int, width: int) -> NDArray[np.float32]:
    """Return float32 (channels, height, width): row y of channel c is drawn by fold(fold(key, c), y)."""
    rows = fold(fold(key, np.arange(channels, dtype=np.uint64))[:, None], np.arange(height, dtype=np.uint64)[None])
    return normals(rows.reshape(-1), width).reshape(channels, height, width)
