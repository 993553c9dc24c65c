"""Numbers of every dtype that is mixed or normalised, bfloat16 among them, in numpy."""

from __future__ import annotations

import numpy as np


def encoded(values: np.ndarray, name: str) -> np.ndarray:
    """float32 or float64 as `name`: bfloat16 is the upper half of a float32, rounded to nearest, halves to even."""
    with np.errstate(all="ignore"):
        if name != "bfloat16":
            return np.rint(values).astype(np.uint8) if name == "uint8" else values.astype(name)
        bits = values.astype(np.float32).view(np.uint32)
        upper = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        return np.where(np.isnan(values), bits >> 16 | 0x40, upper).astype(np.uint16)


def decoded(values: np.ndarray, name: str) -> np.ndarray:
    if name == "bfloat16":
        return (values.astype(np.uint32) << 16).view(np.float32)
    return values.astype(np.float64 if name == "float64" else np.float32)


def raw(values: np.ndarray) -> np.ndarray:
    return values.reshape(-1).view(np.uint8)


def samples(name: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if name == "uint8":
        return rng.integers(0, 256, shape, np.uint8)
    return encoded(rng.standard_normal(shape) * 10.0 ** rng.integers(-9, 6, shape), name)
