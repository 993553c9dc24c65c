"""Lend 64-byte-aligned blocks for batches, and take them back when the last array over a block is gone.

A fresh 40 MB buffer a batch costs ten thousand page faults; a block that comes back costs none. 64 bytes is what JAX
needs to alias host memory, and one cache line.
"""

from __future__ import annotations

import weakref
from collections import defaultdict, deque

import numpy as np
from numpy.typing import NDArray

__all__ = ["ALIGNMENT", "BlockPool"]

ALIGNMENT = 64


class BlockPool:
    """Lends blocks by size. Owns blocks that are free; a lent block is owned by the arrays over it.

    At most `keep` free blocks of a size are kept. Safe from any thread: a deque's ends are atomic, and a garbage
    collection may give a block back at any instruction, so nothing here takes a lock.
    """

    def __init__(self, keep: int) -> None:
        self._keep = keep
        self._free: defaultdict[int, deque[NDArray[np.uint8]]] = defaultdict(deque)

    def lend(self, nbytes: int) -> NDArray[np.uint8]:
        """Return a writable uint8 array of `nbytes` on a 64-byte boundary; its content is undefined."""
        free = self._free[nbytes]
        try:
            block = free.pop()
        except IndexError:
            block = _aligned(nbytes)
        # Through its memoryview, so that every view keeps this array alive: numpy would tie them to `block` itself.
        lease = np.frombuffer(block.data, np.uint8)
        finalizer = weakref.finalize(lease, _give_back, weakref.ref(self), free, block)
        finalizer.atexit = False
        return lease


def _give_back(pool: weakref.ref[BlockPool], free: deque[NDArray[np.uint8]], block: NDArray[np.uint8]) -> None:
    owner = pool()
    if owner is not None and len(free) < owner._keep:
        free.append(block)


def _aligned(nbytes: int) -> NDArray[np.uint8]:
    raw = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + nbytes]
