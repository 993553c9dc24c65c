"""Run batches on threads: planned ahead by a bounded number, filled part by part, delivered in order.

The consumer's thread plans and waits; workers fill. An error is delivered in place of its batch. Workers hold the
queue and never the engine, so an engine that is dropped is collected, and its threads end.
"""

from __future__ import annotations

import os
import queue
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import LoaderError
from toolkit.loader.fetch import Fetcher
from toolkit.loader.stage import ColumnStage, Part, WorkerMemory
from toolkit.loader.stats import LoaderStats
from toolkit.memory.pool import BlockPool

__all__ = ["Engine", "PlannedBatch"]

_PARTS_A_THREAD = 2  # enough that no thread idles at the end of a batch, few enough that the GIL is taken rarely
_LOOK_SECONDS = 0.1  # between looks at functions of the user's own
_LEAVE_SECONDS = 0.1  # that close() waits for them


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch before it is filled: its epoch, the positions in the epoch's order, and the rows of the split there."""

    epoch: int
    positions: NDArray[np.int64]
    rows: NDArray[np.int64]


@dataclass(slots=True)
class FilledBatch:
    """A batch with its columns' memory; `done` is set when every part is filled or failed.

    `present`: bool (n,) of each optional slot, where a sample has it.
    """

    planned: PlannedBatch
    columns: dict[str, Any]
    present: dict[str, NDArray[np.bool_]]
    parts_left: int
    error: tuple[int, BaseException] | None = None
    done: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def finish_part(self, start: int, error: BaseException | None) -> bool:
        """Note that the part at `start` is over; was it the last? Of several errors the first sample's is kept."""
        with self.lock:
            if error is not None and (self.error is None or start < self.error[0]):
                self.error = (start, error)
            self.parts_left -= 1
            return self.parts_left == 0


# Changes a batch's columns when all of them are filled: on a worker, whose memory notes a function that runs.
Finish = Callable[[PlannedBatch, dict[str, Any], WorkerMemory], dict[str, Any]]


@dataclass(slots=True)
class _Work:
    """What workers share: parts to fill, what is done with a whole batch, and whether to stop.

    `memories`: of the workers, for the consumer to see which functions of the user's own they are in.
    """

    stages: list[ColumnStage]
    fetcher: Fetcher
    finish: Finish
    memories: list[WorkerMemory] = field(default_factory=list)
    parts: queue.SimpleQueue[tuple[FilledBatch, int, int] | None] = field(default_factory=queue.SimpleQueue)
    closed: bool = False


