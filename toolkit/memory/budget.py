"""Count bytes against a limit: a loader's, and below it the process's.

Memory is given back by finalizers, which a garbage collection may run at any instruction, also in a thread that holds
the lock here. So what comes back goes through a SimpleQueue, whose put() is reentrant, and is counted by the next look.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections.abc import Callable

from toolkit.errors import LoaderError, UsageError
from toolkit.memory.sizes import parse_bytes

__all__ = ["Budget", "OverBudgetError", "process_budget", "set_memory_limit"]

_LOOK_SECONDS = 0.05  # another budget over the same limit may have taken the news that something came back
_NAP_SECONDS = 0.0005  # between two looks of one who waits


class OverBudgetError(LoaderError):
    """What a sample takes can't fit beside its batch, whatever else goes."""


class Budget:
    """Bytes in use, and the most they may be. Safe from any thread; release() from finalizers too.

    Attributes:
        limit: In bytes; None counts only.
        parent: Charged as well; it may refuse as well.
    """

    def __init__(self, limit: int | None = None, parent: Budget | None = None) -> None:
        self.limit = limit
        self.parent = parent
        self._used = 0
        self._peak = 0
        self._lock = threading.Lock()
        self._returned: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._unused: list[weakref.WeakMethod[Callable[[], bool]]] = []
        self._prefetched: list[weakref.WeakMethod[Callable[[], bool]]] = []
        #: What release() calls, for finalizers that must not run Python: the put() of each queue.
        self.puts: tuple[Callable[[int], object], ...] = (self._returned.put, *(parent.puts if parent else ()))

    @property
    def used(self) -> int:
        """Bytes in use now."""
        with self._lock:
            self._count_returned()
            return self._used

    @property
    def peak(self) -> int:
        """The most bytes that were in use at once."""
        return self._peak

    @property
    def is_over(self) -> bool:
        """Whether more is in use, here or in the parent, than may be: what was counted only after it was needed."""
        return not self.has_room(0)

    @property
    def least_limit(self) -> int | None:
        """The smaller of its own and its parent's limit."""
        above = None if self.parent is None else self.parent.limit
        if self.limit is None or above is None:
            return above if self.limit is None else self.limit
        return min(self.limit, above)

    @property
    def share(self) -> int | None:
        """What is fair to plan with: its own limit, or an equal part of its parent's for each who prefetches."""
        above = None if self.parent is None else self.parent.limit
        if self.parent is None or above is None:
            return self.limit
        with self.parent._lock:
            sharers = sum(each() is not None for each in self.parent._prefetched)
        shared = above // max(1, sharers)
        return shared if self.limit is None else min(self.limit, shared)

    def charge(self, nbytes: int) -> bool:
        """Count `nbytes` more if they fit; did they?"""
        with self._lock:
            self._count_returned()
            if self.limit is not None and self._used + nbytes > self.limit:
                return False
            if self.parent is not None and not self.parent.charge(nbytes):
                return False
            self._add(nbytes)
        return True

    def has_room(self, nbytes: int) -> bool:
        """Whether `nbytes` more would fit now."""
        return self.has_own_room(nbytes) and (self.parent is None or self.parent.has_room(nbytes))

    def has_own_room(self, nbytes: int) -> bool:
        """Whether they would, but for the parent."""
        return self.limit is None or self.used + nbytes <= self.limit

    def add(self, nbytes: int) -> None:
        """Count `nbytes` that are in use already, whether they fit or not; less when negative."""
        if nbytes < 0:
            self.release(-nbytes)
            return
        with self._lock:
            self._count_returned()
            if self.parent is not None:
                self.parent.add(nbytes)
            self._add(nbytes)

    def release(self, nbytes: int) -> None:
        """Give back `nbytes`. Takes no lock."""
        for put in self.puts:
            put(nbytes)

    def wait(self) -> None:
        """Return when something came back, or after a short while.

        It looks, and doesn't wait for the queue: where another thread takes what woke it, CPython's
        SimpleQueue.get(timeout) may find its time over and wait on without end.
        """
        waited = self if self.parent is None or self.limit is not None else self.parent
        until = time.monotonic() + _LOOK_SECONDS
        while waited._returned.empty() and time.monotonic() < until:
            time.sleep(_NAP_SECONDS)

    def on_pressure(self, reclaim: Callable[[], bool], *, prefetched: bool = False) -> None:
        """Call a method, as long as its object lives, when memory runs short; it says whether it gave any back.

        `prefetched`: what it gives back has to be made again, so it is asked only where nothing else goes on.
        """
        top = self.parent or self
        with top._lock:
            known = top._prefetched if prefetched else top._unused
            known[:] = [*(each for each in known if each() is not None), weakref.WeakMethod(reclaim)]

    def reclaim(self, *, prefetched: bool = False) -> bool:
        """Let everybody give back unused memory, or prefetched batches; did anybody?"""
        top = self.parent or self
        with top._lock:
            known = list(top._prefetched if prefetched else top._unused)
        methods = [method for method in (each() for each in known) if method is not None]
        given = [method() for method in methods]  # all are asked
        return any(given)

    def _add(self, nbytes: int) -> None:
        self._used += nbytes
        self._peak = max(self._peak, self._used)

    def _count_returned(self) -> None:
        while True:
            try:
                self._used -= self._returned.get_nowait()
            except queue.Empty:
                return


_process = Budget()


def process_budget() -> Budget:
    """Return the budget that every loader of this process shares."""
    return _process


def set_memory_limit(limit: str | int | None) -> None:
    """Let all loaders of this process together own at most this: bytes, or text as in "8GiB"; None lifts the limit.

    Loaders that exist go by it from their next batch on. It is not inherited through spawn.

    Raises:
        UsageError: It is no size.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | str)):
        raise UsageError(f"a memory limit is a number of bytes or text as in '8GiB', got {limit!r}")
    nbytes = None if limit is None else parse_bytes(limit)
    if nbytes is not None and nbytes < 1:
        raise UsageError(f"a memory limit is at least 1 byte, got {limit!r}")
    _process.limit = nbytes


def _start_anew() -> None:
    """In a forked child: its loaders are its own, and a lock held at that instant would never be released."""
    global _process
    _process = Budget(_process.limit)


os.register_at_fork(after_in_child=_start_anew)
