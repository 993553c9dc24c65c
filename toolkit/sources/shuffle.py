"""The order of --shuffle-seed: which sample of a split comes at which place, computed place by place."""

from __future__ import annotations

import numpy as np
import xxhash
from numpy.typing import NDArray

from toolkit._native.order.permute import permute

__all__ = ["shuffled"]

_VERSION = 1


def shuffled(samples: int, seed: int, split: str, places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return which of a split's `samples` comes at each of `places` (int64, both within 0..samples-1)."""
    # Not the loader's key: an epoch shuffled with the same seed would apply the same permutation twice.
    key = xxhash.xxh3_64_intdigest(f"pack shuffle {_VERSION} {seed} {split}".encode())
    out = np.empty_like(places)
    permute(samples, key, places, out)
    return out
