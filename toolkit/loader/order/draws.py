"""Draws with replacement: which sample is at a position follows from seed, epoch and position, as in every order."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit._native.order.permute import permute
from toolkit.errors import UsageError
from toolkit.loader.order.order import order_key

__all__ = ["WeightedOrder", "balanced_weights"]

_DRAW = 4  # the purpose of the key, beside those of toolkit.loader.order.order
_NUMBERS = 1 << 62


class WeightedOrder:
    """An epoch of `samples` draws, sample i with a chance of weights[i] / sum(weights). O(log n) a position.

    Attributes:
        samples: Draws in an epoch.
        name: What a loader's state calls it: another weight is another name.
    """

    def __init__(self, weights: ArrayLike, samples: int, seed: int) -> None:
        """Take weights (n,) of any real dtype. Raises UsageError: one is negative or not finite, or all are zero."""
        given = np.ascontiguousarray(weights, dtype=np.float64)
        if given.ndim != 1 or not np.isfinite(given).all() or (given < 0).any() or not (given > 0).any():
            raise UsageError("weights must be one finite number a sample, none negative and not all zero")
        # One after the other, in float64: the same sums, and so the same draws, on every machine.
        with np.errstate(over="ignore"):
            self._sums = np.cumsum(given)
        if not np.isfinite(self._sums[-1]):
            raise UsageError("the sum of the weights is beyond float64: give smaller ones")
        self._last = int(np.flatnonzero(given)[-1])
        self._seed = seed
        self.samples = samples
        self.name = f"weighted {hashlib.sha256(given.astype('<f8').tobytes()).hexdigest()}"

    def rows(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which sample is at each position (int64, within 0..samples-1) of the epoch."""
        numbers = np.empty_like(positions)
        # A keyed permutation of all 62-bit numbers, read at the position: a random number of its own for each.
        permute(_NUMBERS, order_key(self._seed, epoch, _DRAW), positions, numbers)
        places = (numbers >> 9).astype(np.float64) * 2.0**-53 * self._sums[-1]
        rows: NDArray[np.int64] = np.searchsorted(self._sums, places, side="right").astype(np.int64)
        np.minimum(rows, self._last, out=rows)  # a product that was rounded up to the sum itself
        return rows


def balanced_weights(labels: NDArray[np.int64], classes: Sequence[str]) -> NDArray[np.float64]:
    """Return float64 (n,): weights under which every class that has samples is drawn equally often."""
    counts = np.bincount(labels, minlength=len(classes))
    return np.asarray(1.0 / counts[labels], np.float64)
