"""Lend 64-byte-aligned blocks for batches, and take them back when the last array over a block is gone.

A fresh 40 MB buffer a batch costs ten thousand page faults; a block that comes back costs none. 64 bytes is what JAX
needs to alias host memory, and one cache line.
"""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from toolkit._native.lease import GiveBack, when_gone
from toolkit.memory.budget import Budget

__all__ = ["ALIGNMENT", "BlockPool", "Lend", "NoRoomError"]

ALIGNMENT = 64

# Returns a writable uint8 array of so many bytes on a 64-byte boundary; its content is undefined.
Lend = Callable[[int], NDArray[np.uint8]]
_Free = defaultdict[int, deque[NDArray[np.uint8]]]


class NoRoomError(Exception):
    """The budget has no room for a block now."""


class BlockPool:
    """Lends blocks by size. Owns blocks that are free; a lent block is owned by the arrays over it. Both are charged.

    At most `keep` free blocks of a size are kept, none of them when the budget runs short. Safe from any thread: a
    deque's ends are atomic, and a garbage collection may give a block back at any instruction, so nothing here takes a
    lock.
    """

    def __init__(self, keep: int, budget: Budget | None = None) -> None:
        self._keep = keep
        self._budget = budget or Budget()
        self._free: _Free = defaultdict(deque)
        self._budget.on_pressure(self.drop_free)
        weakref.finalize(self, _drop_free, self._free, self._budget).atexit = False

    def lend(self, nbytes: int, returned: Callable[[], None] | None = None) -> NDArray[np.uint8]:
        """Return a writable uint8 array of `nbytes` on a 64-byte boundary; its content is undefined.

        `returned` is called when the last array over it is gone: from any thread, at any instruction. It should be
        compiled: see lease.pyx.

        Raises:
            NoRoomError: The budget refuses, with all free blocks given back.
        """
        free = self._free[nbytes]
        try:
            block = free.pop()
        except IndexError:
            if not self._budget.charge(nbytes):
                self._budget.reclaim()
                if not self._budget.charge(nbytes):
                    raise NoRoomError from None
            block = _aligned(nbytes)
        # Through its memoryview, so that every view keeps this array alive: numpy would tie them to `block` itself.
        lease = np.frombuffer(block.data, np.uint8)
        when_gone(lease, GiveBack(weakref.ref(self), free, block, returned, self._budget.puts))
        return lease

    def drop_free(self) -> bool:
        """Give back the memory of all free blocks; were there any?"""
        return _drop_free(self._free, self._budget)

    def close(self) -> None:
        """Keep no free blocks any more."""
        self._keep = 0
        self.drop_free()


def _drop_free(free: _Free, budget: Budget) -> bool:
    dropped = False
    for blocks in list(free.values()):
        while blocks:
            try:
                budget.release(blocks.pop().nbytes)
                dropped = True
            except IndexError:  # another thread took it
                break
    return dropped


def _aligned(nbytes: int) -> NDArray[np.uint8]:
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]
