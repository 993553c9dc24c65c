"""Fill the memory of a few consecutive steps in one go: what a worker of the engine does for a token stream."""

from __future__ import annotations

import functools
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.loader.engine.filler import Filler, LendNamed
from toolkit.loader.engine.memory import MakeRoom, WorkerMemory
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.outputs.spec import RowRange
from toolkit.loader.tokens.options import StreamOptions
from toolkit.loader.tokens.run import OpenRun
from toolkit.loader.tokens.schedule import Phase, Step
from toolkit.loader.tokens.stretches import StreamOrder
from toolkit.memory.budget import Budget
from toolkit.memory.pool import ALIGNMENT

__all__ = ["Columns", "FilledSteps", "PlannedSteps", "StreamFiller", "TokenFiller", "plan_steps"]

# What one call fills: some steps while these are small. A call costs as much as copying 100 KiB, whatever it fills.
_FILLED_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class Columns:
    """Which arrays there are."""

    dtype: np.dtype[Any]
    targets: bool
    documents: bool
    mask_documents: bool
    pad_id: int

    @classmethod
    def of(cls, options: StreamOptions, run: OpenRun) -> Columns:
        """Return the arrays that are asked for; the end-of-text id or 0 pads them if no other is given."""
        given = options.given
        pad_id = run.encoding.eos or 0 if given["pad_id"] is None else given["pad_id"]
        return cls(options.dtype, given["targets"], options.gives_documents, options.masks_documents, pad_id)

    @functools.cached_property
    def dtypes(self) -> dict[str, np.dtype[Any]]:
        """The dtypes by name, in the order that they lie in memory."""
        named = {"tokens": self.dtype} | ({"targets": self.dtype} if self.targets else {})
        documents = np.dtype(np.int32)
        return named | ({"segments": documents, "positions": documents} if self.documents else {})

    @functools.cached_property
    def names(self) -> str:
        """What the block of all arrays is called."""
        return ", ".join(self.dtypes)

    def sizes(self, tokens: int) -> list[int]:
        """Return the bytes of each array's part of a block, up to where the next one begins."""
        return [-(-tokens * dtype.itemsize // ALIGNMENT) * ALIGNMENT for dtype in self.dtypes.values()]


@dataclass(slots=True)
class PlannedSteps:
    """Steps of one form that follow each other in an epoch; their places are the steps."""

    steps: list[Step]

    @property
    def epoch(self) -> int:
        """Their epoch."""
        return self.steps[0].place.epoch

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last of their units."""
        last = self.steps[-1]
        return self.steps[0].place.position, last.place.position + last.units - 1

    @property
    def places(self) -> int:
        """How many steps."""
        return len(self.steps)

    def __str__(self) -> str:
        phase = self.steps[0].phase
        return f"{len(self.steps)} batches of {phase.rows} rows of {phase.seq_len} tokens"


@dataclass(slots=True)
class FilledSteps:
    """Arrays over the rows of some steps of one form, and the error behind the `good` ones.

    `arrays` are (steps, rows, seq_len), and `flat` the same memory.
    """

    steps: list[Step]
    flat: dict[str, NDArray[Any]]
    arrays: dict[str, NDArray[Any]]
    good: int = 0
    error: Exception | None = field(default=None)


@dataclass(frozen=True)
class TokenFiller(Filler[PlannedSteps, FilledSteps, WorkerMemory]):
    """Fills steps. Used by every thread at once."""

    columns: Columns
    ranges: Callable[[tuple[int, int]], Sequence[RowRange]] | None
    rank: int
    world_size: int
    stats: LoaderStats

    def rows_of(self, phase: Phase) -> Sequence[RowRange]:
        """Return this process' rows of a global batch."""
        if self.ranges is not None:
            return self.ranges((phase.rows, phase.seq_len))
        each = phase.rows // self.world_size
        return [(self.rank * each, (self.rank + 1) * each)]

    def step_bytes(self, phase: Phase, steps: int = 1) -> int:
        """Return what the arrays of so many steps take."""
        return sum(self.columns.sizes(self._row_count(phase) * phase.seq_len * steps))

    def steps_at_once(self, phase: Phase, most_bytes: int = _FILLED_BYTES) -> int:
        """Return how many steps are filled in one go, of `most_bytes` together."""
        return max(1, most_bytes // self.step_bytes(phase))

    def block_bytes(self, planned: PlannedSteps) -> int:
        """Return what their arrays take."""
        return self.step_bytes(planned.steps[0].phase, len(planned.steps))

    def cut(self, planned: PlannedSteps, most_bytes: int) -> Sequence[PlannedSteps]:
        """Return fewer steps each, where they would take more; a single one is as small as it gets."""
        steps = planned.steps
        most = self.steps_at_once(steps[0].phase, most_bytes)
        if len(steps) <= most:
            return [planned]
        return [PlannedSteps(steps[first : first + most]) for first in range(0, len(steps), most)]

    def allocate(self, planned: PlannedSteps, lend: LendNamed) -> FilledSteps:
        """Return arrays over one block."""
        steps, columns = planned.steps, self.columns
        phase = steps[0].phase
        rows = self._row_count(phase)
        tokens = rows * phase.seq_len * len(steps)
        sizes = columns.sizes(tokens)
        block = lend(columns.names)(sum(sizes))
        flat: dict[str, NDArray[Any]] = {}
        at = 0
        for (name, dtype), size in zip(columns.dtypes.items(), sizes, strict=True):
            flat[name] = block[at : at + tokens * dtype.itemsize].view(dtype)
            at += size
        arrays = {name: array.reshape(len(steps), rows, phase.seq_len) for name, array in flat.items()}
        return FilledSteps(steps, flat, arrays)

    def parts(self, planned: PlannedSteps, threads: int) -> Sequence[tuple[int, int]]:
        """Return one: a fill is small, and threads take one each."""
        return [(0, len(planned.steps))]

    def memory(self, budget: Budget | None = None, make_room: MakeRoom | None = None) -> WorkerMemory:
        """Return memory of nothing: tokens go from the map into the batch."""
        return WorkerMemory(budget, make_room)

    def fill(self, content: FilledSteps, start: int, stop: int, memory: WorkerMemory) -> None:
        """Fill the steps. One that fails has the error instead, whatever it is, and those before it are good."""
        begun = time.perf_counter()
        steps = content.steps
        try:
            copied = self._copy(steps, content.flat)
            content.good = len(steps)
        except Exception as error:
            content.error = error
            copied = self._one_by_one(content) if len(steps) > 1 else 0
        self.stats.add(fetch_seconds=time.perf_counter() - begun, fetched_bytes=copied)

    def place(self, planned: PlannedSteps, at: int) -> str:
        """Return the step's number."""
        return f"step {planned.steps[at].place.step}"

    @abstractmethod
    def there(self, step: Step) -> NDArray[np.bool_]:
        """Return bool (rows, seq_len): which places of this process' rows hold tokens of the epoch."""

    def _row_count(self, phase: Phase) -> int:
        return sum(high - low for low, high in self.rows_of(phase))

    def _one_by_one(self, content: FilledSteps) -> int:
        """Find the first step that can't be had: those before it are delivered. Return the bytes of those."""
        copied = 0
        for place in range(len(content.steps)):
            try:
                arrays = {name: array[place].reshape(-1) for name, array in content.arrays.items()}
                copied += self._copy(content.steps[place : place + 1], arrays)
            except Exception as error:
                content.error = error
                return copied
            content.good = place + 1
        content.error = None
        return copied

    @abstractmethod
    def _copy(self, steps: list[Step], arrays: dict[str, NDArray[Any]]) -> int:
        """Fill flat arrays with the steps' rows; return the bytes that were copied. Raises CorruptShardError."""

    def _pad(self, arrays: dict[str, NDArray[Any]]) -> None:
        fills = {"tokens": self.columns.pad_id, "targets": -100, "segments": 0, "positions": 0}
        for name, array in arrays.items():
            array[:] = fills[name]


@dataclass(frozen=True)
class StreamFiller(TokenFiller):
    """Fills steps from one run, in an order of its stretches."""

    run: OpenRun
    order: StreamOrder

    def there(self, step: Step) -> NDArray[np.bool_]:
        """Return where the order has stretches."""
        rows = self.rows_of(step.phase)
        length = step.phase.seq_len
        mask = np.zeros(sum(high - low for low, high in rows) * length, np.bool_)
        found = self.order.stretches([step], rows)
        for place, count in zip(found.places.tolist(), found.counts.tolist(), strict=True):
            mask[place : place + count] = True
        return mask.reshape(-1, length)

    def _copy(self, steps: list[Step], arrays: dict[str, NDArray[Any]]) -> int:
        phase = steps[0].phase
        found = self.order.stretches(steps, self.rows_of(phase))
        tokens = found.tokens
        if tokens < len(arrays["tokens"]):
            self._pad(arrays)
        self.run.gather(
            found.starts,
            found.counts,
            found.places,
            arrays["tokens"],
            phase.seq_len,
            block=self.order.block,
            key=self.order.key(steps[0].place.epoch),
            targets=arrays.get("targets"),
            segments=arrays.get("segments"),
            positions=arrays.get("positions"),
            mask_junctions=self.columns.mask_documents,
        )
        return tokens * self.run.width


def plan_steps(steps: Iterator[Step], filler: TokenFiller) -> Iterator[PlannedSteps]:
    """Yield what to fill in one go: steps of one form that follow each other in an epoch, while they are small."""
    group: list[Step] = []
    phase, epoch, units, most = None, -1, 0, 0
    for step in steps:
        if len(group) >= most or step.units != units or step.phase is not phase or step.place.epoch != epoch:
            if group:
                yield PlannedSteps(group)
            group = []
            (_, epoch, _), units, phase = step
            most = filler.steps_at_once(phase)
        group.append(step)
    if group:
        yield PlannedSteps(group)
