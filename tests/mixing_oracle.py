"""Mixing batches recomputed sample by sample from seed, epoch and position, in plain Python and numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xxhash

from toolkit.pipelines.randomness import RANDOM_VERSION, draw, fold, fold_all


def key(seed: int, epoch: int, position: int, name: str) -> int:
    """What the pair of a position draws from."""
    sample = fold_all(RANDOM_VERSION, seed, epoch, xxhash.xxh3_64_intdigest(b"#batch"), position)
    return fold(sample, xxhash.xxh3_64_intdigest(name.encode()))


def beta(alpha: float, of: int) -> float:
    """The share of a pair, of its key."""
    u, v = draw(of, 2), draw(of, 3)
    w = (1 - u) ** (-1 / alpha)
    t = math.sqrt(2 * alpha * (w - 1)) * math.cos(2 * math.pi * v)
    return float(np.float32(0.5 + t / (2 * math.sqrt(2 * alpha + t * t))))


def box(share: float, of: int, height: int, width: int) -> tuple[slice, slice]:
    """What is swapped, as torchvision's CutMix has it."""
    r = 0.5 * math.sqrt(1 - share)
    y, x = int(draw(of, 4) * height), int(draw(of, 5) * width)
    h, w = int(r * height), int(r * width)
    return slice(max(y - h, 0), min(y + h, height)), slice(max(x - w, 0), min(x + w, width))


def blended(own: Any, other: Any, share: float) -> Any:
    """What becomes of a sample."""
    real = np.float64 if own.dtype == np.float64 else np.float32
    keep, rest = real(np.float32(share)), real(np.float32(1) - np.float32(share))
    made = own.astype(real) * keep + other.astype(real) * rest
    return (np.rint(made) if own.dtype == np.uint8 else made).astype(own.dtype)


def cut(own: np.ndarray, other: np.ndarray, where: tuple[slice, slice], *, chw: bool) -> np.ndarray:
    """A sample with its partner's box."""
    made = own.copy()
    at = (slice(None), *where) if chw else where
    made[at] = other[at]
    return made


def kept(where: tuple[slice, slice], height: int, width: int) -> float:
    """What is left of a picture."""
    y, x = where
    return float(np.float32(1 - (y.stop - y.start) * (x.stop - x.start) / (height * width)))


def soft(label: int, classes: int, smoothing: float = 0.0) -> np.ndarray:
    """A class id as shares."""
    made = np.full(classes, smoothing / classes, np.float32)
    made[label] = 1 - smoothing + smoothing / classes
    return made
