"""What every column's way into a batch has in common: its memory, how a part is filled, errors with the place."""

from __future__ import annotations

import math
import threading
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image.program import Scratch
from toolkit._native.shards.fetch import FetchBuffer
from toolkit.errors import LoaderError, SampleError
from toolkit.loader.dataset.fetch import Fetcher, Located
from toolkit.loader.engine.stats import LoaderStats
from toolkit.memory.budget import Budget, OverBudgetError
from toolkit.memory.holding import Holding
from toolkit.memory.pool import Lend

__all__ = ["ColumnStage", "Part", "RunningCall", "WorkerMemory", "allocate", "block_bytes", "missing_value"]


_UNLIMITED = (1 << 63) - 1

MakeRoom = Callable[["WorkerMemory", int], None]


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A function of the user's own that a worker is in. `overdue()` is the error when it isn't back by the deadline."""

    deadline: float
    overdue: Callable[[], Exception]


class WorkerMemory:
    """One thread's reusable memory: fetched bytes and decode scratch. It is counted before it grows.

    Attributes:
        fetched, scratch: The memory.
        holding: The batch that is being filled.
        samples: How many of its samples at once.
        was_empty: Whether nothing was kept from parts before, when this one was begun.
        call: The function of the user's own that it is in.
        closed: Nobody waits for it any more: it enters no more functions.
    """

    fetched: FetchBuffer
    scratch: Scratch

    def __init__(self, budget: Budget | None = None, make_room: MakeRoom | None = None) -> None:
        """`make_room`: called when the budget has no room for so many bytes more; see Admission.make_room."""
        self._budget = budget or Budget()
        self._make_room = make_room
        self._counted = [0]  # shared with the finalizer
        weakref.finalize(self, _uncount, self._counted, self._budget).atexit = False
        self._in_use = threading.Lock()
        self.holding: Holding | None = None
        self.samples = 0
        self.was_empty = True
        self.call: RunningCall | None = None
        self.closed = False
        self._renew()

    def begin(self, holding: Holding, samples: int) -> None:
        """Begin to fill a part of a batch: end() must follow. Raises OverBudgetError, and StarvedError."""
        self._in_use.acquire()
        self.holding, self.samples, self.was_empty = holding, samples, not self.counted
        if self._budget.least_limit is None:
            self.scratch.limit = _UNLIMITED
            return
        try:
            self._need(self.fetched.nbytes + self.scratch.nbytes)
        except BaseException:
            self._in_use.release()
            raise
        self.scratch.limit = self.scratch.nbytes

    def end(self) -> None:
        """Count what the memory has grown to."""
        self._count(self.fetched.nbytes + self.scratch.nbytes)
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
        self._renew()
        self._count(0)

    def _renew(self) -> None:
        self.fetched, self.scratch = FetchBuffer(), Scratch()
        asks = _Asks(weakref.ref(self))  # the memory is gone with its last user, not with the next collection
        self.fetched.room, self.scratch.room = asks.to_fetch, asks.to_decode

    def _need(self, nbytes: int) -> None:
        """Count so many bytes in all, before they are taken. Raises OverBudgetError."""
        more = nbytes - self.counted
        if more > 0:
            if not self._budget.charge(more):
                if self._make_room is None:
                    raise OverBudgetError(f"no room for {more} bytes")
                self._make_room(self, more)
            self._counted[0] += more

    @property
    def counted(self) -> int:
        """Bytes of it that the budget knows of."""
        return self._counted[0]

    def _count(self, nbytes: int) -> None:
        if nbytes != self.counted:
            self._budget.add(nbytes - self.counted)
            self._counted[0] = nbytes

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


@dataclass(frozen=True, slots=True)
class _Asks:
    """What fetched bytes and scratch ask before they grow."""

    memory: weakref.ref[WorkerMemory]

    def to_fetch(self, nbytes: int) -> None:
        memory = self.memory()
        if memory is not None:
            memory._need(nbytes + memory.scratch.nbytes)

    def to_decode(self, nbytes: int) -> str | None:
        memory = self.memory()
        try:
            if memory is not None:
                memory._need(memory.fetched.nbytes + nbytes)
        except OverBudgetError as error:
            if memory is None or memory.samples > 1 or not memory.was_empty:
                raise  # fewer at once, and empty memory, take less
            return str(error)  # the picture's own fault: it is refused, and the others go on
        return None


@dataclass(frozen=True, slots=True)
class Part:
    """Samples of a batch that one worker fills.

    Attributes:
        start: Where in the batch they begin.
        located: Where they are stored.
        epoch: The batch's epoch.
        positions: int64 (n,): their positions in the epoch's order.
        present: bool of the whole batch by name of an optional slot, to be filled as the columns are.
    """

    start: int
    located: Located
    epoch: int
    positions: NDArray[np.int64]
    present: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def places(self) -> slice:
        """The samples' places in the batch."""
        return slice(self.start, self.start + len(self.positions))


