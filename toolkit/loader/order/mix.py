"""Which source each row of a mix comes from: by weights, in closed form, so that a mix is resumed by its position.

Rows are dealt in blocks. In each, every source has a quota of rows that follows its weight, and after any row of it has
given its share of the rows so far, to two rows (toolkit/_native/order/deal.pyx says how). What any source has given
before a block is arithmetic. A block in which a source ends is as long as the rows that are left for it: the others are
dealt at the pace that they had, and behind it a table with the weights of those that are left begins.
"""

from __future__ import annotations

import enum
import math
import threading
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit._native.order.deal import deal
from toolkit.errors import UsageError
from toolkit.pipelines.randomness import fold_all

__all__ = ["BLOCK_ROWS", "MOST_BLOCK_ROWS", "Exhausted", "MixPlan"]

BLOCK_ROWS = 4096
MOST_BLOCK_ROWS = 1 << 20
_LEAST_QUOTA = 64  # of a block's rows, so that rounding changes no share by more than a hundredth
_PLAN_VERSION = 2
_ENDLESS = 1 << 60
_KEPT_ROWS = 1 << 21  # of blocks that were dealt, but one at least
_ROUNDING = 2.0**-30  # rows: what float64 may miss of a share that is a whole number

_Ids = NDArray[np.int64]


class Exhausted(enum.Enum):
    """What a mix does when a source has given its last row: begins it anew, goes on without it, or ends."""

    REPEAT = "repeat"
    CONTINUE = "continue"
    STOP = "stop"


class _Table(NamedTuple):
    """Rows from `first` on, in blocks of `block` rows of which each source has its quota; `given` is what it gave
    before. Behind `blocks` of them comes one in which a source ends, `last` rows long.
    """

    first: int
    block: int
    quotas: _Ids
    given: _Ids
    blocks: int
    last: int


