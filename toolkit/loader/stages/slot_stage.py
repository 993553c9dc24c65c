"""A slot's way into batches: read or decode, run its steps, and fill or refuse what is missing."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import PipelineError, SampleError
from toolkit.loader.dataset.located import Variable
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.stages.memory import SampleMemory
from toolkit.loader.stages.readers import ColumnReader
from toolkit.loader.stages.stage import ColumnStage, Part, allocate, block_bytes, missing_value
from toolkit.memory.pool import Lend
from toolkit.pipelines.build import CompiledSlot
from toolkit.pipelines.image.compiled import CompiledImage, Failure, run_together
from toolkit.pipelines.randomness import sample_keys
from toolkit.pipelines.state import State
from toolkit.pipelines.step import Step, all_steps
from toolkit.pipelines.value_program import StepFailureError
from toolkit.pipelines.value_step import Values, ValueStep, joined

__all__ = ["ImageStage", "SlotStage"]

_SLOW_PART = 16  # samples that take milliseconds each


class SlotStage(ColumnStage):
    """A slot: values are read or decoded, go through its steps, and missing ones are filled or refused."""

    def __init__(self, compiled: CompiledSlot, reader: ColumnReader, seed: int, stats: LoaderStats) -> None:
        super().__init__(compiled.slot.name, reader.fetcher, stats)
        self._compiled = compiled
        self._reader = reader
        self._seed = seed
        self._shape = compiled.output.fixed_shape
        self._dtype = _numpy_dtype(compiled.output)
        self._random = compiled.slot.is_random
        self.optional = compiled.slot.optional
        self.dtype = compiled.output.dtype
        if any(step.is_slow for step in all_steps(compiled.slot.steps)):
            self.largest_part = _SLOW_PART

    def allocate(self, samples: int, lend: Lend) -> Any:
        """Return (samples, *shape) of the slot's dtype, or a list."""
        return allocate(self._shape, self._dtype, samples, lend)

    def block_bytes(self, samples: int) -> int | None:
        """Return the array's size, or None for a list."""
        return block_bytes(self._shape, self._dtype, samples)

    def fill(self, place: Any, part: Part, memory: SampleMemory) -> None:
        """Read, decode and transform."""
        begun = time.perf_counter()
        stored = self._reader.read(part.located, memory.fetched)
        fetched = time.perf_counter()
        self._place(place, part, stored.values, stored.present, memory)
        self._stats.add(
            fetch_seconds=fetched - begun,
            decode_seconds=time.perf_counter() - fetched,
            fetched_bytes=stored.nbytes,
        )

    def _place(self, place: Any, part: Part, values: Values, present: NDArray[np.bool_], memory: SampleMemory) -> None:
        """Run the steps on what is there, and put it, and what stands for the rest, into the batch."""
        self._note(part, present)
        there = np.flatnonzero(present)
        rows = part.located.rows[there]
        if isinstance(values, list):
            values = [values[i] for i in there]
        elif len(there) != len(present):
            values = values[there]
        made: Values = []
        if len(there):
            made = self._checked(self._run(values, self._keys(part, there), rows, memory), place, len(there))
        if isinstance(place, list):
            for i, value in zip(there.tolist(), made, strict=True):
                place[part.start + i] = value
        elif len(there):
            place[part.start + there] = made
        self._fill_gaps(place, part, present)

    def _note(self, part: Part, present: NDArray[np.bool_]) -> None:
        if self.optional:
            part.present[self.name][part.places] = present
        elif not present.all():
            row = int(part.located.rows[int(np.argmin(present))])
            steps = self._compiled.slot.steps
            raise self._failed(row, steps[0].text() if steps else "read", missing_value(self._compiled.slot.column))

    def _fill_gaps(self, place: Any, part: Part, present: NDArray[np.bool_]) -> None:
        fill = self._compiled.slot.fill
        for i in (part.start + np.flatnonzero(~present)).tolist():
            place[i] = fill if isinstance(place, list) else _encoded_fill(fill, self.dtype)

    def _keys(self, part: Part, there: NDArray[np.int64]) -> NDArray[np.uint64] | None:
        if not self._random:
            return None
        return sample_keys(self._seed, part.epoch, self._compiled.group, part.positions[there])

    def _run(
        self, values: Values, keys: NDArray[np.uint64] | None, rows: NDArray[np.int64], memory: SampleMemory
    ) -> Values:
        try:
            return self._compiled.values.run(values, keys, _Watch(self, rows, memory), memory.scratch)
        except StepFailureError as error:
            raise self._failed(int(rows[error.index]), error.step, str(error)) from error.__cause__

    def _checked(self, made: Values, place: Any, samples: int) -> Values:
        """Return what the steps made. Raises PipelineError: it isn't what their rules say, and numpy would cast it."""
        given = joined(made) if isinstance(made, list) and isinstance(place, np.ndarray) else made
        fits = isinstance(place, list) or (
            isinstance(given, np.ndarray) and given.dtype == place.dtype and given.shape[1:] == place.shape[1:]
        )
        if fits and len(given) == samples:
            return given
        found = f"{given.dtype} {given.shape}" if isinstance(given, np.ndarray) else f"a list of {len(given)} values"
        steps = ", ".join(step.text() for step in self._compiled.slot.steps[self._compiled.image_steps :])
        raise PipelineError(
            f"slot {self.name!r}: of {samples} samples {steps} gave {found}, and by its rule each is "
            f"{self._compiled.output}: this is a defect of the step"
        )

    def overdue(self, row: int, step: str, timeout: float) -> SampleError:
        """Return the error of a function that has not returned."""
        return self._failed(
            row, step, f"it has not returned for {timeout:g} s; python(…, timeout=) says how long it may"
        )


