"""Let batches in while the budget has room for them; the one that is delivered next waits for what the consumer holds.

Batches are let in by the consumer's thread, in the order of delivery, whole: so what stands before the next batch is
only what was delivered already, and the loader can't lock itself up. Sizes of blocks are known before; what lies in
none is reserved at what places took so far and corrected when they are filled.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Generic

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import LoaderError
from toolkit.loader.engine.filler import Content, Filler, PlannedT
from toolkit.loader.engine.memory import WorkerMemory
from toolkit.memory.budget import Budget, OverBudgetError
from toolkit.memory.holding import Holding, Token, held_batches, held_text
from toolkit.memory.pool import BlockPool, Lend, NoRoomError
from toolkit.memory.sizes import size_text

__all__ = ["Admission", "Admitted", "GaveWayError", "StarvedError"]

_COLLECT_SECONDS = 0.25  # between collections while it waits: cycles may keep batches alive


@dataclass(slots=True)
class Admitted(Generic[Content]):
    """A batch's memory: its content, what that holds, and what stands for the batch's life."""

    content: Content
    holding: Holding
    token: Token | None


class GaveWayError(Exception):
    """A batch is made again later: its memory is needed for the one that is delivered next."""


class StarvedError(Exception):
    """There is no room now: the worker frees what it has, and begins its part anew when it is its turn to wait."""


class Admission(Generic[PlannedT, Content]):
    """Allocates batches within a budget. Used by the consumer's thread; note_filled() and `memories` by workers.

    Attributes:
        memories: Of the workers.
    """

    def __init__(
        self,
        filler: Filler[PlannedT, Content, Any],
        pool: BlockPool,
        budget: Budget,
        *,
        threads: int,
        hold_timeout: float,
        collect: Callable[[], None],
    ) -> None:
        """`collect` makes the output's framework let go of dead arrays."""
        self.memories: list[WorkerMemory] = []
        self._filler = filler
        self._pool = pool
        self._budget = budget
        self._threads = threads
        self._hold_timeout = hold_timeout
        self._collect = collect
        self._measured: tuple[PlannedT, int] | None = None  # the batch that is next, and its late bytes
        self._filled = 0
        self._other_a_place = 0.0
        self._worker_bytes = 0
        self._turn = threading.Lock()  # of the one worker that may wait for room while it has memory
        self._starved: WorkerMemory | None = None
        self._waited: tuple[Holding, float] | None = None

    @property
    def share(self) -> int | None:
        """What of the loader's own limit, or of its part of the process's, whichever is less, it should plan with."""
        return self._budget.share

    def allocate(self, planned: PlannedT, *, alone: bool) -> Admitted[Content] | None:
        """Return memory for a batch, or None without room. `alone`: no other batch is in flight.

        Raises:
            LoaderError: It can never fit.
        """
        limit = self._budget.least_limit
        epoch, (first, last) = planned.epoch, planned.span
        blocks = other = 0
        if limit is not None:
            if not self._filled and not alone:
                return None  # what lies in no block, and workers take, is known after the first
            blocks, late = self._filler.block_bytes(planned), self._late_bytes(planned)
            other = late + int(self._other_a_place * planned.places)
            if alone and late and blocks + late > limit:
                raise LoaderError(
                    f"epoch {epoch}, positions {first}..{last}, {blocks + late} bytes: this batch alone "
                    f"is larger than {self._limits()}"
                )
            if alone:
                other = self._needed(planned, limit) - blocks
        if other and not self._budget.charge(other):
            self._budget.reclaim()  # free blocks of other sizes, for one
            if not self._budget.charge(other):
                return None
        holding = Holding(self._budget, epoch, first, last, other)
        token = holding.token() if self._filler.has_other or other else None
        # Before the blocks are lent: workers may grow at the same moment.
        if not alone and limit is not None and not self._has_room_beside_workers(blocks):
            return None
        try:
            content = self._filler.allocate(planned, functools.partial(self._lender, holding))
        except NoRoomError:
            return None
        finally:
            if token is None:
                holding.end()  # its blocks alone say how long it lives
        return Admitted(content, holding, token)

    def wait(self, planned: PlannedT, is_closed: Callable[[], bool]) -> Admitted[Content] | None:
        """Return memory for the next batch, when there is room; None when the loader was closed meanwhile.

        Raises:
            LoaderError: It can never fit, or the consumer held batches that are in its way for `hold_timeout`.
        """
        begun = collected = time.monotonic()
        for memory in self.memories:
            memory.give_back()  # no batch is in flight: no worker uses it, but for a part of one that was taken back
        while not is_closed():
            self._collect()
            admitted = self.allocate(planned, alone=True)
            if admitted is not None:
                return admitted
            limit = self._budget.least_limit
            need = self._filler.block_bytes(planned) if limit is None else self._needed(planned, limit)
            if limit is not None and need > limit:
                raise LoaderError(f"{planned} needs {size_text(need)}, more than {self._limits()}")
            now = time.monotonic()
            if now - begun > self._hold_timeout:
                raise self._held(need)
            if self._budget.has_own_room(need) and self._budget.reclaim(prefetched=True):
                continue  # the process's limit is in the way, and another loader gave a batch up
            if now - collected > _COLLECT_SECONDS:
                gc.collect()
                collected = now
            self._budget.wait()
        return None

    def _needed(self, planned: PlannedT, limit: int) -> int:
        """Return the bytes that a batch needs when no other is in flight.

        Its own size decides, not what others were, where these leave no room for its blocks: it has to go on.
        """
        blocks = self._filler.block_bytes(planned)
        other = self._late_bytes(planned) + int(self._other_a_place * planned.places)
        return blocks + min(other, max(0, limit - blocks))

    @property
    def is_starved(self) -> bool:
        """Whether a worker waits for room."""
        return self._starved is not None

    @contextlib.contextmanager
    def turn(self, memory: WorkerMemory) -> Iterator[None]:
        """Let a worker wait for room: one after the other, for two that wait have what each other needs."""
        with self._turn:
            self._starved = memory
            try:
                yield
            finally:
                self._starved = None

    def note_waiting(self, holding: Holding | None) -> None:
        """Note which batch the consumer waits for; None: for none any more."""
        self._waited = None if holding is None else (holding, time.monotonic())

    def make_room(self, memory: WorkerMemory, nbytes: int) -> None:
        """Count `nbytes` more that a worker is going to take.

        Other workers give back what they don't use. In its turn the worker waits until there is room: for other parts,
        for batches behind its own, which the engine takes back, and for what the consumer holds, hold_timeout at the
        most while the consumer waits for this very batch.

        Raises:
            OverBudgetError: They can't fit beside the batch itself.
            StarvedError: There is no room, and it is not the worker's turn.
            GaveWayError: The batch was taken back.
            LoaderError: The consumer held batches that are in the way, or the loader was closed.
        """
        begun = time.monotonic()
        while not self._budget.charge(nbytes):
            self._budget.reclaim()
            for other in list(self.memories):
                if other is not memory:
                    other.give_back()
            if self._budget.charge(nbytes):
                return
            self._check_room(memory, nbytes, begun)
            if self._starved is not memory:
                raise StarvedError
            self._budget.wait()

    def _check_room(self, memory: WorkerMemory, nbytes: int, begun: float) -> None:
        holding, limit = memory.holding, self._budget.least_limit
        batch = 0 if holding is None else holding.nbytes
        least = batch + memory.counted + nbytes
        if limit is not None and least > limit:
            raise OverBudgetError(
                f"to read and decode it takes {size_text(memory.counted + nbytes)} beside the {size_text(batch)} of "
                f"its batch, more than {self._limits()}: allow at least {size_text(least)}"
            )
        if memory.closed:
            raise LoaderError("the loader was closed")
        if holding is not None and holding.taken_back:
            raise GaveWayError
        if self._waited is not None and self._waited[0] is holding:
            if self._budget.has_own_room(nbytes):
                self._budget.reclaim(prefetched=True)
            if time.monotonic() - max(begun, self._waited[1]) > self._hold_timeout:
                raise self._held(nbytes)

    def note_filled(self, holding: Holding, planned: PlannedT, other: int) -> None:
        """Count what of a batch that is filled lies in no block."""
        holding.set_other(other)
        if other:
            self._other_a_place = max(self._other_a_place, other / max(1, planned.places))
        for memory in list(self.memories):
            self._worker_bytes = max(self._worker_bytes, memory.counted)
        self._filled += 1

    def check(self, holding: Holding) -> None:
        """Raise LoaderError when a batch that was filled is larger than the budget.

        Blocks were counted before they were lent; a limit that was lowered since is for those that come.
        """
        limit = self._budget.least_limit
        if self._filler.has_other and limit is not None and holding.nbytes > limit:
            raise LoaderError(f"{holding.seen()}: this batch alone is larger than {self._limits()}")

    def _late_bytes(self, planned: PlannedT) -> int:
        """Return what its filler will lend late: looked up once, though it is tried more often."""
        if self._measured is None or self._measured[0] is not planned:
            self._measured = planned, self._filler.late_bytes(planned)
        return self._measured[1]

    def _lender(self, holding: Holding, column: str) -> Lend:
        return functools.partial(self._lend, holding, column)

    def _lend(self, holding: Holding, column: str, nbytes: int, *, late: bool = False) -> NDArray[np.uint8]:
        if late:
            holding.set_other(max(0, holding.other - nbytes))  # what was reserved for it
        holding.add_block(column, nbytes)
        try:
            return self._pool.lend(nbytes, late=late, returned=functools.partial(holding.drop_block, column))
        except NoRoomError:
            holding.drop_block(column)
            raise

    def _has_room_beside_workers(self, nbytes: int) -> bool:
        """Whether blocks of `nbytes` fit, and each worker could still grow to what the largest took so far."""
        grown = sum(memory.counted for memory in list(self.memories))
        growth = max(0, self._threads * self._worker_bytes - grown)
        if self._budget.has_room(max(0, nbytes - self._pool.free_bytes) + growth):
            return True
        self._budget.reclaim()
        return self._budget.has_room(nbytes + growth)

    def _limits(self) -> str:
        own, process = self._budget.limit, self._budget.parent.limit if self._budget.parent else None
        said = [] if own is None else [f"max_bytes {size_text(own)}"]
        return " and ".join([*said, *([] if process is None else [f"set_memory_limit {size_text(process)}"])])

    def _held(self, need: int) -> LoaderError:
        """Return the error of a consumer that holds on: only its own limit's batches count, or all of the process."""
        own = self._budget.limit is not None and not self._budget.has_own_room(need)
        held = held_batches(self._budget if own else None)
        used = self._budget.used if own or self._budget.parent is None else self._budget.parent.used
        return LoaderError(
            f"the next batch needs {size_text(need)}, and for hold_timeout={self._hold_timeout:g} s nothing made room "
            f"within {self._limits()}. Held are: {held_text(held)}. Let go of them (a for loop keeps its last batch "
            f"until the next one is there: del batch at its end), or allow {size_text(used + need)}"
        )
