"""Deliver the steps of a schedule: in order, each once, or an error; know where the consumer stands, and go on there.

The loader's engine runs it, ahead or on demand; what a step holds is for the filler to say.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any

from toolkit.errors import LoaderError, UsageError
from toolkit.loader.engine.engine import Engine
from toolkit.loader.engine.front import Front
from toolkit.loader.engine.iteration import Iteration
from toolkit.loader.order.course import EndedRunWarning, ended_text
from toolkit.loader.order.state import check_state, whole_number
from toolkit.loader.tokens.batch import TokenBatch
from toolkit.loader.tokens.filler import FilledSteps, PlannedSteps, TokenFiller, plan_steps
from toolkit.loader.tokens.options import StreamOptions
from toolkit.loader.tokens.schedule import Place, Schedule, Step
from toolkit.memory.guard import check_memory
from toolkit.pipelines.functions import function_name

__all__ = ["StepStream"]

_VERSIONS = {"version": 2}  # of a state
_ENDLESS = 1 << 62  # epochs
_MOST_STEPS = 1 << 50  # more than any run has: what is counted beyond has no end

_Engine = Engine[PlannedSteps, FilledSteps]


class StepStream(Front[TokenBatch]):
    """Iterates over batches. One consumer; the threads end with the iteration, with close(), or when it is dropped."""

    _called = "stream"
    #: Whether one epoch of it is a run: nobody loops over its epochs.
    _is_whole = False

    def __init__(self, schedule: Schedule, filler: TokenFiller, options: StreamOptions) -> None:
        """Raises UsageError: a batch is larger than `max_bytes`, or a step lies behind the last phase."""
        given = options.given
        super().__init__(
            filler.stats,
            max_bytes=options.most_bytes,
            hold_timeout=given["hold_timeout"],
            prefetch=given["prefetch"],
            collect=options.spec.collector(),
        )
        self._schedule = schedule
        self._filler = filler
        self._convert = options.placement.place
        self._adapter = options.adapter
        self._last_step = options.last_step
        self._until_epoch = given["until_epoch"]
        self._epochs = given["epochs"]
        self._threads = options.thread_count
        self._prefetch = given["prefetch"]
        largest = max(options.phases, key=filler.step_bytes)
        self._check_fits(filler.step_bytes(largest), f"a batch of {largest.rows} rows of {largest.seq_len} tokens")
        self._place = schedule.advance(Place(), options.first_step)

    def __repr__(self) -> str:
        last = self._schedule.phases[-1]
        each = (
            f"{self._schedule.steps_per_epoch(last):,} steps an epoch"
            if self._schedule.units < _MOST_STEPS
            else "steps without end"
        )
        return (
            f"<toolkit.{type(self).__name__} {self._datasets_text()}: {each} of {last.rows:,} x {last.seq_len:,} "
            f"tokens, step {self._place.step:,}>"
        )

    def __len__(self) -> int:
        """Steps that the next iter() gives. Raises UsageError for a stream without end."""
        count = self._count(self._until())
        if count >= _MOST_STEPS:
            raise UsageError("a stream without end has no length: give total_steps")
        return count

    def __iter__(self) -> Iterator[TokenBatch]:
        """Go on from where the stream stands. An iteration that is still running ends."""
        self._begin()
        count = self._count(self._until())
        plan = plan_steps(self._schedule.steps(self._place, count), self._filler)
        engine = self._start(plan, self._filler, threads=self._threads, prefetch=self._prefetch)
        return Iteration(self._run(engine, self._deliver(engine, count)))

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
        return {**_VERSIONS, **self._identity(), **self._place._asdict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` stood; the number of ranks and the size of batches may be others now.

        Raises:
            UsageError: It is the state of other data, or of another order.
        """
        check_state(state, "token stream's", _VERSIONS, self._identity(), Place._fields)
        place = Place(
            step=whole_number(state, "step"),
            epoch=whole_number(state, "epoch"),
            position=whole_number(state, "position", self._schedule.units),
        )
        self._warn_if_ended(place)
        self._end_engine()
        self._place = place

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError(
            f"a {type(self).__name__} doesn't pickle: pickle its datasets and its state_dict(), and make it where they "
            "arrive"
        )

    @abstractmethod
    def _datasets_text(self) -> str:
        """Return what it reads, for repr()."""

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

    def _deliver(self, engine: _Engine, count: int) -> Generator[TokenBatch, None, None]:
        delivered = 0
        for filled in engine:
            contents, good, error = [filled.content], filled.content.good, filled.content.error
            del filled
            for i in range(good):
                if self._engine is not engine:
                    break
                check_memory()
                if i:
                    self._stats.tick()  # the engine looks at the clock once a fill
                delivered += 1
                # Behind the last one the consumer alone decides how long the fill's memory lives.
                yield self._batch(contents.pop() if i + 1 == good else contents[0], i)
            if self._engine is not engine:
                break
            if error is not None:
                raise error
        if delivered != count:
            raise self._cut_off(f"{delivered} of {count} steps")

    def _batch(self, filled: FilledSteps, i: int) -> Any:
        """Return what the loop gets of a step, and count it as received."""
        step = filled.steps[i]
        step_number, epoch, position = step.place
        shape = (step.phase.rows, step.phase.seq_len)
        arrays = {name: self._convert(array[i], shape) for name, array in filled.arrays.items()}
        batch: Any = TokenBatch(arrays, (step.place, partial(_mask, self._filler, self._convert, step)))
        if self._adapter is not None:
            batch = self._adapted(self._adapter, batch)
        self._stats.deliver(self._real_rows(step, filled.arrays["tokens"].shape[1]))
        self._place = Place(step_number + 1, epoch, position + step.units)  # last: an interrupt may come at any line
        return batch

    def _adapted(self, adapter: Callable[[Any], Any], batch: TokenBatch) -> Any:
        try:
            return adapter(batch)
        except Exception as error:
            raise LoaderError(
                f"epoch {batch.epoch}, step {batch.step}, output adapter {function_name(adapter)}: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _real_rows(self, step: Step, rows: int) -> int:
        """Return how many of this process' `rows` of a step hold tokens: behind the end of an epoch none do."""
        if step.units == self._schedule.width(step.phase):
            return rows
        there = -(-step.units * self._schedule.unit_tokens // step.phase.seq_len)
        return sum(max(0, min(high, there) - low) for low, high in self._filler.rows_of(step.phase))


def _mask(filler: TokenFiller, convert: Callable[[Any, tuple[int, int]], Any], step: Step) -> Any:
    return convert(filler.there(step), (step.phase.rows, step.phase.seq_len))
