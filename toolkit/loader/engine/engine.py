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
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import CorruptShardError, LoaderError, SampleError, ToolkitError
from toolkit.loader.dataset.fetch import Fetcher, Located
from toolkit.loader.engine.admission import Admission, Admitted, GaveWayError, StarvedError
from toolkit.loader.engine.done import Done
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.stages.stage import ColumnStage, Part, WorkerMemory
from toolkit.memory.budget import Budget, OverBudgetError
from toolkit.memory.guard import check_memory
from toolkit.memory.holding import Holding, Token
from toolkit.memory.pool import BlockPool

__all__ = ["Engine", "FilledBatch", "PlannedBatch"]

_PARTS_A_THREAD = 2  # of several: enough that none idles at the end of a batch, few enough to take the GIL rarely
_LOOK_SECONDS = 0.1  # between looks at functions of the user's own
_LEAVE_SECONDS = 0.1  # that close() waits for them


@dataclass(frozen=True, slots=True)
class PlannedBatch:
    """A batch before it is filled.

    Attributes:
        epoch: Its epoch.
        positions, rows: int64 (n,): positions in the epoch's order, and the rows of the split there.
        samples: How many of them hold a sample; those behind are padding.
    """

    epoch: int
    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    samples: int


@dataclass(slots=True)
class FilledBatch:
    """A batch with its columns' memory; `done` is set when every part is filled or failed.

    `present`: bool (n,) of each optional slot, where a sample has it.
    `holding` knows what it holds of the budget, `token` stands for its life there.
    `located` says where its samples are stored, if that was asked for, once `laid_out`.
    `skipped` has the place and error of each sample that was left out: zeros in arrays, None in lists.
    """

    planned: PlannedBatch
    columns: dict[str, Any]
    present: dict[str, NDArray[np.bool_]]
    holding: Holding
    token: Token
    parts_left: int
    located: Located | None = None
    laid_out: bool = False
    error: tuple[int, BaseException] | None = None
    skipped: list[tuple[int, ToolkitError]] = field(default_factory=list)
    done: Done = field(default_factory=Done)
    lock: threading.Lock = field(default_factory=threading.Lock)
    laying_out: threading.Lock = field(default_factory=threading.Lock)

    def take_back(self) -> None:
        """Let go of its memory, though parts of it wait in the queue; what a worker is filling fails, unseen."""
        self.holding.taken_back = True
        self.columns = {}
        self.token = Token()

    def finish_part(self, start: int, error: BaseException | None) -> bool:
        """Note that the part at `start` is over; was it the last? Of several errors the first sample's is kept."""
        with self.lock:
            if error is not None and (self.error is None or start < self.error[0]):
                self.error = (start, error)
            self.parts_left -= 1
            return self.parts_left == 0


class Finish(Protocol):
    """Changes a batch's columns when all of them are filled: on a worker, whose memory notes a function that runs."""

    @property
    def changes_columns(self) -> bool:
        """Whether it does anything."""

    def __call__(self, planned: PlannedBatch, columns: dict[str, Any], memory: WorkerMemory) -> dict[str, Any]:
        """Return the columns to deliver."""


@dataclass(slots=True)
class _Work:
    """What workers share: parts to fill, what is done about bad samples and with a whole batch, and whether to stop.

    `admission` has the workers' memories, for the consumer to see which functions of the user's own they are in.
    """

    stages: list[ColumnStage]
    fetcher: Fetcher
    finish: Finish
    skip_errors: bool
    admission: Admission
    budget: Budget
    stats: LoaderStats
    parts: queue.SimpleQueue[tuple[FilledBatch, int, int] | None] = field(default_factory=queue.SimpleQueue)
    closed: bool = False


