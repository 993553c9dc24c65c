"""How an epoch's positions are cut into global batches, and those into the ranks' shares: arithmetic, no state."""

from __future__ import annotations

import enum
from collections.abc import Sequence
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
    """One rank's share of epochs of `samples` positions; `start` is the position at which an epoch is entered.

    Attributes:
        ranges: The places [low, high) of each global batch that are this rank's, in order; its slice when left out.
        worker, workers: Of processes that deal this rank's batches out among themselves, which this is, and how many.
    """

    samples: int
    batch_size: int
    rank: int
    world_size: int
    remainder: Remainder
    ranges: Sequence[tuple[int, int]] | None = None
    worker: int = 0
    workers: int = 1

    @property
    def global_batch(self) -> int:
        """Samples of all ranks in a step."""
        return self.batch_size * self.world_size

    @property
    def local_batch(self) -> int:
        """Samples of this rank in a step."""
        return sum(high - low for low, high in self.spans)

    def steps(self, start: int = 0) -> int:
        """Return how many batches are left of an epoch: the same number on every rank, all its workers together."""
        whole, rest = self._divided(start, None)
        return whole + (1 if rest else 0)

    def batches(self, start: int = 0, steps: int | None = None) -> int:
        """Return how many batches are left of an epoch, or of its next `steps`, for this worker."""
        return self._own(self.steps(start) if steps is None else min(steps, self.steps(start)))

    def planned(self, start: int = 0, steps: int | None = None) -> int:
        """Return how many samples are left of an epoch, or of its next `steps` batches, for this rank and worker."""
        whole, rest = self._divided(start, steps)
        if whole % self.workers != self.worker:
            rest = 0  # another one's batch
        last = sum(min(max(rest - low, 0), high - low) for low, high in self.spans)
        return self._own(whole) * self.local_batch + last

    def positions(self, start: int, batch: int) -> NDArray[np.int64]:
        """Return this rank's positions in batch number `batch` from `start` on; -1 behind them where it is padded."""
        first = start + (batch * self.workers + self.worker) * self.global_batch
        spans = [np.arange(first + low, first + high, dtype=np.int64) for low, high in self.spans]
        positions = spans[0] if len(spans) == 1 else np.concatenate(spans)
        if first + self.global_batch <= self.samples:
            return positions
        if self.remainder is not Remainder.PAD:
            return positions[positions < self.samples]
        positions[positions >= self.samples] = -1
        return positions

    def after(self, start: int, steps: int) -> int:
        """Return the position of the epoch that all ranks, and workers, have reached `steps` batches behind `start`."""
        return min(start + steps * self.global_batch, self.samples)

    def _divided(self, start: int, steps: int | None) -> tuple[int, int]:
        """Return the whole global batches that are left of an epoch, at most `steps`, and the samples behind them."""
        whole, rest = divmod(self.samples - start, self.global_batch)
        if steps is not None and steps <= whole:
            return steps, 0
        return whole, 0 if self.remainder is Remainder.DROP else rest

    def _own(self, batches: int) -> int:
        """Return how many of the rank's batches are this worker's."""
        return max(0, batches - self.worker + self.workers - 1) // self.workers

    @property
    def spans(self) -> Sequence[tuple[int, int]]:
        """The places [low, high) of each global batch that are this rank's, in order."""
        return self.ranges or [(self.rank * self.batch_size, (self.rank + 1) * self.batch_size)]
