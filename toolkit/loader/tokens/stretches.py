"""Where the tokens of a step's rows lie: stretches of the run, in the order of an epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit.loader.outputs.spec import RowRange
from toolkit.loader.tokens.schedule import Step

__all__ = ["StreamOrder", "Stretches", "WindowOrder"]


@dataclass(slots=True)
class Stretches:
    """What to copy: int64 (n,) each, see OpenRun.gather."""

    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    places: NDArray[np.int64]

    @property
    def tokens(self) -> int:
        """How many tokens in all."""
        return int(self.counts[0]) if len(self.counts) == 1 else int(self.counts.sum())


class StreamOrder(Protocol):
    """Says where the tokens of a step's rows lie."""

    @property
    def block(self) -> int:
        """Tokens of a permuted block; 0 when stretches are of the run itself."""

    def key(self, epoch: int) -> int:
        """Return the key of an epoch's order of blocks."""

    def stretches(self, steps: Sequence[Step], rows: Sequence[RowRange]) -> Stretches:
        """Return the stretches of these rows of each step, one step's places behind the other's.

        The steps follow each other in one epoch and are of one form; only a single one may be padded.
        """


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """Windows one behind the other through the blocks in their order. `keys` gives the key of an epoch."""

    block: int
    keys: Callable[[int], int]

    def key(self, epoch: int) -> int:
        """Return the key of an epoch's order of blocks."""
        return self.keys(epoch) if self.block else 0

    def stretches(self, steps: Sequence[Step], rows: Sequence[RowRange]) -> Stretches:
        """Return one stretch for each range of rows of each step, cut where a padded step's tokens end."""
        first = steps[0]
        if len(rows) == 1 and rows[0] == (0, first.phase.rows):
            return Stretches(*np.array([[first.place.position], [first.units * len(steps)], [0]], np.int64))
        length = first.phase.seq_len
        ranges = np.array(rows, np.int64).reshape(-1, 2) * length
        lows = np.minimum(ranges[:, 0], first.units)
        counts = np.minimum(ranges[:, 1], first.units) - lows
        places = np.concatenate(([0], np.cumsum(ranges[:, 1] - ranges[:, 0])))
        number = np.arange(len(steps), dtype=np.int64)[:, None]
        starts = first.place.position + number * first.units + lows
        return Stretches(
            starts.reshape(-1), np.tile(counts, len(steps)), (number * places[-1] + places[:-1]).reshape(-1)
        )
