"""Blocks of memory that a device driver has page-locked, so that copies from them run beside everything else.

Locked once and lent again and again: our own memory is locked where it lies, for torch's pinned allocator would round
each block up to a power of two, beyond what the budget counted.
"""

from __future__ import annotations

import mmap
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import LoaderError
from toolkit.memory.sizes import size_text

__all__ = ["CopyEvent", "HeldCopies", "PageLocked"]


class PageLocked:
    """Allocates blocks of whole pages, locks them, and unlocks them before their memory is freed.

    Owns nothing: a block lives as long as the array. `lock(address, nbytes)` raises RuntimeError where it can't.
    """

    def __init__(self, lock: Callable[[int, int], object], unlock: Callable[[int], object]) -> None:
        self._lock = lock
        self._unlock = unlock

    def allocate(self, nbytes: int) -> NDArray[np.uint8]:
        """Return uint8 (nbytes,) at the start of a page that no other block has a part of.

        Raises:
            LoaderError: The system doesn't let that much be locked.
        """
        page = mmap.PAGESIZE
        locked = max(1, -(-nbytes // page)) * page  # two locked ranges may not share a page
        raw = np.empty(locked + page, np.uint8)
        start = -raw.ctypes.data % page
        address = raw.ctypes.data + start
        try:
            self._lock(address, locked)
        except RuntimeError as error:
            raise LoaderError(
                f"the driver can't page-lock {size_text(locked)} for a batch: {error}. Allow this process to lock more "
                "(ulimit -l), take a smaller batch_size or prefetch, or leave device= out"
            ) from error
        weakref.finalize(raw, self._unlock, address).atexit = False  # runs before raw's memory is freed
        return raw[start : start + nbytes]


class CopyEvent(Protocol):
    """Passes when the copies before it are done: torch.cuda.Event."""

    def query(self) -> bool:
        """Whether it has passed."""

    def synchronize(self) -> None:
        """Return when it has passed."""


class HeldCopies:
    """Keeps what is copied from alive until the copy is done: the next batch's worker would else write there.

    Used by the consumer's thread. What is left when this is dropped is waited for.
    """

    def __init__(self) -> None:
        self._held: deque[tuple[CopyEvent, Any]] = deque()
        weakref.finalize(self, _wait_for_all, self._held).atexit = False

    def hold(self, event: CopyEvent, memory: Any) -> None:
        """Keep `memory` until `event` has passed. Events pass in the order they come here."""
        self._held.append((event, memory))

    def drop_done(self) -> None:
        """Let go of what is copied."""
        while self._held and self._held[0][0].query():
            self._held.popleft()


def _wait_for_all(held: deque[tuple[CopyEvent, Any]]) -> None:
    while held:
        held[0][0].synchronize()
        held.popleft()
