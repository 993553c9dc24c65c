"""Deliver the steps of a schedule: in order, each once, or an error; know where the consumer stands, and go on there.

The loader's engine runs it, ahead or on demand; what a step holds is for the filler to say.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any

from toolkit.errors import UsageError
from toolkit.loader.engine.engine import Engine
from toolkit.loader.engine.front import Front
from toolkit.loader.engine.iteration import Iteration
from toolkit.loader.order.course import EndedRunWarning, ended_text
from toolkit.loader.order.state import check_fields, same_value, short, whole_number
from toolkit.loader.outputs.registry import named
from toolkit.loader.tokens.batch import TokenBatch
from toolkit.loader.tokens.filler import FilledSteps, PlannedSteps, TokenFiller, plan_steps
from toolkit.loader.tokens.options import StreamOptions
from toolkit.loader.tokens.schedule import Place, Schedule, Step
from toolkit.memory.guard import check_memory

__all__ = ["STATE_VERSION", "Delivery", "StepStream"]

STATE_VERSION = 2

_ENDLESS = 1 << 62  # epochs
_MOST_STEPS = 1 << 50  # more than any run has: what is counted beyond has no end

# Turns an array of this process' rows into what is delivered; gets the global shape.
Delivery = Callable[[Any, tuple[int, int]], Any]


_Engine = Engine[PlannedSteps, FilledSteps]


class StepStream(Front[TokenBatch]):
    """Iterates over batches. One consumer; the threads end with the iteration, with close(), or when it is dropped."""

    _called = "stream"
    #: Whether one epoch of it is a run: nobody loops over its epochs.
    _is_whole = False

    def __init__(self, schedule: Schedule, filler: TokenFiller, deliver: Delivery, options: StreamOptions) -> None:
        """Raises UsageError: a batch is larger than `max_bytes`, or a step lies behind the last phase."""
        super().__init__(
            filler.stats,
            max_bytes=options.most_bytes,
            hold_timeout=options.hold_timeout,
            prefetch=options.prefetch,
            collect=named(options.output).collector(),
        )
        self._schedule = schedule
        self._filler = filler
        self._convert = deliver
        self._last_step = options.last_step
        self._until_epoch = options.until_epoch
        self._epochs = options.epochs
        self._threads = options.threads
        self._prefetch = options.prefetch
        largest = max(options.all_phases, key=filler.step_bytes)
        self._check_fits(filler.step_bytes(largest), f"a batch of {largest.rows} rows of {largest.seq_len} tokens")
        self._place = schedule.advance(Place(), options.first_step)

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
        self._end_engine()
        self._place = place

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError(
            "a token stream doesn't pickle: pickle its datasets and its state_dict(), and make it where they arrive"
        )

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
            content = filled.content
            for i in range(content.good):
                if self._engine is not engine:
                    break
                check_memory()
                if i:
                    self._stats.tick()  # the engine looks at the clock once a fill
                delivered += 1
                yield self._batch(content, i)
            if self._engine is not engine:
                break
            if content.error is not None:
                raise content.error
            del filled, content  # the consumer alone decides how long a batch lives
        if delivered != count:
            raise self._cut_off(f"{delivered} of {count} steps")

    def _batch(self, filled: FilledSteps, i: int) -> TokenBatch:
        step = filled.steps[i]
        step_number, epoch, position = step.place
        shape = (step.phase.rows, step.phase.seq_len)
        arrays = {name: self._convert(array[i], shape) for name, array in filled.arrays.items()}
        batch = TokenBatch(arrays, (step.place, partial(_mask, self._filler, self._convert, step)))
        self._stats.deliver(filled.arrays["tokens"].shape[1])
        self._place = Place(step_number + 1, epoch, position + step.units)  # last: an interrupt may come at any line
        return batch


def _mask(filler: TokenFiller, convert: Delivery, step: Step) -> Any:
    return convert(filler.there(step), (step.phase.rows, step.phase.seq_len))
