"""Which sample is at which position: arithmetic from (order version, samples, seed, epoch, position) and nothing else.

World size and batch size only cut the result; no state, no file and no other epoch is needed to know it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit._native.permute import permute

__all__ = ["ORDER_VERSION", "Order", "Shuffle", "order_key"]

ORDER_VERSION = 1
_MASK = (1 << 64) - 1


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
        permute(self.samples, order_key(ORDER_VERSION, self.seed, epoch), positions, out)
        return out


def order_key(*parts: int) -> int:
    """Fold integers into 64 bits: each is added and mixed by splitmix64's finaliser, so that (1, 2) is not (2, 1)."""
    state = 0
    for part in parts:
        state = (state + part + 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return state
