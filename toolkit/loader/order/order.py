"""Which sample is at which position: arithmetic from (order version, samples, seed, epoch, position) and nothing else.

World size and batch size only cut the result; no state, no file and no other epoch is needed to know it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit._native.order.permute import permute
from toolkit.pipelines.randomness import fold_all

__all__ = ["BLOCK_SAMPLES", "ORDER_VERSION", "WINDOW_SAMPLES", "Order", "Shuffle", "order_key", "seed_key"]

ORDER_VERSION = 1
BLOCK_SAMPLES = 256
WINDOW_SAMPLES = BLOCK_SAMPLES * 64
# What a key is for, folded in behind (version, seed, epoch). A full permutation's key has nothing behind them.
_BLOCKS, _SHORT_BLOCK, _WINDOW = 1, 2, 3


class Shuffle(enum.Enum):
    """How an epoch's order comes about.

    FULL: one permutation of all samples. BLOCK: blocks of neighbours are permuted, then samples within windows, so
    that reading stays near. NONE: the order they are stored in.
    """

    FULL = "full"
    BLOCK = "block"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Order:
    """The order of `samples` samples in every epoch."""

    samples: int
    shuffle: Shuffle
    seed: int

    @property
    def name(self) -> str:
        """What a loader's state calls it."""
        return self.shuffle.value

    def rows(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return which sample is at each position (int64, within 0..samples-1) of the epoch."""
        if self.shuffle is Shuffle.NONE:
            return positions.copy()
        if self.shuffle is Shuffle.BLOCK:
            return self._in_blocks(epoch, self._in_windows(epoch, positions))
        return _permuted(self.samples, order_key(self.seed, epoch), positions)

    def _in_windows(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Permute each window of WINDOW_SAMPLES positions on its own; the last one is as long as what is left."""
        windows, places = np.divmod(positions, WINDOW_SAMPLES)
        out = np.empty_like(positions)
        for window in np.unique(windows).tolist():
            here = windows == window
            first = window * WINDOW_SAMPLES
            size = min(WINDOW_SAMPLES, self.samples - first)
            out[here] = first + _permuted(size, order_key(self.seed, epoch, _WINDOW, window), places[here])
        return out

    def _in_blocks(self, epoch: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Permute blocks of BLOCK_SAMPLES rows. A short last block is put between any two of the others, or at an end.

        It has a place of its own, so that the place of every other block, and its inverse, follow by arithmetic.
        """
        whole, short = divmod(self.samples, BLOCK_SAMPLES)
        key = order_key(self.seed, epoch, _SHORT_BLOCK)
        place = _permuted(whole + 1, key, np.zeros(1, np.int64))[0]
        first = int(place) * BLOCK_SAMPLES
        in_short = (positions >= first) & (positions < first + short)
        out = whole * BLOCK_SAMPLES + positions - first
        others = positions[~in_short]
        blocks, places = np.divmod(np.where(others < first, others, others - short), BLOCK_SAMPLES)
        out[~in_short] = _permuted(whole, order_key(self.seed, epoch, _BLOCKS), blocks) * BLOCK_SAMPLES + places
        return out


def order_key(seed: int, epoch: int, *parts: int) -> int:
    """Fold the order version, seed, epoch and `parts` into 64 bits: see toolkit.pipelines.randomness.fold_all."""
    return fold_all(ORDER_VERSION, seed, epoch, *parts)


def seed_key(seed: int) -> int:
    """Fold the order version and seed: order_key(seed, epoch, …) goes on from there."""
    return fold_all(ORDER_VERSION, seed)


def _permuted(samples: int, key: int, positions: NDArray[np.int64]) -> NDArray[np.int64]:
    out = np.empty_like(positions)
    if len(positions):
        permute(samples, key, np.ascontiguousarray(positions), out)
    return out
