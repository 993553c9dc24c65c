"""The order of a mix: each source in an order of its own, dealt to one by weights."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit._native.order.mixed import permute_sources
from toolkit.loader.order.mix import BLOCK_ROWS, MixPlan
from toolkit.loader.order.order import Order, Shuffle, seed_key

__all__ = ["MixedOrder", "Ordered", "Source"]

_KEPT_STRETCHES = 64

_Rows = NDArray[np.int64]


class Ordered(Protocol):
    """Which row is at which position of every epoch."""

    @property
    def samples(self) -> int:
        """Positions in an epoch."""

    @property
    def name(self) -> str:
        """What a loader's state calls it: another order has another name."""

    def rows(self, epoch: int, positions: _Rows) -> _Rows:
        """Return the row at each position (int64, within 0..samples-1) of the epoch."""


@dataclass(frozen=True, slots=True)
class Source:
    """A source of a mix: its own order, and its first row among the rows of all sources."""

    order: Ordered
    first: int


class MixedOrder:
    """Positions dealt to sources. An epoch ends where the plan does, or has `samples` rows of one without end.

    A source that begins anew does so with the order of its next epoch. Sources whose last row ends them are in the
    order of the mix's epoch. Safe from any thread.

    Attributes:
        samples: Positions in an epoch.
        name: What a loader's state calls it.
    """

    def __init__(self, sources: Sequence[Source], plan: MixPlan, name: str, samples: int | None = None) -> None:
        """`samples` is how many rows of a plan without end an epoch has."""
        self._sources = tuple(sources)
        self._sizes = np.array([source.order.samples for source in self._sources], np.int64)
        self._firsts = np.array([source.first for source in self._sources], np.int64)
        self._keys = _keys(self._sources)
        self._plan = plan
        self._repeats = samples is not None
        self.samples = plan.rows if samples is None else samples
        self.name = name
        self._stretches: OrderedDict[tuple[int, int], _Rows] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        samples = self.samples if self._repeats else None
        return type(self), (self._sources, self._plan, self.name, samples)

    def rows(self, epoch: int, positions: _Rows) -> _Rows:
        """Return the row at each position of the epoch, of the rows of all sources one after the other."""
        stretches, places = np.divmod(positions, BLOCK_ROWS)
        if len(positions) and stretches.min() == stretches.max():  # of most batches
            return self._stretch(epoch, int(stretches[0]))[places]
        out = np.empty_like(positions)
        for stretch in np.unique(stretches).tolist():
            here = stretches == stretch
            out[here] = self._stretch(epoch, stretch)[places[here]]
        return out

    def given(self, epoch: int, position: int) -> _Rows:
        """Return how many rows each source gives before a position, int64 (sources,); of its epoch where it ends."""
        return self._plan.given(epoch * self.samples + position if self._repeats else position)

    def _stretch(self, epoch: int, number: int) -> _Rows:
        """Return the rows of a stretch of positions: sources have work for a whole one, so few calls are made."""
        with self._lock:
            known = self._stretches.get((epoch, number))
        if known is None:
            first = number * BLOCK_ROWS
            count = min(BLOCK_ROWS, self.samples - first)
            known = self._dealt(epoch, first, count)
            with self._lock:
                self._stretches[epoch, number] = known
                while len(self._stretches) > _KEPT_STRETCHES:
                    self._stretches.popitem(last=False)
        return known

    def _dealt(self, epoch: int, first: int, count: int) -> _Rows:
        dealt, numbers = self._plan.sources(epoch * self.samples + first if self._repeats else first, count)
        out = np.empty(count, np.int64)
        if self._keys is not None:
            own = -1 if self._repeats else epoch
            permute_sources(self._sizes, self._keys, self._firsts, own, dealt, numbers, out)
            return out
        epochs, places = np.divmod(numbers, self._sizes[dealt])
        by_source = np.argsort(dealt, kind="stable")
        ends = np.searchsorted(dealt[by_source], np.arange(len(self._sources) + 1))
        for number in np.unique(dealt).tolist():
            mine = by_source[ends[number] : ends[number + 1]]
            source = self._sources[number]
            # Numbers go up, so the epochs of one source come one after the other.
            for begun in np.unique(epochs[mine]).tolist():
                at = mine[epochs[mine] == begun]
                out[at] = source.first + source.order.rows(begun if self._repeats else epoch, places[at])
        return out


def _keys(sources: Sequence[Source]) -> NDArray[np.uint64] | None:
    """Return the key of each source's order, for the native call; None where one isn't a full shuffle."""
    keys = []
    for source in sources:
        if not isinstance(source.order, Order) or source.order.shuffle is not Shuffle.FULL:
            return None
        keys.append(seed_key(source.order.seed))
    return np.array(keys, np.uint64)