class ImageStage(SlotStage):
    """A slot that decodes images: straight into the batch, unless more steps follow.

    How images are stored decides `_fetch` and `_decode`; what is stored otherwise overrides them.
    """

    largest_part = _SLOW_PART

    def __init__(
        self,
        compiled: CompiledSlot,
        image: CompiledImage,
        leaf: str,
        reader: ColumnReader,
        seed: int,
        stats: LoaderStats,
    ) -> None:
        super().__init__(compiled, reader, seed, stats)
        self._image = image
        self._leaf = leaf
        behind = compiled.slot.steps[compiled.image_steps :]
        self._reshaped = bool(behind) and image.shape is not None and all(map(_keeps_memory, behind))
        self._direct = not behind or self._reshaped
        if not behind:
            self._shape, self._dtype = image.shape, image.dtype
        self.shares = (compiled.slot.column, image.decoding)

    def fill(self, place: Any, part: Part, memory: SampleMemory) -> None:
        """Fetch, decode and transform."""
        self.fill_together([self], [place], part, memory)

    def fill_together(
        self, stages: Sequence[ColumnStage], places: Sequence[Any], part: Part, memory: SampleMemory
    ) -> None:
        """Fetch once, decode once where that is less work, and transform for each."""
        slots = [stage for stage in stages if isinstance(stage, ImageStage)]
        begun = time.perf_counter()
        images = self._fetch(part, memory)
        fetched = time.perf_counter()
        present = images.lengths >= 0
        self._note(part, present)
        outs: list[Any] = [slot._out(place, part) for slot, place in zip(slots, places, strict=True)]
        keys = [slot._keys(part, np.arange(len(present))) for slot in slots]
        failed: list[tuple[int, Failure] | None] = [None] * len(slots)
        for run in _runs(present):
            pieces = [out[run] for out in outs]
            of_run = [None if own is None else own[run] for own in keys]
            failures = self._decode_all(slots, images, run, pieces, of_run, part, memory)
            for number, (out, piece, found) in enumerate(zip(outs, pieces, failures, strict=True)):
                if found and failed[number] is None:
                    failed[number] = run.start + found[0].index, found[0]
                if isinstance(out, list):
                    out[run] = piece
            if failed[0] is not None:
                break  # it is what is said, whatever else fails
        for slot, place, out, failure in zip(slots, places, outs, failed, strict=True):
            slot._deliver(place, part, out, present, failure, memory)
        self._stats.add(
            fetch_seconds=fetched - begun,
            decode_seconds=time.perf_counter() - fetched,
            fetched_bytes=int(images.lengths[present].sum()),
        )

    def _out(self, place: Any, part: Part) -> Any:
        """Return where the kernels write: the part's places in the batch, or between them and the steps behind."""
        if self._reshaped:
            return place[part.places].reshape(len(part.positions), *(self._image.shape or ()))
        return place[part.places] if self._direct else self._between(len(part.positions))

    def _deliver(
        self,
        place: Any,
        part: Part,
        out: Any,
        present: NDArray[np.bool_],
        failed: tuple[int, Failure] | None,
        memory: SampleMemory,
    ) -> None:
        """Raise for the sample that failed, or bring what the kernels made into the batch."""
        self._note(part, present)
        if failed is not None:
            raise self._failed(int(part.located.rows[failed[0]]), failed[1].step, failed[1].message)
        if not self._direct:
            self._place(place, part, out, present, memory)
            return
        if isinstance(place, list):
            place[part.places] = out
        self._fill_gaps(place, part, present)

    def _between(self, samples: int) -> Any:
        """Return the place for what the steps behind the kernels start from."""
        shape = self._image.shape
        return [None] * samples if shape is None else np.empty((samples, *shape), self._image.dtype)

    def _fetch(self, part: Part, memory: SampleMemory) -> Variable:
        """Copy the part's images out of the shards; length -1 is missing."""
        return self._fetcher.variable(self._leaf, part.located, memory.fetched)

    def _decode_all(
        self,
        slots: Sequence[ImageStage],
        images: Variable,
        run: slice,
        outs: Sequence[Any],
        keys: Sequence[NDArray[np.uint64] | None],
        part: Part,
        memory: SampleMemory,
    ) -> list[list[Failure]]:
        """Do what `_decode` does for each slot; those whose results have one size share what is decoded."""
        sharing = [number for number, out in enumerate(outs) if not isinstance(out, list)]
        failures: list[list[Failure]] = [[] for _ in slots]
        if len(sharing) > 1:
            shared = run_together(
                [slots[number]._image for number in sharing],
                images.addresses[run],
                images.lengths[run],
                images.buffer,
                [outs[number] for number in sharing],
                memory.scratch,
                [keys[number] for number in sharing],
            )
            for number, found in zip(sharing, shared, strict=True):
                failures[number] = found
        for number, slot in enumerate(slots):
            if len(sharing) < 2 or number not in sharing:
                failures[number] = slot._decode(images, run, outs[number], keys[number], part, memory)
        return failures

    def _decode(
        self, images: Variable, run: slice, out: Any, keys: NDArray[np.uint64] | None, part: Part, memory: SampleMemory
    ) -> list[Failure]:
        """Decode and transform the images of `run`, none of which is missing, into `out`, an array or a list."""
        return self._image.run(images.addresses[run], images.lengths[run], images.buffer, out, memory.scratch, keys)


