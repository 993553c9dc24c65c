"""What workers do: take a part, fill it within the budget, leave out what may be skipped, finish what is complete.

Workers hold the queue and never the engine, so an engine that is dropped is collected, and its threads end.
"""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Generic

from toolkit.errors import ToolkitError
from toolkit.loader.engine.admission import Admission, GaveWayError, StarvedError
from toolkit.loader.engine.done import Done
from toolkit.loader.engine.filler import Content, Filler, PlannedT
from toolkit.loader.engine.memory import WorkerMemory
from toolkit.loader.engine.stats import LoaderStats
from toolkit.memory.budget import Budget, OverBudgetError
from toolkit.memory.guard import check_memory
from toolkit.memory.holding import Holding, Token

__all__ = ["FilledBatch", "Work", "Worker"]


@dataclass(slots=True)
class FilledBatch(Generic[PlannedT, Content]):
    """A batch with its memory; `done` is set when every part is filled or failed.

    `holding` knows what it holds of the budget, `token` stands for its life there.
    `skipped` has the place and error of each that was left out, and is blank.
    """

    planned: PlannedT
    kept: Content | None
    holding: Holding
    token: Token | None
    parts_left: int
    begun: bool = False
    error: tuple[int, BaseException] | None = None
    skipped: list[tuple[int, ToolkitError]] = field(default_factory=list)
    done: Done = field(default_factory=Done)
    lock: threading.Lock = field(default_factory=threading.Lock)
    beginning: threading.Lock = field(default_factory=threading.Lock)

    @property
    def content(self) -> Content:
        """What the filler made. Raises GaveWayError when it was taken back."""
        kept = self.kept
        if kept is None:
            raise GaveWayError
        return kept

    def take_back(self) -> None:
        """Let go of its memory, though parts of it wait in the queue; what a worker is filling fails, unseen."""
        self.holding.taken_back = True
        self.kept = None
        self.token = None

    def finish_part(self, start: int, error: BaseException | None) -> bool:
        """Note that the part at `start` is over; was it the last? Of several errors the first place's is kept."""
        with self.lock:
            if error is not None and (self.error is None or start < self.error[0]):
                self.error = (start, error)
            self.parts_left -= 1
            return self.parts_left == 0


@dataclass(slots=True)
class Work(Generic[PlannedT, Content]):
    """What workers share: parts to fill, who fills them, and whether to stop.

    `admission` has the workers' memories, for the consumer to see which functions of the user's own they are in.
    """

    filler: Filler[PlannedT, Content, Any]
    admission: Admission[PlannedT, Content]
    budget: Budget
    stats: LoaderStats
    parts: queue.SimpleQueue[tuple[FilledBatch[PlannedT, Content], int, int] | None] = field(
        default_factory=queue.SimpleQueue
    )
    closed: bool = False

    def stop(self, threads: int) -> None:
        """Let so many workers end, without waiting for them or for any lock."""
        self.closed = True
        for memory in list(self.admission.memories):
            memory.closed = True
        for _ in range(threads):
            self.parts.put(None)


class Worker:
    """Fills parts, in a thread of its own or in the consumer's."""

    def __init__(self, work: Work[Any, Any]) -> None:
        self._work = work
        self._memory: WorkerMemory | None = None

    def run(self) -> None:
        """Fill parts until there is nothing to do any more."""
        work = self._work
        while True:
            begun = time.perf_counter()
            item = work.parts.get()
            if item is None or work.closed:
                return
            work.stats.add(worker_wait_seconds=time.perf_counter() - begun)
            self.fill_part(*item)
            del item

    def fill_part(self, batch: FilledBatch[Any, Any], start: int, stop: int) -> None:
        """Fill a part of a batch; what goes wrong is its error. The last one of its parts finishes it."""
        work, error = self._work, None
        try:
            memory = self._memory or self._new_memory()
            check_memory()  # here too: a slow consumer doesn't look while batches are filled ahead
            if batch.holding.taken_back:
                raise GaveWayError
            if start == stop:
                _begin(work, batch)  # it is all padding
            else:
                (_fill_or_skip if work.filler.skippable else _fill_within)(work, batch, start, stop, memory)
        except BaseException as caught:
            error = caught
        if batch.finish_part(start, error):
            if batch.error is None:
                try:
                    other = work.filler.finish(batch.content, memory)
                    work.admission.note_filled(batch.holding, batch.planned, other)
                except BaseException as caught:
                    batch.error = (0, caught)
            batch.done.set()
        del batch, error  # the error's traceback has this frame

    def _new_memory(self) -> WorkerMemory:
        work = self._work
        memory: WorkerMemory = work.filler.memory(work.budget, work.admission.make_room)
        self._memory = memory
        work.admission.memories.append(memory)
        memory.closed = work.closed  # it may have been closed in between
        return memory


def _fill_within(
    work: Work[Any, Any], batch: FilledBatch[Any, Any], start: int, stop: int, memory: WorkerMemory
) -> None:
    """Fill a part; as the only worker that waits for memory where it is short, in halves where that isn't enough."""
    turn = None
    while True:
        try:
            if turn is None:
                _fill(work, batch, start, stop, memory)
            else:
                with turn:
                    _fill(work, batch, start, stop, memory)
            return
        except StarvedError:
            memory.give_back()
            turn = work.admission.turn(memory)
        except OverBudgetError as error:
            if stop - start == 1 and memory.was_empty:
                raise OverBudgetError(f"{work.filler.place(batch.planned, start)}: {error}") from None
            memory.give_back()  # else what is left out would depend on the places before, so on the threads
            if stop - start > 1:
                break
            turn = None
    middle = (start + stop) // 2
    _fill_within(work, batch, start, middle, memory)
    _fill_within(work, batch, middle, stop, memory)


def _fill(work: Work[Any, Any], batch: FilledBatch[Any, Any], start: int, stop: int, memory: WorkerMemory) -> None:
    _begin(work, batch)
    memory.begin(batch.holding, stop - start)
    try:
        work.filler.fill(batch.content, start, stop, memory)
    finally:
        memory.end()


def _begin(work: Work[Any, Any], batch: FilledBatch[Any, Any]) -> None:
    """Get a batch ready when its first part comes."""
    with batch.beginning:
        if not batch.begun:
            work.filler.begin(batch.content)
            batch.begun = True


def _fill_or_skip(
    work: Work[Any, Any], batch: FilledBatch[Any, Any], start: int, stop: int, memory: WorkerMemory
) -> None:
    """Fill a part; when a place of it is bad, place by place, and leave the bad ones out."""
    try:
        _fill_within(work, batch, start, stop, memory)
        return
    except work.filler.skippable as caught:
        error = caught.with_traceback(None)  # frames would keep the batch's memory alive
        error.__context__ = None  # and so would those of what it came from
    if stop - start > 1:
        for place in range(start, stop):
            _fill_or_skip(work, batch, place, place + 1, memory)
        return
    work.filler.blank(batch.content, start, stop)
    batch.skipped.append((start, error))
