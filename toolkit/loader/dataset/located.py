"""Rows that were found, where they are stored, and what was fetched of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.body import READ_RANGE, Body
from toolkit._native.shards.fetch import FetchBuffer

__all__ = ["Found", "Located", "Place", "Variable"]


@dataclass(frozen=True, slots=True)
class Located:
    """Rows of a split with the record batches they lie in. Holds the maps it points into."""

    rows: NDArray[np.int64]
    inner: NDArray[np.int64]
    bodies: list[Body]

    def part(self, run: slice) -> Located:
        """Return some of the rows."""
        return Located(self.rows[run], self.inner[run], self.bodies[run])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row is stored, for an error about it: the dataset's folder, a shard, the split's row, and its key.

    `files`: those that the values of its references lie in.
    """

    dataset: str
    shard: str
    row: int
    key: str
    files: tuple[str, ...] = ()

    def __str__(self) -> str:
        files = f", file {', '.join(map(repr, self.files))}" if self.files else ""
        return f"dataset {self.dataset}, shard {self.shard}, row {self.row}, key {self.key!r}{files}"


@dataclass(frozen=True, slots=True)
class Variable:
    """Fetched variable-length values: addresses into a FetchBuffer, valid until its next use; length -1 is null."""

    addresses: NDArray[np.uint64]
    lengths: NDArray[np.int64]
    buffer: FetchBuffer

    def bytes(self, i: int) -> bytes | None:
        """Return a copy of value `i`, or None when it is null."""
        length = int(self.lengths[i])
        return None if length < 0 else self.buffer.take(int(self.addresses[i]), length)


@dataclass(frozen=True, slots=True)
class Found:
    """Where n variable-length values lie: starts in their bodies, lengths (0 where there is none), READ_ statuses."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    statuses: NDArray[np.int32]
    chunks: NDArray[np.int64]

    def spread(self, where: NDArray[np.int64], n: int) -> Found:
        """Return n, value i of these at where[i]; the others are not readable."""
        spread = Found(
            np.zeros(n, np.int64), np.zeros(n, np.int64), np.full(n, READ_RANGE, np.int32), np.full(n, -1, np.int64)
        )
        for name in ("starts", "lengths", "statuses", "chunks"):
            getattr(spread, name)[where] = getattr(self, name)
        return spread
