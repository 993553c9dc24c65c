"""Raise before the system kills the process for its memory, and say who has it."""

from __future__ import annotations

import gc
import os
import threading
import time

from toolkit.errors import LoaderError, UsageError
from toolkit.memory.budget import process_budget
from toolkit.memory.holding import debug_batches, held_text
from toolkit.memory.sizes import parse_bytes, size_text
from toolkit.memory.system import MemoryLevel, SystemMemory, trim_heap

__all__ = ["MemoryGuard", "check_memory", "set_memory_guard"]

# Between looks, of all threads together: one costs a tenth of a millisecond.
_MOST_SECONDS = 0.05
_LEAST_SECONDS = 0.002
_BYTES_A_SECOND = 8 << 30  # that threads may fill: looks come closer as the slack shrinks


class MemoryGuard:
    """Looks at the memory that is in use, now and then. Safe from any thread.

    Attributes:
        limit: Of this process's own memory, in bytes; None: the system's limits alone.
    """

    def __init__(self, limit: int | None, system: SystemMemory) -> None:
        self.limit = limit
        self._system = system
        self._lock = threading.Lock()
        self._next = 0.0
        self._trouble: str | None = None

    def check(self) -> None:
        """Raise LoaderError when memory ran short at the last look; have one if it is time."""
        if time.monotonic() >= self._next and self._lock.acquire(blocking=False):
            try:
                self._trouble, slack = self._look()
                pause = max(_LEAST_SECONDS, min(_MOST_SECONDS, slack / _BYTES_A_SECOND))
                self._next = time.monotonic() + pause
            finally:
                self._lock.release()
        if self._trouble is not None:
            raise LoaderError(self._trouble)

    def _look(self) -> tuple[str | None, int]:
        """Return what is wrong, if anything, and how many bytes may be taken until something is."""
        level = self._level()
        if level is not None and level.slack < 0:
            process_budget().reclaim()
            gc.collect()  # cycles may keep batches alive
            trim_heap()
            level = self._level()
        if level is None:  # /proc went away
            return None, _BYTES_A_SECOND
        return (self._text(level) if level.slack < 0 else None), level.slack

    def _level(self) -> MemoryLevel | None:
        if self.limit is None:
            return self._system.tightest()
        own = self._system.own_bytes() or 0
        return MemoryLevel(self.limit, own, self.limit - own, "toolkit.set_memory_guard()")

    def _text(self, level: MemoryLevel) -> str:
        own, owned = self._system.own_bytes() or 0, process_budget().used
        batches = sorted(debug_batches(), key=lambda batch: -batch.nbytes)
        held, ahead = (sum(each.nbytes for each in batches if each.delivered is done) for done in (True, False))
        parts = [
            f"batches that the program holds {size_text(held)}",
            f"batches in flight, filled or not, {size_text(ahead)}",
            f"other memory of loaders {size_text(max(0, owned - held - ahead))}",
            f"the rest of the program {size_text(max(0, own - max(owned, held + ahead)))}",
        ]
        others = f"; other processes have {size_text(level.used - own)}" if level.used > own else ""
        largest = f"The largest batches: {held_text(batches)}. " if batches else ""
        return (
            f"memory runs out: {level}. This process has {size_text(own)} of it: {', '.join(parts)}{others}. {largest}"
            "Let go of batches, or allow loaders less with max_bytes= or toolkit.set_memory_limit(), or find what "
            "grows in the rest, or allow the process more"
        )


_guard: MemoryGuard | None = None


def check_memory() -> None:
    """Raise LoaderError when a guard is set and memory runs short. Takes microseconds."""
    if _guard is not None:
        _guard.check()


def set_memory_guard(limit: str | int | None) -> None:
    """Let loops over loaders and token streams raise a LoaderError before the system kills this process.

    "auto" goes by the limits that end in a kill: those of the control groups that the process is in (a container's, a
    job's) and the machine's memory, where cached files, which the system can drop, count as room. It raises when a
    twentieth of a limit is left, of a large one 1 GiB. A size, in bytes or text as in "12GiB", is a limit of this
    process's own memory, anonymous and shared. None lifts the guard. The error says who has how much, batches by name.

    A look takes a tenth of a millisecond; there is one in 50 ms while a loader works, more of them when less than half
    a GiB is left. What a program takes at once, or without a loader at work, it can't see. It is not inherited through
    spawn.

    Raises:
        UsageError: It is no size, or the system doesn't tell: only Linux does.
    """
    global _guard
    if limit is None:
        _guard = None
        return
    if isinstance(limit, bool) or not isinstance(limit, int | str):
        raise UsageError(f"a memory guard is 'auto', a number of bytes, or text as in '12GiB', got {limit!r}")
    nbytes = None if limit == "auto" else parse_bytes(limit)
    if nbytes is not None and nbytes < 1:
        raise UsageError(f"a memory guard is at least 1 byte, got {limit!r}")
    system = SystemMemory()
    if system.own_bytes() is None:
        raise UsageError("a memory guard reads /proc, which this system doesn't have: it works on Linux")
    _guard = MemoryGuard(nbytes, system)


def _start_anew() -> None:
    """In a forked child: a lock that another thread held at that instant would never be released."""
    global _guard
    if _guard is not None:
        _guard = MemoryGuard(_guard.limit, _guard._system)


os.register_at_fork(after_in_child=_start_anew)