class _Watch:
    """Notes in the worker's memory which function of the user's it is in."""

    def __init__(self, stage: SlotStage, rows: NDArray[np.int64], memory: SampleMemory) -> None:
        self._stage = stage
        self._rows = rows
        self._memory = memory

    def begin(self, index: int, step: str, timeout: float | None) -> None:
        row = int(self._rows[index])
        self._memory.enter(timeout, lambda limit: self._stage.overdue(row, step, limit))

    def end(self) -> None:
        self._memory.leave()


def _runs(present: NDArray[np.bool_]) -> Iterator[slice]:
    """Yield the stretches in which every sample is there."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], present, [False]))))
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield slice(start, stop)


def _keeps_memory(step: Step) -> bool:
    return isinstance(step, ValueStep) and step.keeps_memory


def _numpy_dtype(state: State) -> np.dtype[Any] | None:
    if state.dtype is None:
        return None
    return np.dtype(np.uint16 if state.dtype == "bfloat16" else state.dtype)


def _encoded_fill(fill: Any, dtype: str | None) -> Any:
    """Return what stands for `fill` in an array: the upper half of its float32 where the array is bfloat16."""
    if fill is None:
        return 0
    return np.float32(fill).view(np.uint32) >> 16 if dtype == "bfloat16" else fill
