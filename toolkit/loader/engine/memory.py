"""What a worker keeps from part to part: counted in the budget before it grows, and given back where it runs short."""

from __future__ import annotations

import math
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass

from toolkit.errors import LoaderError
from toolkit.memory.budget import Budget, OverBudgetError
from toolkit.memory.holding import Holding

__all__ = ["MakeRoom", "RunningCall", "WorkerMemory"]

MakeRoom = Callable[["WorkerMemory", int], None]


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A function of the user's own that a worker is in. `overdue()` is the error when it isn't back by the deadline."""

    deadline: float
    overdue: Callable[[], Exception]


class WorkerMemory:
    """One thread's reusable memory. What it is, a filler says whose workers need some.

    Attributes:
        holding: The batch that is being filled.
        places: How many of its places at once.
        was_empty: Whether nothing was kept from parts before, when this one was begun.
        call: The function of the user's own that it is in.
        closed: Nobody waits for it any more: it enters no more functions.
    """

    def __init__(self, budget: Budget | None = None, make_room: MakeRoom | None = None) -> None:
        """`make_room`: called when the budget has no room for so many bytes more; see Admission.make_room."""
        self._budget = budget or Budget()
        self._make_room = make_room
        self._counted = [0]  # shared with the finalizer
        weakref.finalize(self, _uncount, self._counted, self._budget).atexit = False
        self._in_use = threading.Lock()
        self.holding: Holding | None = None
        self.places = 0
        self.was_empty = True
        self.call: RunningCall | None = None
        self.closed = False
        self.renew()

    @property
    def nbytes(self) -> int:
        """Bytes that the memory has grown to."""
        return 0

    @property
    def counted(self) -> int:
        """Bytes of it that the budget knows of."""
        return self._counted[0]

    def renew(self) -> None:
        """Let go of the memory, and begin with none."""

    def bound(self, limited: bool) -> None:
        """Say whether it has to be counted before it grows, from here on."""

    def begin(self, holding: Holding, places: int) -> None:
        """Begin to fill a part of a batch: end() must follow. Raises OverBudgetError, and StarvedError."""
        self._in_use.acquire()
        self.holding, self.places, self.was_empty = holding, places, not self.counted
        limited = self._budget.least_limit is not None
        if limited:
            try:
                self.need(self.nbytes)
            except BaseException:
                self._in_use.release()
                raise
        self.bound(limited)

    def end(self) -> None:
        """Count what the memory has grown to."""
        self._count(self.nbytes)
        if self.counted and self._budget.is_over:
            self._budget.reclaim()
            if self._budget.is_over:
                self.free()
        self._in_use.release()

    def give_back(self) -> None:
        """Free the memory, unless a part is being filled with it."""
        if self.counted and self._in_use.acquire(blocking=False):
            try:
                self.free()
            finally:
                self._in_use.release()

    def free(self) -> None:
        """Give it back: the next part makes it anew."""
        self.renew()
        self._count(0)

    def need(self, nbytes: int) -> None:
        """Count so many bytes in all, before they are taken. Raises OverBudgetError."""
        more = nbytes - self.counted
        if more > 0:
            if not self._budget.charge(more):
                if self._make_room is None:
                    raise OverBudgetError(f"no room for {more} bytes")
                self._make_room(self, more)
            self._counted[0] += more

    def enter(self, timeout: float | None, overdue: Callable[[float], Exception]) -> None:
        """Note that a function of the user's own begins, which may take `timeout` seconds. Raises LoaderError."""
        if self.closed:
            raise LoaderError("the loader was closed")
        if timeout is None:
            self.call = RunningCall(math.inf, lambda: overdue(math.inf))
        else:
            self.call = RunningCall(time.monotonic() + timeout, lambda: overdue(timeout))

    def leave(self) -> None:
        """Note that it is back."""
        self.call = None

    def _count(self, nbytes: int) -> None:
        if nbytes != self.counted:
            self._budget.add(nbytes - self.counted)
            self._counted[0] = nbytes


def _uncount(counted: list[int], budget: Budget) -> None:
    budget.release(counted[0])