class MixPlan:
    """The rows of a mix. Safe from any thread.

    Attributes:
        rows: Rows of the mix: all of every source, or those before the first one ends; 2**60 when sources repeat.
    """

    def __init__(self, rows: Sequence[int], weights: Sequence[float], seed: int, exhausted: Exhausted) -> None:
        """`rows` are those of each source until it ends. Raises UsageError for weights that can't be."""
        for weight in weights:
            if not np.isfinite(weight) or weight <= 0:
                raise UsageError(f"weights must be positive numbers, got {weight!r}: leave out what has none")
        self._seed = seed
        self._dealt: OrderedDict[tuple[int, int], tuple[NDArray[np.int32], NDArray[np.int32]]] = OrderedDict()
        self._kept = 0
        self._lock = threading.Lock()
        shares = np.array(weights, np.float64)
        shares = shares / shares.max()  # first: a sum of finite weights may be beyond float64
        if exhausted is Exhausted.REPEAT:
            block, quotas = _quotas(shares, weights)
            self._tables = [_Table(0, block, quotas, np.zeros(len(rows), np.int64), _ENDLESS, 0)]
            self.rows = _ENDLESS
        else:
            self._tables = _tables(np.array(rows, np.int64), shares, weights)
            end = self._tables[-1]
            self.rows = end.first + end.blocks * end.block + end.last
        self._firsts = [table.first for table in self._tables]
        if exhausted is Exhausted.STOP:
            self.rows = self._first_end(np.array(rows, np.int64))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_dealt": OrderedDict(), "_kept": 0, "_lock": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def sources(self, first: int, count: int) -> tuple[_Ids, _Ids]:
        """Return the source of each row [first, first + count), and which of that source's rows it is (int64)."""
        sources, numbers = np.empty(count, np.int64), np.empty(count, np.int64)
        done = 0
        while done < count:
            number, table, block, at = self._place(first + done)
            dealt, occurrence = self._block(number, block)
            part = dealt[at : at + count - done]
            sources[done : done + len(part)] = part
            before = table.given + block * table.quotas
            numbers[done : done + len(part)] = before[part] + occurrence[at : at + len(part)]
            done += len(part)
        return sources, numbers

    def given(self, row: int) -> _Ids:
        """Return how many rows each source gave before `row`, int64 (sources,)."""
        number, table, block, at = self._place(row)
        dealt = self._block(number, block)[0][:at] if at else np.empty(0, np.int32)
        given: _Ids = table.given + block * table.quotas + np.bincount(dealt, minlength=len(table.quotas))
        return given

    def _place(self, row: int) -> tuple[int, _Table, int, int]:
        """Return the number of the table of a row, the table, the block of it, and the row's place in that."""
        number = bisect_right(self._firsts, row) - 1
        table = self._tables[number]
        block, at = divmod(row - table.first, table.block)
        return number, table, block, at

    def _block(self, number: int, block: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return the source of each row of a block, and how many rows of it came before in the block."""
        with self._lock:
            known = self._dealt.get((number, block))
        if known is None:
            table = self._tables[number]
            dealt, occurrence = np.empty(table.block, np.int32), np.empty(table.block, np.int32)
            deal(fold_all(_PLAN_VERSION, self._seed, number, block), table.quotas, dealt, occurrence)
            if block == table.blocks:  # sources end in it
                left = self._tables[number + 1].given - (table.given + block * table.quotas)
                there = occurrence < left[dealt]
                dealt, occurrence = dealt[there], occurrence[there]
            known = (dealt, occurrence)
            with self._lock:
                if (number, block) not in self._dealt:
                    self._dealt[number, block] = known
                    self._kept += len(dealt)
                while self._kept > _KEPT_ROWS and len(self._dealt) > 1:
                    self._kept -= len(self._dealt.popitem(last=False)[1][0])
        return known

    def _first_end(self, rows: _Ids) -> int:
        """Return the row behind the first source's last one."""
        table = self._tables[0]
        dealt, occurrence = self._block(0, table.blocks)
        before = table.given + table.blocks * table.quotas
        ends = np.flatnonzero(before[dealt] + occurrence == rows[dealt] - 1)
        return table.first + table.blocks * table.block + int(ends[0]) + 1


def _tables(rows: _Ids, shares: NDArray[np.float64], weights: Sequence[float]) -> list[_Table]:
    """Return a table for every run of blocks without an end in it, and an empty one behind the last row."""
    given = np.zeros(len(rows), np.int64)
    first, tables = 0, []
    alive = np.flatnonzero(rows > 0)
    while len(alive):
        block, own = _quotas(shares[alive], weights)
        left = rows[alive] - given[alive]
        blocks = int(((left - 1) // own).min())  # in the block behind them a source ends
        ended = np.minimum(left - blocks * own, own)
        last = int(ended.sum())
        quotas = np.zeros(len(rows), np.int64)
        quotas[alive] = own
        tables.append(_Table(first, block, quotas, given, blocks, last))
        first += blocks * block + last
        given = given.copy()
        given[alive] += blocks * own + ended
        alive = alive[given[alive] < rows[alive]]
    tables.append(_Table(first, BLOCK_ROWS, np.zeros(len(rows), np.int64), given, 0, 0))
    return tables


def _quotas(shares: NDArray[np.float64], weights: Sequence[float]) -> tuple[int, _Ids]:
    """Return the rows of a block, and of them each source's by the largest remainders.

    Raises:
        UsageError: A weight is too small: one of `weights`, which are those of all sources. Where some have ended, the
            shares of the others have grown, so it comes with the first table or never.
    """
    parts = shares / math.fsum(shares.tolist())
    least = float(parts.min())
    block = max(BLOCK_ROWS, 1 << math.ceil(math.log2(_LEAST_QUOTA / max(least, 1e-300))))
    if block > MOST_BLOCK_ROWS:
        small = int(np.argmin(parts))
        raise UsageError(
            f"weight {float(weights[small])!r} is 1 row in {1 / max(least, 1e-300):.6g} of this mix of {len(parts)} "
            f"sources, and the least is 1 in {MOST_BLOCK_ROWS // _LEAST_QUOTA}: give it more, leave it out, or join "
            "sources into one dataset"
        )
    exact = parts * block
    quotas: _Ids = np.floor(exact + _ROUNDING).astype(np.int64)
    missing = block - int(quotas.sum())
    if missing:
        order = np.argsort(quotas - exact, kind="stable")
        quotas[order[:missing]] += 1
    return block, quotas