class ColumnStage(ABC):
    """One column's way into batches. Stateless between parts; used by every worker at once.

    Attributes:
        name: What it is called in batches.
        optional: Whether samples may lack it: then Part.present has its name.
        dtype: Of the arrays it fills, "bfloat16" where their uint16 mean that; None for lists of other things.
        laid_out: Whether a batch needs lay_out().
        largest_part: Samples that one call of fill() takes at the most; bounds how long close() and Ctrl-C wait.
    """

    optional = False
    dtype: str | None = None
    laid_out = False
    largest_part = 256

    def __init__(self, name: str, fetcher: Fetcher, stats: LoaderStats) -> None:
        self.name = name
        self._fetcher = fetcher
        self._stats = stats

    @abstractmethod
    def allocate(self, samples: int, lend: Lend) -> Any:
        """Return the place for a batch of `samples`: an array over one block, or a list."""

    @abstractmethod
    def block_bytes(self, samples: int) -> int | None:
        """Return the size of that block, or None for a list."""

    def lay_out(self, place: Any, located: Located, where: NDArray[np.int64]) -> None:  # noqa: B027  # few ask for it
        """Get ready for a batch, before the first of its parts: its sample where[i] is stored at row i of `located`.

        Samples whose shards can't be opened are not among them.
        """

    def late_bytes(self, located: Located) -> int:
        """Return the size of the block that lay_out() will lend for those samples."""
        return 0

    @abstractmethod
    def fill(self, place: Any, part: Part, memory: WorkerMemory) -> None:
        """Fill place[part.places]. Raises CorruptShardError, SampleError."""

    def blank(self, place: Any, start: int, stop: int) -> None:
        """Empty the places from `start` to `stop`: memory is lent with what was in it before."""
        place[start:stop] = [None] * (stop - start) if isinstance(place, list) else 0

    def finish(self, place: Any) -> Any:
        """Return what the consumer gets of a place that is filled."""
        return place

    def _failed(self, row: int, step: str, what: str) -> SampleError:
        place = self._fetcher.place(row)
        return SampleError(
            f"{place}, slot {self.name!r}, step {step}: {what}",
            dataset=place.dataset,
            shard=place.shard,
            row=place.row,
            key=place.key,
            slot=self.name,
            step=step,
        )


def allocate(shape: tuple[int, ...] | None, dtype: np.dtype[Any] | None, samples: int, lend: Lend) -> Any:
    """Return a block's array (samples, *shape), or a list of `samples` places where there is no shape."""
    nbytes = block_bytes(shape, dtype, samples)
    if shape is None or dtype is None or nbytes is None:
        return [None] * samples
    return lend(nbytes).view(dtype).reshape((samples, *shape))


def block_bytes(shape: tuple[int, ...] | None, dtype: np.dtype[Any] | None, samples: int) -> int | None:
    """Return how large that block is, or None where there is no shape."""
    if shape is None or dtype is None:
        return None
    return math.prod((samples, *shape)) * dtype.itemsize


def _uncount(counted: list[int], budget: Budget) -> None:
    budget.release(counted[0])


def missing_value(column: str) -> str:
    """Return what is said of a null where a value has to be."""
    return (
        f"the value is missing. Give it a slot that may lack it, slot({column!r}, optional=True), "
        "or read only columns that are complete"
    )
