"""Run batches on threads: planned ahead by a bounded number, filled part by part, delivered in order.

The consumer's thread plans and waits; workers fill. An error is delivered in place of its batch. What a batch holds,
and how it is filled, is for a Filler to say.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic

from toolkit.errors import LoaderError
from toolkit.loader.engine.admission import Admission, Admitted
from toolkit.loader.engine.filler import Content, Filler, PlannedT
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.engine.work import FilledBatch, Work, Worker
from toolkit.memory.budget import Budget
from toolkit.memory.guard import check_memory
from toolkit.memory.pool import BlockPool

__all__ = ["Engine"]

_LOOK_SECONDS = 0.1  # between looks at functions of the user's own
_LEAVE_SECONDS = 0.1  # that close() waits for them
_SHARES = 4  # of a limit, a batch that can be cut takes one: in the consumer's hand, the one before, and two ahead


class Engine(Generic[PlannedT, Content]):
    """Delivers the batches of a plan. Owns its threads from the first batch to close(); one consumer.

    Its batches lie in blocks of `pool`, which outlives it: the next engine goes on with its blocks.
    """

    def __init__(
        self,
        plan: Iterator[PlannedT],
        filler: Filler[PlannedT, Content, Any],
        stats: LoaderStats,
        *,
        called: str,
        threads: int,
        prefetch: int,
        pool: BlockPool,
        budget: Budget,
        hold_timeout: float,
        collect: Callable[[], None],
    ) -> None:
        """Start the threads; without any, the consumer's own fills each batch when it asks for it.

        `called`: what errors call whom it works for. `collect` makes the output's framework let go of dead arrays.
        """
        self._plan = plan
        self._planned: deque[PlannedT] = deque()  # what waits for room, before the plan goes on
        self._turn = threading.Lock()  # between the consumer and another loader's, who may call give_up()
        self._threads = threads
        self._called = called
        self._prefetch = prefetch = prefetch if threads else 0
        self._collect = collect
        self._ahead = min(1, prefetch)  # how much of it is used: twice as much each time that workers ran dry
        self._stats = stats
        self._pool = pool
        self._in_flight: deque[FilledBatch[PlannedT, Content]] = deque()
        self._admission = Admission(
            filler, self._pool, budget, threads=threads, hold_timeout=hold_timeout, collect=collect
        )
        self._filler = filler
        self._work = Work(filler, self._admission, budget, stats)
        self._waited: FilledBatch[PlannedT, Content] | None = None
        self._leave: float | None = None
        budget.on_pressure(self.give_up, prefetched=True)
        self._worker = Worker(self._work)  # of the consumer's thread, where it has no others
        self._pid = os.getpid()
        self._workers = [
            threading.Thread(target=Worker(self._work).run, name=f"toolkit-loader-{i}", daemon=True)
            for i in range(threads)
        ]
        self._finalizer = weakref.finalize(self, self._work.stop, threads)  # first: a start may fail halfway
        for worker in self._workers:
            worker.start()

    def __iter__(self) -> Iterator[FilledBatch[PlannedT, Content]]:
        return self

    def __next__(self) -> FilledBatch[PlannedT, Content]:
        """Return the next batch, filled. Raises what went wrong in it, and closes."""
        if os.getpid() != self._pid:
            raise LoaderError(f"this {self._called} was made before a fork: open a new one in the child process")
        if self._work.closed:
            raise StopIteration
        try:
            self._stats.ask()
            batch = self._take_filled() if self._workers else self._fill_next()
            if batch is None or self._work.closed:
                raise StopIteration  # closed under our hands: the loader says that batches are missing
            self._stats.take(len(self._in_flight))
            if batch.error is not None:
                raise batch.error[1]
            self._admission.check(batch.holding)
        except BaseException:
            self.close()
            raise
        batch.holding.delivered = True
        return batch

    def _take_filled(self) -> FilledBatch[PlannedT, Content] | None:
        """Return the batch that is delivered next when workers have filled it; None: there is none."""
        with self._turn:
            self._top_up()
            if not self._in_flight:
                return None
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
        return batch

    def _fill_next(self) -> FilledBatch[PlannedT, Content] | None:
        """Return the batch that is delivered next, filled in this thread; None: there is none."""
        check_memory()
        admitted = self._admit() if self._has_planned() else None
        if admitted is None:
            return None
        batch, parts = self._batch(*admitted, threads=1)
        self._admission.note_waiting(batch.holding)
        for start, stop in parts:
            self._worker.fill_part(batch, start, stop)
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
            if not self._has_planned():
                return
            admitted = self._admit()
            if admitted is None:
                return
            self._submit(*admitted)
            self._stats.set_in_flight(len(self._in_flight))

    def _has_planned(self) -> bool:
        """Get ready what is to be let in next, the first of `_planned`: less of it where a limit asks for that."""
        if not self._planned:
            planned = next(self._plan, None)
            if planned is None:
                return False
            self._planned.append(planned)
        share = self._admission.share
        if share is not None:
            self._cut(share // _SHARES)
        return True

    def _cut(self, most_bytes: int) -> bool:
        """Put smaller batches in place of the first of `_planned`, if it can be cut and is larger; was it?"""
        planned = self._planned.popleft()
        smaller = self._filler.cut(planned, most_bytes)
        self._planned.extendleft(reversed(smaller))
        return len(smaller) > 1

    def _admit(self) -> tuple[PlannedT, Admitted[Content]] | None:
        """Take the first of `_planned`, and memory for it; None without room.

        Only what is delivered next waits for room, once it is as small as it can be: others that share the limit may
        have what they need for some time.
        """
        alone = not self._in_flight
        admitted = self._admission.allocate(self._planned[0], alone=alone)
        while admitted is None and alone and self._cut(self._filler.block_bytes(self._planned[0]) // 2):
            admitted = self._admission.allocate(self._planned[0], alone=alone)
        if admitted is None and alone:
            begun = time.perf_counter()
            try:
                admitted = self._admission.wait(self._planned[0], lambda: self._work.closed)
            finally:
                self._stats.add(budget_wait_seconds=time.perf_counter() - begun)
        return None if admitted is None else (self._planned.popleft(), admitted)

    def _submit(self, planned: PlannedT, admitted: Admitted[Content]) -> None:
        batch, parts = self._batch(planned, admitted, threads=self._threads)
        self._in_flight.append(batch)
        for start, stop in parts:
            self._work.parts.put((batch, start, stop))

    def _batch(
        self, planned: PlannedT, admitted: Admitted[Content], *, threads: int
    ) -> tuple[FilledBatch[PlannedT, Content], Sequence[tuple[int, int]]]:
        """Return a batch that was let in, and the parts in which it is to be filled."""
        parts = self._filler.parts(planned, threads)
        return FilledBatch(planned, admitted.content, admitted.holding, admitted.token, len(parts)), parts
