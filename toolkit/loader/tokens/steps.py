"""Deliver the steps of a schedule: filled ahead by threads or on demand, in order, each once, or an error.

What a step holds is for the filler to say; this knows where the consumer stands, and goes on from there.
"""

from __future__ import annotations

import itertools
import os
import warnings
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self

from toolkit.errors import LoaderError, UsageError
from toolkit.loader.engine.iteration import Iteration
from toolkit.loader.order.course import EndedRunWarning, ended_text
from toolkit.loader.order.state import check_fields, same_value, short, whole_number
from toolkit.loader.tokens.batch import TokenBatch
from toolkit.loader.tokens.fill import Filled, Filler
from toolkit.loader.tokens.schedule import Place, Schedule, Step
from toolkit.memory.guard import check_memory

__all__ = ["STATE_VERSION", "Delivery", "StepStream"]

STATE_VERSION = 2

_ENDLESS = 1 << 62  # epochs
_MOST_STEPS = 1 << 50  # more than any run has: what is counted beyond has no end

# Turns an array of this process' rows into what is delivered; gets the global shape.
Delivery = Callable[[Any, tuple[int, int]], Any]


class StepStream(ABC):
    """Iterates over batches. One consumer; the threads end with the iteration, with close(), or when it is dropped."""

    #: Whether one epoch of it is a run: nobody loops over its epochs.
    _is_whole = False

    def __init__(
        self,
        schedule: Schedule,
        filler: Filler,
        deliver: Delivery,
        *,
        first_step: int,
        last_step: int | None,
        until_epoch: int | None,
        epochs: int | None,
        threads: int,
        prefetch: int,
    ) -> None:
        self._schedule = schedule
        self._filler = filler
        self._convert = deliver
        self._last_step = last_step
        self._until_epoch = until_epoch
        self._epochs = epochs
        self._threads = threads
        self._prefetch = prefetch
        self._place = schedule.advance(Place(), first_step)
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

    @property
    def finished(self) -> bool:
        """Whether until_epoch=, a number of steps or the phases bound the run, and nothing is left of it."""
        return self._count(_ENDLESS) == 0

    def state_dict(self) -> dict[str, object]:
        """Return where the consumer stands, as JSON values; the same on every rank at a step."""
        step, epoch, position = self._place
        return {**self._identity(), "step": step, "epoch": epoch, "position": position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` stood; the number of ranks and the size of batches may be others now.

        Raises:
            UsageError: It is the state of other data, or of another order.
        """
        identity = self._identity()
        check_fields(state, (*identity, *Place._fields), ("version", STATE_VERSION), "token stream's")
        for name, value in identity.items():
            if not same_value(state[name], value):
                raise UsageError(
                    f"the state has {name} {short(state[name], 240, quoted=True)}, and this stream {value!r}: it would "
                    "go on elsewhere. "
                    "Open the dataset by its pin, with the options of then"
                )
        place = Place(
            step=whole_number(state, "step"),
            epoch=whole_number(state, "epoch"),
            position=whole_number(state, "position", self._schedule.units),
        )
        self._warn_if_ended(place)
        self._end()
        self._iteration += 1
        self._place = place

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError(
            "a token stream doesn't pickle: pickle its datasets and its state_dict(), and make it where they arrive"
        )

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
        until = self._end_of_iter(self._place)
        return until if self._schedule.remaining(self._place, until) else until + self._epochs

    def _count(self, until: int) -> int:
        if self._until_epoch is not None:
            until = min(until, self._until_epoch)
        count = self._schedule.remaining(self._place, until)
        if self._last_step is not None:
            count = min(count, max(0, self._last_step - self._place.step))
        return count

    def _end_of_iter(self, place: Place) -> int:
        """Return the multiple of `epochs` that the epoch of `place` leads to."""
        epochs = self._epochs or 1
        return (place.epoch // epochs + 1) * epochs

    def _warn_if_ended(self, place: Place) -> None:
        """Warn of a state at the end of a whole iter() of several epochs, or of a mix, unless the run is bounded."""
        until = self._end_of_iter(place)
        bounded = self._until_epoch is not None or self._last_step is not None
        ends = place.step and not self._schedule.remaining(place, until) and self._schedule.remaining(place, until + 1)
        if ends and not bounded and self._epochs is not None and (self._epochs > 1 or self._is_whole):
            what = "every row once" if self._is_whole else f"epochs={self._epochs}"
            warnings.warn(ended_text(what, until, until), EndedRunWarning, stacklevel=3)

    def _end(self) -> None:
        if self._workers is not None:
            self._workers.shutdown(cancel_futures=True)
            self._workers = None

    def _deliver(self, iteration: int, count: int) -> Generator[TokenBatch, None, None]:
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
                ahead.append(_submitted(workers, one))
            if not ahead:
                return
            if os.getpid() != self._pid:  # its threads are the parent's: what they have not filled never comes
                raise LoaderError("this iteration began before a fork: make a new stream in the child process")
            try:
                filled = ahead.popleft().result()
            except CancelledError:  # the stream was closed by another thread, or went on elsewhere
                return
            yield filled
            del filled

    def _batch(self, filled: Filled, i: int) -> TokenBatch:
        step = filled.steps[i]
        step_number, epoch, position = step.place
        shape = (step.phase.rows, step.phase.seq_len)
        arrays = {name: self._convert(array[i], shape) for name, array in filled.arrays.items()}
        self._place = Place(step_number + 1, epoch, position + step.units)
        return TokenBatch(arrays, (step.place, partial(_mask, self._filler, self._convert, step)))


def _submitted(workers: ThreadPoolExecutor, one: Callable[[], Filled]) -> Future[Filled]:
    """Have it filled ahead; or now: once the main thread has ended no executor takes more, and others may go on."""
    try:
        return workers.submit(one)
    except RuntimeError:
        filled: Future[Filled] = Future()
        filled.set_result(one())
        return filled


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
