"""Deliver the steps of a schedule: filled ahead by threads or on demand, in order, each once, or an error.

What a step holds is for the filler to say; this knows where the consumer stands, and goes on from there.
"""

from __future__ import annotations

import itertools
import os
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self

from toolkit.errors import LoaderError, UsageError
from toolkit.loader.iteration import Iteration
from toolkit.memory.guard import check_memory
from toolkit.tokens.batch import TokenBatch
from toolkit.tokens.fill import Filled, Filler
from toolkit.tokens.schedule import Place, Schedule, Step

__all__ = ["Delivery", "StepStream"]

_ENDLESS = 1 << 62  # epochs
_MOST_STEPS = 1 << 50  # more than any run has: what is counted beyond has no end

# Turns an array of this process' rows into what is delivered; gets the global shape.
Delivery = Callable[[Any, tuple[int, int]], Any]


class StepStream(ABC):
    """Iterates over batches. One consumer; the threads end with the iteration, with close(), or when it is dropped."""

    def __init__(
        self,
        schedule: Schedule,
        filler: Filler,
        deliver: Delivery,
        *,
        first_step: int,
        total_steps: int | None,
        epochs: int | None,
        threads: int,
        prefetch: int,
    ) -> None:
        self._schedule = schedule
        self._filler = filler
        self._convert = deliver
        self._total_steps = total_steps
        self._epochs = epochs
        self._threads = threads
        self._prefetch = prefetch
        self._place = schedule.advance(Place(), first_step)
        self._first_step = first_step
        self._closed = False
        self._iteration = 0
        self._workers: ThreadPoolExecutor | None = None
        self._pid = os.getpid()

    def __len__(self) -> int:
        """Steps that the next iter() gives. Raises UsageError for a stream without end."""
        count = self._count(self._until())
        if count >= _MOST_STEPS:
            raise UsageError("a stream without end has no length: give total_steps")
        return count

    def __iter__(self) -> Iterator[TokenBatch]:
        """Go on from where the stream stands. An iteration that is still running ends."""
        if self._closed:
            raise LoaderError("this stream is closed: make a new one")
        if os.getpid() != self._pid:
            raise LoaderError("this stream was made before a fork: open a new one in the child process")
        self._end()
        self._iteration += 1
        return Iteration(self._deliver(self._iteration, self._count(self._until())))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def place(self) -> Place:
        """Where the consumer stands: behind the last batch it received."""
        return self._place

    def state_dict(self) -> dict[str, object]:
        """Return where the consumer stands, as JSON values; the same on every rank at a step."""
        step, epoch, position = self._place
        return {**self._identity(), "step": step, "epoch": epoch, "position": position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` stood; the number of ranks and the size of batches may be others now.

        Raises:
            UsageError: It is the state of other data, or of another order.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise UsageError(
                    f"the state has {name} {state.get(name)!r}, and this stream {value!r}: it would go on elsewhere. "
                    "Open the dataset by its pin, with the options of then"
                )
        try:
            place = Place(int(state["step"]), int(state["epoch"]), int(state["position"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"the state is none of a token stream: {error}") from error
        if min(place) < 0 or place.position > self._schedule.units:
            raise UsageError(f"the state's place {place} lies outside of epochs of {self._schedule.units}")
        self._end()
        self._iteration += 1
        self._place = place

    def close(self) -> None:
        """End a running iteration and its threads. May be called more than once."""
        self._closed = True
        self._end()

    @abstractmethod
    def _identity(self) -> dict[str, object]:
        """Return what a state must have in common with this stream, as JSON values."""

    def _until(self) -> int:
        """Return the epoch before which the next iteration ends."""
        if self._epochs is None:
            return _ENDLESS
        until = (self._place.epoch // self._epochs + 1) * self._epochs
        return until if self._schedule.remaining(self._place, until) else until + self._epochs

    def _count(self, until: int) -> int:
        count = self._schedule.remaining(self._place, until)
        if self._total_steps is not None:
            count = min(count, max(0, self._first_step + self._total_steps - self._place.step))
        return count

    def _end(self) -> None:
        if self._workers is not None:
            self._workers.shutdown(cancel_futures=True)
            self._workers = None

    def _deliver(self, iteration: int, count: int) -> Iterator[TokenBatch]:
        delivered = 0
        try:
            for filled in self._filled(_works(self._schedule.steps(self._place, count), self._filler)):
                for i in range(filled.good):
                    if iteration != self._iteration or self._closed:
                        break
                    check_memory()
                    delivered += 1
                    yield self._batch(filled, i)
                if filled.error is not None:
                    raise filled.error
                if iteration != self._iteration or self._closed:
                    break
                del filled  # the consumer alone decides how long a batch lives
        except GeneratorExit:  # nobody has the iteration any more
            if iteration == self._iteration and self._workers is not None:
                _let_end(self._workers)
            raise
        except BaseException:
            if iteration == self._iteration:
                self._end()
            raise
        if iteration == self._iteration:
            self._end()
        if delivered != count:
            raise LoaderError(
                f"the iteration ended after {delivered} of {count} steps, because the stream was closed or another "
                "iteration over it began: use one stream for each loop that runs at the same time"
            )

    def _filled(self, work: Iterator[partial[Filled]]) -> Iterator[Filled]:
        """Yield what is filled, in order: made by threads ahead, or in this one."""
        if not self._threads:
            yield from (one() for one in work)
            return
        self._workers = workers = ThreadPoolExecutor(self._threads, thread_name_prefix="toolkit-tokens")
        weakref.finalize(self, _let_end, workers).atexit = False
        ahead: deque[Future[Filled]] = deque()
        while True:
            for one in itertools.islice(work, self._prefetch + 1 - len(ahead)):
                ahead.append(workers.submit(one))
            if not ahead:
                return
            yield ahead.popleft().result()

    def _batch(self, filled: Filled, i: int) -> TokenBatch:
        step = filled.steps[i]
        step_number, epoch, position = step.place
        shape = (step.phase.rows, step.phase.seq_len)
        arrays = {name: self._convert(array[i], shape) for name, array in filled.arrays.items()}
        self._place = Place(step_number + 1, epoch, position + step.units)
        return TokenBatch(arrays, step.place, partial(_mask, self._filler, self._convert, step))


def _let_end(workers: ThreadPoolExecutor) -> None:
    """Don't wait: where a finalizer runs, its thread may hold a lock that one of them needs."""
    workers.shutdown(wait=False, cancel_futures=True)


def _works(steps: Iterator[Step], filler: Filler) -> Iterator[partial[Filled]]:
    """Yield what to fill in one go: steps of one form that follow each other in an epoch, while they are small."""
    group: list[Step] = []
    most = 0
    for step in steps:
        if group and not (
            len(group) < most
            and step.phase is group[0].phase
            and step.place.epoch == group[0].place.epoch
            and step.units == group[0].units
        ):
            yield partial(filler.fill, group)
            group = []
        if not group:
            most = filler.steps_at_once(step)
        group.append(step)
    if group:
        yield partial(filler.fill, group)


def _mask(filler: Filler, convert: Delivery, step: Step) -> Any:
    return convert(filler.there(step), (step.phase.rows, step.phase.seq_len))
