"""What the native call draws that isn't even, in pure Python: normal numbers, and the shares of a mix."""

from __future__ import annotations

import math

import numpy as np

MASK = (1 << 64) - 1


def fold(state: int, part: int) -> int:
    x = (state + part + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def draw(key: int, k: int) -> float:
    return float(fold(key, k) >> 11) * 2.0**-53


def normal(key: int, k: int) -> float:
    return math.sqrt(-2.0 * math.log(1.0 - draw(key, k))) * math.cos(6.283185307179586 * draw(key, k + 1))


def log_gamma(key: int, alpha: float) -> float:
    shape = alpha + 1.0 if alpha < 1.0 else alpha
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    less = math.log(1.0 - draw(key, 0)) / alpha if alpha < 1.0 else 0.0
    k = 1
    while True:
        x = normal(key, k)
        root = 1.0 + c * x
        v = root * root * root
        if v > 0.0 and math.log(1.0 - draw(key, k + 2)) < 0.5 * x * x + d - d * v + d * math.log(v):
            return math.log(d * v) + less
        k += 3


def dirichlet(key: int, alpha: float, count: int) -> list[float]:
    logs = [log_gamma(fold(key, i), alpha) for i in range(count)]
    parts = [math.exp(each - max(logs)) for each in logs]
    total = 0.0
    for part in parts:
        total += part
    return [part / total for part in parts]


def mix_shares(key: int, alpha: float, count: int) -> tuple[list[float], list[float]]:
    """Return the shares of picture and chains, and those of each chain among them; `key` is the mix's own."""
    return dirichlet(fold(key, 0), alpha, 2), dirichlet(fold(key, 1), alpha, count)


def mix(key: int, alpha: float, picture: np.ndarray, made: list[np.ndarray]) -> np.ndarray:
    """Return uint8: the picture and what the chains made of it, mixed in float32 and cut off."""
    (own, rest), shares = mix_shares(key, alpha, len(made))
    sums = np.float32(own) * picture.astype(np.float32)
    for share, each in zip(shares, made, strict=True):
        sums += np.float32(share) * np.float32(rest) * each.astype(np.float32)
    return np.minimum(sums, 255).astype(np.uint8)


def drawn_level(key: int, mean: float, deviation: float, start: float, change: float, whole: bool) -> float:
    """Return the number that a DrawnLevel makes of an op's range; `key` is the op's own."""
    level = min(max(mean + deviation * normal(key, 1 << 32), 0.0), 10.0)
    return start + (math.trunc(change * (level / 10.0)) if whole else change * (level / 10.0))