class Engine:
    """Delivers the batches of a plan. Owns its threads from the first batch to close(); one consumer."""

    def __init__(
        self,
        plan: Iterator[PlannedBatch],
        stages: list[ColumnStage],
        fetcher: Fetcher,
        stats: LoaderStats,
        finish: Finish,
        *,
        threads: int,
        prefetch: int,
    ) -> None:
        self._plan = plan
        self._threads = threads
        self._prefetch = prefetch
        self._stats = stats
        # In flight, in the consumer's hand, and the one before it that JAX or a slow `del` still holds.
        self._pool = BlockPool(keep=prefetch + 2)
        self._in_flight: deque[FilledBatch] = deque()
        self._work = _Work(stages, fetcher, finish)
        self._largest_part = min((stage.largest_part for stage in stages), default=1)
        self._waited: FilledBatch | None = None
        self._leave: float | None = None
        self._pid = os.getpid()
        self._workers = [
            threading.Thread(target=_run_worker, args=(self._work,), name=f"toolkit-loader-{i}", daemon=True)
            for i in range(threads)
        ]
        self._finalizer = weakref.finalize(self, _stop, self._work, threads)  # first: a start may fail halfway
        for worker in self._workers:
            worker.start()

    def __iter__(self) -> Iterator[FilledBatch]:
        return self

    def __next__(self) -> FilledBatch:
        """Return the next batch, filled. Raises what went wrong in it, and closes."""
        if os.getpid() != self._pid:
            raise LoaderError("this loader was made before a fork: open a new one in the child process")
        if self._work.closed:
            raise StopIteration
        try:
            self._top_up()
            if not self._in_flight:
                raise StopIteration
            begun = time.perf_counter()
            batch = self._in_flight.popleft()
            self._waited = batch
            if not self._work.closed:  # close() sets `closed` first and wakes `_waited` after: none is missed
                while not batch.done.wait(_LOOK_SECONDS):
                    self._raise_overdue()
            self._waited = None
            if self._work.closed:
                raise StopIteration  # closed under our hands: the loader says that batches are missing
            self._stats.add(consumer_wait_seconds=time.perf_counter() - begun)
            if batch.error is not None:
                raise batch.error[1]
        except BaseException:
            self.close()
            raise
        self._stats.add(batches=1, samples=len(batch.planned.rows))
        return batch

    def close(self) -> None:
        """Stop the threads and wait for them. May be called more than once, and in a forked child."""
        self._finalizer()
        waited = self._waited
        if waited is not None:
            waited.done.set()
        self._in_flight.clear()
        # Not from a worker: the garbage collector may run this in one that holds a lock which the others wait for.
        if os.getpid() == self._pid and threading.current_thread() not in self._workers:
            self._join()

    def _join(self) -> None:
        """Wait for the workers. One that stays in a function of the user's own is left to end with it, as a daemon."""
        if self._leave is None:
            self._leave = time.monotonic() + _LEAVE_SECONDS  # in all, however often close() is called on the way out
        for worker in self._workers:
            while worker.ident is not None and worker.is_alive():
                worker.join(_LEAVE_SECONDS / 2)
                if time.monotonic() > self._leave and any(memory.call is not None for memory in self._work.memories):
                    return

    def _raise_overdue(self) -> None:
        """Raise the error of a function of the user's own that takes longer than it may."""
        for memory in list(self._work.memories):
            call = memory.call
            if call is not None and time.monotonic() > call.deadline:
                raise call.overdue()

    def _top_up(self) -> None:
        """Plan batches until `prefetch` are in flight besides the one that is delivered next."""
        while len(self._in_flight) <= self._prefetch:
            planned = next(self._plan, None)
            if planned is None:
                return
            self._submit(planned)

    def _submit(self, planned: PlannedBatch) -> None:
        samples = len(planned.rows)
        size = max(1, min(self._largest_part, -(-samples // (self._threads * _PARTS_A_THREAD))))
        starts = range(0, samples, size)
        columns = {stage.name: stage.allocate(samples, self._pool) for stage in self._work.stages}
        present = {stage.name: np.ones(samples, np.bool_) for stage in self._work.stages if stage.optional}
        batch = FilledBatch(planned, columns, present, len(starts))
        self._in_flight.append(batch)
        for start in starts:
            self._work.parts.put((batch, start, min(samples, start + size)))


def _run_worker(work: _Work) -> None:
    memory: WorkerMemory | None = None
    while True:
        item = work.parts.get()
        if item is None or work.closed:
            return
        batch, start, stop = item
        error: BaseException | None = None
        try:
            if memory is None:
                memory = WorkerMemory()
                work.memories.append(memory)
                memory.closed = work.closed  # it may have been closed in between
            _fill_part(work, batch, start, stop, memory)
        except BaseException as caught:
            error = caught
        if batch.finish_part(start, error):
            if batch.error is None and memory is not None:
                try:
                    batch.columns = work.finish(batch.planned, batch.columns, memory)
                except BaseException as caught:
                    batch.error = (0, caught)
            batch.done.set()
        del item, batch, error


def _fill_part(work: _Work, batch: FilledBatch, start: int, stop: int, memory: WorkerMemory) -> None:
    planned = batch.planned
    located = work.fetcher.locate(planned.rows[start:stop])
    part = Part(start, located, planned.epoch, planned.positions[start:stop], batch.present)
    for stage in work.stages:
        stage.fill(batch.columns[stage.name], part, memory)


def _stop(work: _Work, threads: int) -> None:
    work.closed = True
    for memory in list(work.memories):
        memory.closed = True
    for _ in range(threads):
        work.parts.put(None)