class Engine:
    """Delivers the batches of a plan. Owns its threads from the first batch to close(); one consumer.

    Its batches lie in blocks of `pool`, which outlives it: the next engine goes on with its blocks.
    """

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
        skip_errors: bool,
        pool: BlockPool,
        budget: Budget,
        hold_timeout: float,
        collect: Callable[[], None],
    ) -> None:
        self._plan = plan
        self._planned: deque[PlannedBatch] = deque()  # what waits for room, before the plan goes on
        self._measured: tuple[PlannedBatch, int] | None = None  # the one of them that is next, and its late bytes
        self._turn = threading.Lock()  # between the consumer and another loader's, who may call give_up()
        self._threads = threads
        self._prefetch = prefetch
        self._collect = collect
        self._ahead = min(1, prefetch)  # how much of it is used: twice as much each time that workers ran dry
        self._stats = stats
        self._pool = pool
        self._in_flight: deque[FilledBatch] = deque()
        self._admission = Admission(
            stages,
            self._pool,
            budget,
            has_maps=finish.changes_columns,
            threads=threads,
            hold_timeout=hold_timeout,
            collect=collect,
        )
        self._work = _Work(stages, fetcher, finish, skip_errors, self._admission, budget, stats)
        self._largest_part = min((stage.largest_part for stage in stages), default=1)
        self._waited: FilledBatch | None = None
        self._leave: float | None = None
        budget.on_pressure(self.give_up, prefetched=True)
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
            begun = time.perf_counter()
            self._stats.tick()
            with self._turn:
                self._top_up()
                if not self._in_flight:
                    raise StopIteration
                batch = self._in_flight.popleft()
                self._waited = batch
            if not self._work.closed:  # close() sets `closed` first and wakes `_waited` after: none is missed
                self._admission.note_waiting(batch.holding)
                while not batch.done.wait(_LOOK_SECONDS):
                    self._raise_overdue()
                    check_memory()
                    if self._admission.is_starved:
                        self._take_back()
                self._admission.note_waiting(None)
            self._waited = None
            if self._work.closed:
                raise StopIteration  # closed under our hands: the loader says that batches are missing
            self._stats.add(consumer_wait_seconds=time.perf_counter() - begun)
            self._stats.tick()
            self._stats.set_in_flight(len(self._in_flight))
            if batch.error is not None:
                raise batch.error[1]
            self._admission.check(batch.holding)
        except BaseException:
            self.close()
            raise
        batch.holding.delivered = True
        skipped = len(batch.skipped)
        self._stats.add(batches=1, samples=batch.planned.samples - skipped, skipped=skipped)
        return batch

    def give_up(self) -> bool:
        """Let go of the batch that is delivered last of those that are ready, and make it again later; was there one?

        Called by other loaders, in whose way it is while nobody iterates over this one.
        """
        if not self._turn.acquire(blocking=False):
            return False
        try:
            if self._waited is not None:
                return False  # its consumer goes on
            if not self._in_flight:
                counted = sum(memory.counted for memory in self._admission.memories)
                for memory in self._admission.memories:
                    memory.give_back()
                return counted > 0
            if not self._in_flight[-1].done.is_set():
                return False
            self._planned.appendleft(self._in_flight.pop().planned)
            self._stats.set_in_flight(len(self._in_flight))
        finally:
            self._turn.release()
        self._pool.drop_free()
        return True

    def drop(self) -> None:
        """Let the threads end, without waiting for them or for any lock.

        Finalizers run at any instruction, in a thread that may hold a lock which a worker needs to go on. May be called
        more than once, and in a forked child.
        """
        self._finalizer()
        self._in_flight.clear()
        self._stats.set_in_flight(0)
        self._pool.trim()

    def close(self) -> None:
        """Stop the threads and wait for them. May be called more than once, and in a forked child."""
        self.drop()
        waited = self._waited
        if waited is not None:
            waited.done.set()
        # A function of the user's own may close the loader it works for: a worker doesn't wait for itself.
        if os.getpid() == self._pid and threading.current_thread() not in self._workers:
            self._join()

    def _join(self) -> None:
        """Wait for the workers. One that stays in a function of the user's own is left to end with it, as a daemon."""
        if self._leave is None:
            self._leave = time.monotonic() + _LEAVE_SECONDS  # in all, however often close() is called on the way out
        for worker in self._workers:
            while worker.ident is not None and worker.is_alive():
                worker.join(_LEAVE_SECONDS / 2)
                if time.monotonic() > self._leave and any(
                    memory.call is not None for memory in self._admission.memories
                ):
                    return
        self._admission.memories.clear()  # what they own is given back

    def _raise_overdue(self) -> None:
        """Raise the error of a function of the user's own that takes longer than it may."""
        for memory in list(self._admission.memories):
            call = memory.call
            if call is not None and time.monotonic() > call.deadline:
                raise call.overdue()

    def _take_back(self) -> None:
        """Make the batches behind the one that is waited for again later: workers are short of memory."""
        with self._turn:
            while self._in_flight:
                batch = self._in_flight.pop()
                batch.take_back()
                self._planned.appendleft(batch.planned)
            self._stats.set_in_flight(0)
        self._collect()  # the framework may keep what the consumer let go of

    def _top_up(self) -> None:
        """Plan batches until `prefetch` are in flight besides the one that is delivered next.

        As long as workers are the slower side, one besides it does: more would only wait in memory that is touched for
        the first time.
        """
        parts = self._work.parts
        if self._in_flight and parts.qsize() < self._threads:
            self._ahead = min(2 * self._ahead, self._prefetch)
        while len(self._in_flight) <= self._prefetch:
            if len(self._in_flight) > self._ahead and parts.qsize() >= self._threads:
                return
            check_memory()
            if not self._planned:
                planned = next(self._plan, None)
                if planned is None:
                    return
                self._planned.append(planned)
            admitted = self._admit(self._planned[0])
            if admitted is None:
                return
            self._submit(self._planned.popleft(), admitted)
            self._stats.set_in_flight(len(self._in_flight))

    def _admit(self, planned: PlannedBatch) -> Admitted | None:
        """Return memory for a batch. Only the one that is delivered next waits for it."""
        alone = not self._in_flight
        places = int(planned.positions[0]), int(planned.positions[-1]), len(planned.rows)
        about = planned.epoch, *places, self._late_bytes(planned)
        admitted = self._admission.allocate(*about, alone=alone)
        if admitted is None and alone:
            begun = time.perf_counter()
            try:
                return self._admission.wait(*about, lambda: self._work.closed)
            finally:
                self._stats.add(budget_wait_seconds=time.perf_counter() - begun)
        return admitted

    def _late_bytes(self, planned: PlannedBatch) -> int:
        """Return what its stages will lend once they know their values' lengths: looked up only where a limit asks."""
        stages = [stage for stage in self._work.stages if stage.laid_out]
        if not stages or not self._admission.is_limited:
            return 0
        if self._measured is None or self._measured[0] is not planned:
            located, _ = _locate(self._work.fetcher, planned.rows[: planned.samples])
            self._measured = planned, sum(stage.late_bytes(located) for stage in stages)
        return self._measured[1]

    def _submit(self, planned: PlannedBatch, admitted: Admitted) -> None:
        samples, places = planned.samples, len(planned.rows)
        parts = self._threads * _PARTS_A_THREAD if self._threads > 1 else 1
        size = max(1, min(self._largest_part, -(-samples // parts)))
        starts = range(0, max(1, samples), size)  # a batch that is all padding is finished by a worker too
        present = {stage.name: np.ones(places, np.bool_) for stage in self._work.stages if stage.optional}
        batch = FilledBatch(planned, admitted.columns, present, admitted.holding, admitted.token, len(starts))
        self._in_flight.append(batch)
        for start in starts:
            self._work.parts.put((batch, start, min(samples, start + size)))


def _run_worker(work: _Work) -> None:
    memory: WorkerMemory | None = None
    while True:
        begun = time.perf_counter()
        item = work.parts.get()
        if item is None or work.closed:
            return
        work.stats.add(worker_wait_seconds=time.perf_counter() - begun)
        batch, start, stop = item
        error: BaseException | None = None
        try:
            if memory is None:
                memory = WorkerMemory(work.budget, work.admission.make_room)
                work.admission.memories.append(memory)
                memory.closed = work.closed  # it may have been closed in between
            check_memory()  # here too: a slow consumer doesn't look while batches are filled ahead
            if batch.holding.taken_back:
                raise GaveWayError
            if start == stop:
                _lay_out(work, batch)  # it is all padding
            else:
                (_fill_or_skip if work.skip_errors else _fill_within)(work, batch, start, stop, memory)
        except BaseException as caught:
            error = caught
        if batch.finish_part(start, error):
            if batch.error is None and memory is not None:
                try:
                    filled = {stage.name: stage.finish(batch.columns[stage.name]) for stage in work.stages}
                    columns = work.finish(batch.planned, dict(filled), memory)
                    work.admission.note_filled(batch.holding, filled, columns, len(batch.planned.rows))
                    batch.columns = columns
                    del filled, columns
                except BaseException as caught:
                    batch.error = (0, caught)
            batch.done.set()
        del item, batch, error


def _fill_within(work: _Work, batch: FilledBatch, start: int, stop: int, memory: WorkerMemory) -> None:
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
                place = work.fetcher.place(int(batch.planned.rows[start]))
                raise OverBudgetError(f"{place}: {error}") from None
            memory.give_back()  # else what is left out would depend on the samples before, so on the threads
            if stop - start > 1:
                break
            turn = None
    middle = (start + stop) // 2
    _fill_within(work, batch, start, middle, memory)
    _fill_within(work, batch, middle, stop, memory)


def _fill(work: _Work, batch: FilledBatch, start: int, stop: int, memory: WorkerMemory) -> None:
    planned = batch.planned
    whole = _lay_out(work, batch)
    located = work.fetcher.locate(planned.rows[start:stop]) if whole is None else whole.part(slice(start, stop))
    part = Part(start, located, planned.epoch, planned.positions[start:stop], batch.present)
    memory.begin(batch.holding, stop - start)
    try:
        for stage in work.stages:
            stage.fill(batch.columns[stage.name], part, memory)
    finally:
        memory.end()


def _lay_out(work: _Work, batch: FilledBatch) -> Located | None:
    """Get a batch's stages ready when its first part comes; return where all its samples are stored.

    None when no stage asks for that, so that parts open their shards side by side, and when a shard can't be opened:
    the parts that have a sample there say so themselves.
    """
    with batch.laying_out:
        if not batch.laid_out:
            rows = batch.planned.rows[: batch.planned.samples]
            stages = [stage for stage in work.stages if stage.laid_out]
            if stages:
                located, where = _locate(work.fetcher, rows)
                batch.located = located if len(where) == len(rows) else None
                for stage in stages:
                    stage.lay_out(batch.columns[stage.name], located, where)
            _blank(work, batch, len(rows), len(batch.planned.rows))
            batch.laid_out = True
        return batch.located


def _blank(work: _Work, batch: FilledBatch, start: int, stop: int) -> None:
    if start == stop:
        return
    for stage in work.stages:
        stage.blank(batch.columns[stage.name], start, stop)
    for there in batch.present.values():
        there[start:stop] = False


def _locate(fetcher: Fetcher, rows: NDArray[np.int64]) -> tuple[Located, NDArray[np.int64]]:
    """Locate rows, those whose shards can't be opened left out; return them, and which of the rows they are."""
    try:
        return fetcher.locate(rows), np.arange(len(rows))
    except CorruptShardError:
        return fetcher.locate_readable(rows)


def _fill_or_skip(work: _Work, batch: FilledBatch, start: int, stop: int, memory: WorkerMemory) -> None:
    """Fill a part; when a sample of it is bad, sample by sample, and leave the bad ones out."""
    try:
        _fill_within(work, batch, start, stop, memory)
        return
    except (SampleError, CorruptShardError) as caught:
        error = caught.with_traceback(None)  # frames would keep the batch's memory alive
        error.__context__ = None  # and so would those of what it came from
    if stop - start > 1:
        for place in range(start, stop):
            _fill_or_skip(work, batch, place, place + 1, memory)
        return
    _blank(work, batch, start, stop)
    batch.skipped.append((start, error))


def _stop(work: _Work, threads: int) -> None:
    work.closed = True
    for memory in list(work.admission.memories):
        memory.closed = True
    for _ in range(threads):
        work.parts.put(None)
