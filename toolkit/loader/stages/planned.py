"""A batch of samples before it is filled."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["PlannedBatch"]


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch before it is filled.

    Attributes:
        epoch: Its epoch.
        positions, rows: int64 (n,): positions in the epoch's order, and the rows of the split there.
        samples: How many of them hold a sample; those behind are padding.
    """

    epoch: int
    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    samples: int

    @property
    def span(self) -> tuple[int, int]:
        """Its first and last position."""
        return int(self.positions[0]), int(self.positions[-1])

    @property
    def places(self) -> int:
        """Samples and padding together."""
        return len(self.rows)

    def __str__(self) -> str:
        return f"a batch of {self.places} samples"
