"""Fill the memory of a few consecutive steps in one go: what a thread does, and what it needs for it.

A work item holds no stream, so that a stream that is dropped is collected while its threads still run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import CorruptShardError
from toolkit.loader.tokens.run import OpenRun
from toolkit.loader.tokens.schedule import Step
from toolkit.memory.pool import ALIGNMENT, BlockPool

__all__ = ["Columns", "Filled", "Filler", "RowRange", "StreamOrder", "Stretches", "WindowOrder"]

# What one call fills: a few steps while these are small, so that calls cost little and memory stays in the cache.
_FILLED_BYTES = 1024 * 1024

# Rows [low, high) of a global batch.
RowRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Stretches:
    """What to copy: int64 (n,) each, see OpenRun.gather."""

    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    places: NDArray[np.int64]


class StreamOrder(Protocol):
    """Says where the tokens of a step's rows lie."""

    @property
    def block(self) -> int:
        """Tokens of a permuted block; 0 when stretches are of the run itself."""

    def key(self, epoch: int) -> int:
        """Return the key of an epoch's order of blocks."""

    def stretches(self, steps: Sequence[Step], rows: Sequence[RowRange]) -> Stretches:
        """Return the stretches of these rows of each step, one step's places behind the other's.

        The steps follow each other in one epoch and are of one form; only a single one may be padded.
        """


@dataclass(frozen=True, slots=True)
class WindowOrder:
    """Windows one behind the other through the blocks in their order. `keys` gives the key of an epoch."""

    block: int
    keys: Callable[[int], int]

    def key(self, epoch: int) -> int:
        """Return the key of an epoch's order of blocks."""
        return self.keys(epoch) if self.block else 0

    def stretches(self, steps: Sequence[Step], rows: Sequence[RowRange]) -> Stretches:
        """Return one stretch for each range of rows of each step, cut where a padded step's tokens end."""
        first = steps[0]
        if len(rows) == 1 and rows[0] == (0, first.phase.rows):
            whole = (first.place.position, first.units * len(steps), 0)
            return Stretches(*(np.array([value], np.int64) for value in whole))
        length = first.phase.seq_len
        ranges = np.array(rows, np.int64).reshape(-1, 2) * length
        lows = np.minimum(ranges[:, 0], first.units)
        counts = np.minimum(ranges[:, 1], first.units) - lows
        places = np.concatenate(([0], np.cumsum(ranges[:, 1] - ranges[:, 0])))
        number = np.arange(len(steps), dtype=np.int64)[:, None]
        starts = first.place.position + number * first.units + lows
        return Stretches(
            starts.reshape(-1), np.tile(counts, len(steps)), (number * places[-1] + places[:-1]).reshape(-1)
        )


@dataclass(frozen=True, slots=True)
class Columns:
    """Which arrays there are."""

    dtype: np.dtype[Any]
    targets: bool
    documents: bool
    mask_documents: bool
    pad_id: int


@dataclass(slots=True)
class Filled:
    """Arrays over the rows of some steps of one form, and the error behind the `good` ones.

    `arrays` are (steps, rows, seq_len), and `flat` the same memory.
    """

    steps: list[Step]
    flat: dict[str, NDArray[Any]] = field(default_factory=dict)
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    good: int = 0
    error: CorruptShardError | None = None


@dataclass(frozen=True, slots=True)
class Filler:
    """Fills steps. Used by every thread at once; owns nothing but the pool's blocks it hands on."""

    run: OpenRun
    order: StreamOrder
    columns: Columns
    ranges: Callable[[tuple[int, int]], Sequence[RowRange]] | None
    rank: int
    world_size: int
    pool: BlockPool

    def rows_of(self, step: Step) -> Sequence[RowRange]:
        """Return this process' rows of a step's global batch."""
        if self.ranges is not None:
            return self.ranges((step.phase.rows, step.phase.seq_len))
        each = step.phase.rows // self.world_size
        return [(self.rank * each, (self.rank + 1) * each)]

    def steps_at_once(self, step: Step) -> int:
        """Return how many steps of that form are filled in one go."""
        columns = self.columns
        width = columns.dtype.itemsize * (2 if columns.targets else 1) + (8 if columns.documents else 0)
        rows = sum(high - low for low, high in self.rows_of(step))
        return max(1, _FILLED_BYTES // (rows * step.phase.seq_len * width))

    def fill(self, steps: list[Step]) -> Filled:
        """Return the arrays of `steps`, all of one epoch and form; of a damaged shard's step the error instead."""
        rows = sum(high - low for low, high in self.rows_of(steps[0]))
        seq_len = steps[0].phase.seq_len
        filled = Filled(steps)
        tokens = rows * seq_len
        self._allocate(filled, tokens * len(steps))
        filled.arrays = {name: array.reshape(len(steps), rows, seq_len) for name, array in filled.flat.items()}
        try:
            self._gather(filled, steps, 0, tokens)
            filled.good = len(steps)
        except CorruptShardError as error:
            filled.error = error
            if len(steps) > 1:
                self._one_by_one(filled, tokens)
        return filled

    def there(self, step: Step) -> NDArray[np.bool_]:
        """Return bool (rows, seq_len): which places of this process' rows hold tokens of the epoch."""
        rows = self.rows_of(step)
        length = step.phase.seq_len
        mask = np.zeros(sum(high - low for low, high in rows) * length, np.bool_)
        found = self.order.stretches([step], rows)
        for place, count in zip(found.places.tolist(), found.counts.tolist(), strict=True):
            mask[place : place + count] = True
        return mask.reshape(-1, length)

    def _one_by_one(self, filled: Filled, tokens: int) -> None:
        """Find the first step that can't be had: those before it are delivered."""
        for i, step in enumerate(filled.steps):
            try:
                self._gather(filled, [step], i * tokens, tokens)
            except CorruptShardError as error:
                filled.error = error
                return
            filled.good = i + 1
        filled.error = None

    def _allocate(self, filled: Filled, tokens: int) -> None:
        columns = self.columns
        wanted: list[tuple[str, np.dtype[Any]]] = [("tokens", columns.dtype)]
        if columns.targets:
            wanted.append(("targets", columns.dtype))
        if columns.documents:
            wanted += [("segments", np.dtype(np.int32)), ("positions", np.dtype(np.int32))]
        sizes = [-(-tokens * dtype.itemsize // ALIGNMENT) * ALIGNMENT for _, dtype in wanted]
        block = self.pool.lend(sum(sizes))
        at = 0
        for (name, dtype), size in zip(wanted, sizes, strict=True):
            filled.flat[name] = block[at : at + tokens * dtype.itemsize].view(dtype)
            at += size

    def _gather(self, filled: Filled, steps: list[Step], first: int, tokens: int) -> None:
        arrays = {name: array[first : first + tokens * len(steps)] for name, array in filled.flat.items()}
        found = self.order.stretches(steps, self.rows_of(steps[0]))
        if int(found.counts.sum()) < tokens * len(steps):
            self._pad(arrays)
        self.run.gather(
            found.starts,
            found.counts,
            found.places,
            arrays["tokens"],
            steps[0].phase.seq_len,
            block=self.order.block,
            key=self.order.key(steps[0].place.epoch),
            targets=arrays.get("targets"),
            segments=arrays.get("segments"),
            positions=arrays.get("positions"),
            mask_junctions=self.columns.mask_documents,
        )

    def _pad(self, arrays: dict[str, NDArray[Any]]) -> None:
        fills = {"tokens": self.columns.pad_id, "targets": -100, "segments": 0, "positions": 0}
        for name, array in arrays.items():
            array[:] = fills[name]
