"""Lend 64-byte-aligned blocks for batches, and take them back when the last array over a block is gone.

A fresh 40 MB buffer a batch costs ten thousand page faults; a block that comes back costs none. 64 bytes is what JAX
needs to alias host memory, and one cache line.
"""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit._native.memory.lease import GiveBack, when_gone
from toolkit.memory.budget import Budget

__all__ = ["ALIGNMENT", "Allocate", "BlockPool", "Lend", "NoRoomError", "aligned"]

ALIGNMENT = 64
_KEPT_IDLE = 64 << 20  # between two iterations: more would be missed by whoever has several loaders


class Lend(Protocol):
    """Lends memory, as BlockPool.lend does."""

    def __call__(self, nbytes: int, *, late: bool = False) -> NDArray[np.uint8]:
        """Return a writable uint8 array of `nbytes` on a 64-byte boundary; its content is undefined."""


# Returns such an array, which owns its memory.
Allocate = Callable[[int], NDArray[np.uint8]]
_Free = defaultdict[int, deque[NDArray[np.uint8]]]


class NoRoomError(Exception):
    """The budget has no room for a block now."""


class BlockPool:
    """Lends blocks by size. Owns blocks that are free; a lent block is owned by the arrays over it. Both are charged.

    At most `keep` free blocks of a size are kept, none of them when the budget runs short. Safe from any thread: a
    deque's ends are atomic, and a garbage collection may give a block back at any instruction, so nothing here takes a
    lock.
    """

    def __init__(self, keep: int, budget: Budget | None = None, allocate: Allocate | None = None) -> None:
        self._keep = keep
        self._allocate = allocate or aligned
        self._idle = False
        self._keep_idle = _KEPT_IDLE
        self._budget = budget or Budget()
        self._free: _Free = defaultdict(deque)
        self._budget.on_pressure(self.drop_free)
        weakref.finalize(self, _drop_free, self._free, self._budget).atexit = False

    def lend(self, nbytes: int, *, late: bool = False, returned: Callable[[], None] | None = None) -> NDArray[np.uint8]:
        """Return a writable uint8 array of `nbytes` on a 64-byte boundary; its content is undefined.

        `late`: a batch that was let in needs it, whether it fits or not.
        `returned` is called when the last array over it is gone: from any thread, at any instruction. It should be
        compiled: see lease.pyx.

        Raises:
            NoRoomError: The budget refuses, with all free blocks given back.
        """
        self._idle = False
        free = self._free[nbytes]
        try:
            block = free.pop()
        except IndexError:
            if not self._budget.charge(nbytes):
                self._budget.reclaim()
                if late:
                    self._budget.add(nbytes)
                elif not self._budget.charge(nbytes):
                    raise NoRoomError from None
            try:
                block = self._allocate(nbytes)
            except BaseException:
                self._budget.release(nbytes)
                raise
        # Through its memoryview, so that every view keeps this array alive: numpy would tie them to `block` itself.
        lease = np.frombuffer(block.data, np.uint8)
        when_gone(lease, GiveBack(weakref.ref(self), free, block, returned, self._budget.puts))
        return lease

    @property
    def free_bytes(self) -> int:
        """Bytes of the free blocks, which count already."""
        return sum(nbytes * len(blocks) for nbytes, blocks in list(self._free.items()))

    def drop_free(self) -> bool:
        """Give back the memory of all free blocks; were there any?"""
        return _drop_free(self._free, self._budget)

    def trim(self) -> None:
        """Give free blocks back but for 64 MiB, and those that come back until the next is lent. Takes no lock.

        An epoch's blocks spare the next one the page faults of fresh memory.
        """
        self._idle = True
        _drop_free(self._free, self._budget, self._keep_idle)

    def close(self) -> None:
        """Keep no free blocks any more."""
        self._keep = 0
        self.drop_free()


def _drop_free(free: _Free, budget: Budget, keep: int = 0) -> bool:
    dropped = False
    for nbytes, blocks in list(free.items()):
        while blocks:
            if keep >= nbytes * len(blocks):
                keep -= nbytes * len(blocks)
                break
            try:
                budget.release(blocks.pop().nbytes)
                dropped = True
            except IndexError:  # another thread took it
                break
    return dropped


def aligned(nbytes: int) -> NDArray[np.uint8]:
    """Return a uint8 array of `nbytes` on a 64-byte boundary; its content is undefined."""
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]
