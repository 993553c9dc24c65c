"""Which source each row of a mix comes from: by weights, in closed form, so that a mix is resumed by its position.

Rows are dealt in cycles of 4096. In each, every source has a number of rows that follows its weight, and a keyed
permutation says where they stand; so what any source has given before any row is arithmetic. Where a source ends, the
next regime begins, with the weights of those that are left.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit._native.order.permute import permute
from toolkit.errors import UsageError
from toolkit.pipelines.randomness import fold_all

__all__ = ["CYCLE_ROWS", "MixPlan"]

CYCLE_ROWS = 4096
_PLAN_VERSION = 1
_ENDLESS = 1 << 60
_KEPT_CYCLES = 8
_ROUNDING = 2.0**-30  # rows: what float64 may miss of a share that is a whole number

_Ids = NDArray[np.int64]


class _Regime(NamedTuple):
    """Rows from `first` on, of the sources with a quota; `given` is what each gave before."""

    first: int
    quotas: _Ids
    given: _Ids


class MixPlan:
    """The rows of a mix. Safe from any thread.

    Attributes:
        rows: Rows of the mix: all of every source, or 2**60 when sources repeat.
    """

    def __init__(self, rows: Sequence[int], weights: Sequence[float], seed: int, *, repeat: bool) -> None:
        """`rows` are those of an epoch of each source. Raises UsageError for weights that can't be."""
        for weight in weights:
            if not np.isfinite(weight) or weight <= 0:
                raise UsageError(f"weights must be positive numbers, got {weight!r}: leave out what has none")
        self._seed = seed
        self._cycles: OrderedDict[tuple[int, int], tuple[_Ids, _Ids]] = OrderedDict()
        self._lock = threading.Lock()
        self._regimes = [_Regime(0, _quotas(np.array(weights, float)), np.zeros(len(rows), np.int64))]
        self.rows = _ENDLESS
        if not repeat:
            self.rows = sum(rows)
            while self._regimes[-1].quotas.any():
                self._regimes.append(self._following(np.array(rows, np.int64), np.array(weights, float)))

    def sources(self, first: int, count: int) -> tuple[_Ids, _Ids]:
        """Return the source of each row [first, first + count), and which of that source's rows it is (int64)."""
        sources, numbers = np.empty(count, np.int64), np.empty(count, np.int64)
        done = 0
        while done < count:
            row = first + done
            which = max(i for i, regime in enumerate(self._regimes) if regime.first <= row)
            regime = self._regimes[which]
            end = self._regimes[which + 1].first if which + 1 < len(self._regimes) else _ENDLESS
            cycle, at = divmod(row - regime.first, CYCLE_ROWS)
            taken = min(count - done, CYCLE_ROWS - at, end - row)
            dealt, occurrence = self._cycle(which, cycle)
            part = dealt[at : at + taken]
            sources[done : done + taken] = part
            numbers[done : done + taken] = (
                regime.given[part] + cycle * regime.quotas[part] + occurrence[at : at + taken]
            )
            done += taken
        return sources, numbers

    def given(self, row: int) -> _Ids:
        """Return how many rows each source gave before `row`, int64 (sources,)."""
        which = max(i for i, regime in enumerate(self._regimes) if regime.first <= row)
        regime = self._regimes[which]
        cycle, at = divmod(row - regime.first, CYCLE_ROWS)
        dealt = self._cycle(which, cycle)[0][:at] if at else np.empty(0, np.int64)
        given: _Ids = regime.given + cycle * regime.quotas + np.bincount(dealt, minlength=len(regime.quotas))
        return given

    def _cycle(self, regime: int, cycle: int) -> tuple[_Ids, _Ids]:
        """Return the source of each row of a cycle, and how many rows of it came before in the cycle."""
        with self._lock:
            known = self._cycles.get((regime, cycle))
        if known is None:
            slots = np.empty(CYCLE_ROWS, np.int64)
            key = fold_all(_PLAN_VERSION, self._seed, regime, cycle)
            permute(CYCLE_ROWS, key, np.arange(CYCLE_ROWS, dtype=np.int64), slots)
            ends = np.cumsum(self._regimes[regime].quotas)
            dealt = np.searchsorted(ends, slots, side="right").astype(np.int64)
            by_source = np.argsort(dealt, kind="stable")
            occurrence = np.empty(CYCLE_ROWS, np.int64)
            occurrence[by_source] = np.arange(CYCLE_ROWS) - (ends - self._regimes[regime].quotas)[dealt[by_source]]
            known = (dealt, occurrence)
            with self._lock:
                self._cycles[regime, cycle] = known
                while len(self._cycles) > _KEPT_CYCLES:
                    self._cycles.popitem(last=False)
        return known

    def _following(self, rows: _Ids, weights: NDArray[np.float64]) -> _Regime:
        """Return the regime that begins when the first source of the last one has given its last row."""
        which = len(self._regimes) - 1
        regime = self._regimes[which]
        left = rows - regime.given
        alive = np.flatnonzero(regime.quotas)
        cycles, rests = np.divmod(left[alive] - 1, regime.quotas[alive])
        cycle = int(cycles.min())  # sources that last longer end in later cycles
        dealt, occurrence = self._cycle(which, cycle)
        last_of = np.full(len(rows), -1, np.int64)
        last_of[alive[cycles == cycle]] = rests[cycles == cycle]
        end = regime.first + cycle * CYCLE_ROWS + int(np.argmax(occurrence == last_of[dealt])) + 1
        given = self.given(end)
        return _Regime(end, _quotas(np.where(given < rows, weights, 0.0)), given)


def _quotas(weights: NDArray[np.float64]) -> _Ids:
    """Return the rows of a cycle that each source has, by the largest remainders; those of weight 0 have none.

    Raises:
        UsageError: A weight is too small to have a row in each cycle.
    """
    quotas: _Ids = np.zeros(len(weights), np.int64)
    if not weights.any():
        return quotas
    # Against the largest first: a sum of finite weights may be beyond float64.
    scaled = weights / weights.max()
    shares = scaled / math.fsum(scaled.tolist()) * CYCLE_ROWS
    quotas[:] = np.floor(shares + _ROUNDING)
    small = np.flatnonzero((quotas == 0) & (weights > 0))
    if len(small):
        least = int(small[np.argmin(weights[small])])
        one_in = CYCLE_ROWS / max(float(shares[least]), 1e-300)
        raise UsageError(
            f"weight {float(weights[least])!r} is 1 row in {one_in:.6g} of this "
            f"mix of {len(weights)} sources, and rows are dealt {CYCLE_ROWS} at a time: each source needs at least 1 "
            f"row in {CYCLE_ROWS}. Give it more, leave it out, or join sources into one dataset"
        )
    order = np.argsort(-(shares - quotas), kind="stable")
    order = order[weights[order] > 0]
    quotas[order[: CYCLE_ROWS - int(quotas.sum())]] += 1
    return quotas
