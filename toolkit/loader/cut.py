"""How an epoch's positions are cut into global batches, and those into the ranks' slices: arithmetic, no state."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Cut", "Remainder"]


class Remainder(enum.Enum):
    """What becomes of positions that fill no whole global batch.

    KEEP: a shorter last batch. DROP: they are left out. PAD: a last batch as long as the others, masked where
    positions ran out.
    """

    KEEP = "keep"
    DROP = "drop"
    PAD = "pad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """One rank's share of epochs of `samples` positions; `start` is the position at which an epoch is entered."""

    samples: int
    batch_size: int
    rank: int
    world_size: int
    remainder: Remainder

    @property
    def global_batch(self) -> int:
        """Samples of all ranks in a step."""
        return self.batch_size * self.world_size

    def batches(self, start: int = 0) -> int:
        """Return how many batches are left of an epoch: the same number on every rank."""
        whole, rest = divmod(self.samples - start, self.global_batch)
        return whole + (1 if rest and self.remainder is not Remainder.DROP else 0)

    def planned(self, start: int = 0) -> int:
        """Return how many samples are left of an epoch for this rank."""
        whole, rest = divmod(self.samples - start, self.global_batch)
        if self.remainder is Remainder.DROP:
            rest = 0
        return whole * self.batch_size + min(max(rest - self.rank * self.batch_size, 0), self.batch_size)

    def positions(self, start: int, batch: int) -> NDArray[np.int64]:
        """Return this rank's positions in batch number `batch` from `start` on; -1 behind them where it is padded."""
        first = start + batch * self.global_batch + self.rank * self.batch_size
        stop = min(first + self.batch_size, self.samples)
        if stop - first == self.batch_size or self.remainder is not Remainder.PAD:
            return np.arange(first, stop, dtype=np.int64)
        positions = np.full(self.batch_size, -1, np.int64)
        positions[: max(stop - first, 0)] = np.arange(first, stop, dtype=np.int64)
        return positions

    def after(self, start: int, batch: int) -> int:
        """Return the position of the epoch that all ranks together have reached after batch number `batch`."""
        return min(start + (batch + 1) * self.global_batch, self.samples)
