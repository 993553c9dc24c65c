"""Which sample is at which position: arithmetic from (order version, samples, seed, epoch, position) and nothing else.

World size and batch size only cut the result; no state, no file and no other epoch is needed to know it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit._native.permute import permute
from toolkit.pipelines.randomness import fold_all

__all__ = ["ORDER_VERSION", "Order", "Shuffle"]

ORDER_VERSION = 1


class Shuffle(enum.Enum):
    """How an epoch's order comes about: one permutation of all samples, or the order they are stored in."""

    FULL = "full"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Order:
    """The order of `samples` samples in every epoch."""

    samples: int
    shuffle: Shuffle
    seed: int

    def rows(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which sample is at each position (int64, within 0..samples-1) of the epoch."""
        if self.shuffle is Shuffle.NONE:
            return positions.copy()
        out = np.empty_like(positions)
        permute(self.samples, fold_all(ORDER_VERSION, self.seed, epoch), positions, out)
        return out
