"""Let batches in while the budget has room for them; the one that is delivered next waits for what the consumer holds.

Batches are let in by the consumer's thread, in the order of delivery, whole: so what stands before the next batch is
only what was delivered already, and the loader can't lock itself up. Sizes of arrays and
columns of bytes are known before; lists are reserved at what samples took so far and corrected when they are filled.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import LoaderError
from toolkit.loader.stages.stage import ColumnStage, WorkerMemory
from toolkit.memory.budget import Budget, OverBudgetError
from toolkit.memory.bytes_column import BytesColumn
from toolkit.memory.holding import Holding, Token, held_batches, held_text
from toolkit.memory.pool import BlockPool, NoRoomError
from toolkit.memory.sizes import size_text

__all__ = ["Admission", "Admitted", "GaveWayError", "StarvedError", "least_bytes"]

_FLAT = {bytes, str, int, float, bool, type(None)}  # what columns of bytes and text are made of: no look inside
_COLLECT_SECONDS = 0.25  # between collections while it waits: cycles may keep batches alive


@dataclass(frozen=True, slots=True)
class Admitted:
    """A batch's memory: columns by name, what they hold, and what stands for the batch's life."""

    columns: dict[str, Any]
    holding: Holding
    token: Token


class GaveWayError(Exception):
    """A batch is made again later: its memory is needed for the one that is delivered next."""


class StarvedError(Exception):
    """There is no room now: the worker frees what it has, and begins its part anew when it is its turn to wait."""


class Admission:
    """Allocates batches within a budget. Used by the consumer's thread; note_filled() and `memories` by workers.

    Attributes:
        memories: Of the workers.
    """

    def __init__(
        self,
        stages: list[ColumnStage],
        pool: BlockPool,
        budget: Budget,
        *,
        has_maps: bool,
        threads: int,
        hold_timeout: float,
        collect: Callable[[], None],
    ) -> None:
        """`collect` makes the output's framework let go of dead arrays."""
        self.memories: list[WorkerMemory] = []
        self._stages = stages
        self._pool = pool
        self._budget = budget
        self._threads = threads
        self._hold_timeout = hold_timeout
        self._collect = collect
        self._has_other = has_maps or any(stage.block_bytes(1) is None for stage in stages)
        self._filled = 0
        self._other_a_sample = 0.0
        self._worker_bytes = 0
        self._turn = threading.Lock()  # of the one worker that may wait for room while it has memory
        self._starved: WorkerMemory | None = None
        self._waited: tuple[Holding, float] | None = None

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit, the loader's own or the process's."""
        return self._budget.least_limit is not None

    def allocate(
        self, epoch: int, first: int, last: int, samples: int, late_bytes: int, *, alone: bool
    ) -> Admitted | None:
        """Return memory for a batch of `samples` places, or None without room.

        `late_bytes` are to be lent late; 0 where nothing is limited. `alone`: no other batch is in flight.

        Raises:
            LoaderError: It can never fit.
        """
        limit, blocks = self._budget.least_limit, least_bytes(self._stages, samples)
        other = 0
        if limit is not None:
            if not self._filled and not alone:
                return None  # what lists and workers take is known after the first
            other = late_bytes + (int(self._other_a_sample * samples) if self._has_other else 0)
            if alone and late_bytes and blocks + late_bytes > limit:
                raise LoaderError(
                    f"epoch {epoch}, positions {first}..{last}, {blocks + late_bytes} bytes: this batch alone "
                    f"is larger than {self._limits()}"
                )
            if alone:  # its own size decides, not what others were: it has to go on
                other = min(other, max(0, limit - blocks))
        if other and not self._budget.charge(other):
            self._budget.reclaim()  # free blocks of other sizes, for one
            if not self._budget.charge(other):
                return None
        holding = Holding(self._budget, epoch, first, last, other)
        token = holding.token()
        # Before the blocks are lent: workers may grow at the same moment.
        if not alone and not self._has_room_beside_workers(blocks):
            return None
        columns = self._columns(holding, samples)
        return None if columns is None else Admitted(columns, holding, token)

    def wait(
        self, epoch: int, first: int, last: int, samples: int, late_bytes: int, is_closed: Callable[[], bool]
    ) -> Admitted | None:
        """Return memory for the next batch, when there is room; None when the loader was closed meanwhile.

        Raises:
            LoaderError: It can never fit, or the consumer held batches that are in its way for `hold_timeout`.
        """
        begun = collected = time.monotonic()
        for memory in self.memories:
            memory.give_back()  # no batch is in flight: no worker uses it, but for a part of one that was taken back
        while not is_closed():
            self._collect()
            admitted = self.allocate(epoch, first, last, samples, late_bytes, alone=True)
            if admitted is not None:
                return admitted
            need, limit = least_bytes(self._stages, samples) + late_bytes, self._budget.least_limit
            if limit is not None and need > limit:
                raise LoaderError(f"a batch of {samples} samples needs {size_text(need)}, more than {self._limits()}")
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

    def note_filled(self, holding: Holding, columns: dict[str, Any], made: dict[str, Any], samples: int) -> None:
        """Count what of a batch's columns, `made` of those that were allocated, lies in no block."""
        found = (values.data if isinstance(values, BytesColumn) else values for values in columns.values())
        blocks = [values for values in found if isinstance(values, np.ndarray)]
        other = sum(_other_bytes(values, blocks) for values in made.values()) if self._has_other else 0
        holding.set_other(other)
        self._other_a_sample = max(self._other_a_sample, other / max(1, samples))
        self._worker_bytes = max([self._worker_bytes, *(memory.counted for memory in list(self.memories))])
        self._filled += 1

    def check(self, holding: Holding) -> None:
        """Raise LoaderError when a batch that was filled is larger than the budget."""
        limit = self._budget.least_limit
        if limit is not None and holding.nbytes > limit:
            raise LoaderError(f"{holding.seen()}: this batch alone is larger than {self._limits()}")

    def _columns(self, holding: Holding, samples: int) -> dict[str, Any] | None:
        columns: dict[str, Any] = {}
        try:
            for stage in self._stages:
                name = stage.name
                columns[name] = stage.allocate(samples, functools.partial(self._lend, holding, name))
        except NoRoomError:
            return None
        return columns

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
        if self._budget.least_limit is None:
            return True
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


def least_bytes(stages: list[ColumnStage], samples: int) -> int:
    """Return what the arrays of a batch take."""
    return sum(stage.block_bytes(samples) or 0 for stage in stages)


def _other_bytes(values: Any, blocks: list[np.ndarray[Any, Any]]) -> int:
    """Return what values take besides the batch's blocks."""
    if isinstance(values, np.ndarray):
        return 0 if any(np.may_share_memory(values, block) for block in blocks) else values.nbytes
    if isinstance(values, BytesColumn):
        return values.offsets.nbytes + values.present.nbytes + _other_bytes(values.data, blocks)
    if isinstance(values, list | tuple):
        if set(map(type, values)) <= _FLAT:
            return sys.getsizeof(values) + sum(map(sys.getsizeof, values))
        return sys.getsizeof(values) + sum(_other_bytes(value, []) for value in values)
    if isinstance(values, dict):
        return sys.getsizeof(values) + sum(_other_bytes(value, []) for value in values.values())
    return sys.getsizeof(values)
