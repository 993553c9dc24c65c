"""Fill batches of samples column by column: the one order of allocating, laying out, filling and finishing stages."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import CorruptShardError, SampleError
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.dataset.located import Located, Place
from toolkit.loader.engine.filler import Filler, LendNamed
from toolkit.loader.engine.memory import MakeRoom
from toolkit.loader.stages.maps import BatchMaps
from toolkit.loader.stages.memory import SampleMemory
from toolkit.loader.stages.planned import PlannedBatch
from toolkit.loader.stages.stage import ColumnStage, Part
from toolkit.memory.budget import Budget
from toolkit.memory.bytes_column import BytesColumn

__all__ = ["FilledSamples", "SampleFiller"]

_PARTS_A_THREAD = 2  # of several: enough that none idles at the end of a batch, few enough to take the GIL rarely
_FLAT = {bytes, str, int, float, bool, type(None)}  # what columns of bytes and text are made of: no look inside


@dataclass(slots=True)
class FilledSamples:
    """A batch's columns: what its stages fill, and once it is finished what the consumer gets.

    `there`: bool (n,), what is neither padding nor left out. `present`: bool (n,) of each optional slot, where a sample
    has it.
    `located` says where its samples are stored, if a stage asked for that.
    """

    planned: PlannedBatch
    columns: dict[str, Any]
    there: NDArray[np.bool_]
    present: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    located: Located | None = None


class SampleFiller(Filler[PlannedBatch, FilledSamples, SampleMemory]):
    """Fills batches by their columns' stages, and lets `maps` change them when all of them are filled."""

    def __init__(
        self, stages: list[ColumnStage], fetcher: Fetcher, maps: BatchMaps | None = None, *, skip_errors: bool = False
    ) -> None:
        self._stages = stages
        self._together = _groups(stages)
        self._laid_out = [stage for stage in stages if stage.laid_out]
        self._fetcher = fetcher
        self._maps = maps
        self._largest_part = min((stage.largest_part for stage in stages), default=1)
        self.has_other = maps is not None or any(stage.block_bytes(1) is None for stage in stages)
        self.skippable = (SampleError, CorruptShardError) if skip_errors else ()

    def block_bytes(self, planned: PlannedBatch) -> int:
        """Return what its arrays take."""
        return self.least_bytes(planned.places)

    def least_bytes(self, samples: int) -> int:
        """Return what the arrays of a batch of so many samples take."""
        return sum(stage.block_bytes(samples) or 0 for stage in self._stages)

    def late_bytes(self, planned: PlannedBatch) -> int:
        """Return what its stages will lend once they know their values' lengths, which are looked up now."""
        if not self._laid_out:
            return 0
        located, _ = self._locate(planned)
        return sum(stage.late_bytes(located) for stage in self._laid_out)

    def allocate(self, planned: PlannedBatch, lend: LendNamed) -> FilledSamples:
        """Return the places of its columns."""
        places = planned.places
        columns = {stage.name: stage.allocate(places, lend(stage.name)) for stage in self._stages}
        present = {stage.name: np.ones(places, np.bool_) for stage in self._stages if stage.optional}
        return FilledSamples(planned, columns, np.ones(places, np.bool_), present)

    def parts(self, planned: PlannedBatch, threads: int) -> Sequence[tuple[int, int]]:
        """Return a few for each thread; of a batch that is all padding one, for a worker to finish it too."""
        samples, parts = planned.samples, threads * _PARTS_A_THREAD if threads > 1 else 1
        size = max(1, min(self._largest_part, -(-samples // parts)))
        return [(start, min(samples, start + size)) for start in range(0, max(1, samples), size)]

    def memory(self, budget: Budget | None = None, make_room: MakeRoom | None = None) -> SampleMemory:
        """Return memory for fetched bytes, and to decode them."""
        return SampleMemory(budget, make_room)

    def begin(self, content: FilledSamples) -> None:
        """Lay out the stages that ask for it, and find where all samples are stored.

        Not when no stage asks, so that parts open their shards side by side; and when a shard can't be opened, the
        parts that have a sample there say so themselves.
        """
        planned = content.planned
        if self._laid_out:
            located, where = self._locate(planned)
            content.located = located if len(where) == planned.samples else None
            for stage in self._laid_out:
                stage.lay_out(content.columns[stage.name], located, where)
        if planned.samples < planned.places:
            self.blank(content, planned.samples, planned.places)

    def fill(self, content: FilledSamples, start: int, stop: int, memory: SampleMemory) -> None:
        """Fill the places column by column. Raises CorruptShardError, SampleError."""
        planned, whole = content.planned, content.located
        run = slice(start, stop)
        located = self._fetcher.locate(planned.rows[run]) if whole is None else whole.part(run)
        part = Part(start, located, planned.epoch, planned.positions[run], content.present)
        for stages in self._together:
            stages[0].fill_together(stages, [content.columns[stage.name] for stage in stages], part, memory)

    def blank(self, content: FilledSamples, start: int, stop: int) -> None:
        """Empty the places in every column: zeros in arrays, None in lists."""
        for stage in self._stages:
            stage.blank(content.columns[stage.name], start, stop)
        for there in (content.there, *content.present.values()):
            there[start:stop] = False

    def finish(self, content: FilledSamples, memory: SampleMemory) -> int:
        """Make the columns that are delivered, through the maps; return what lies in no block."""
        filled = {stage.name: stage.finish(content.columns[stage.name]) for stage in self._stages}
        content.columns = filled
        if self._maps is not None:
            content.columns = self._maps(content.planned, dict(filled), content.there, content.present, memory)
        return _bytes_beside(filled, content.columns) if self.has_other else 0

    def place(self, planned: PlannedBatch, at: int) -> Place:
        """Return dataset, shard, row and key of a sample."""
        return self._fetcher.place(int(planned.rows[at]))

    def _locate(self, planned: PlannedBatch) -> tuple[Located, NDArray[np.int64]]:
        """Locate its samples, those whose shards can't be opened left out; return them, and which of them they are."""
        rows = planned.rows[: planned.samples]
        try:
            return self._fetcher.locate(rows), np.arange(len(rows))
        except CorruptShardError:
            return self._fetcher.locate_readable(rows)


def _groups(stages: Sequence[ColumnStage]) -> list[list[ColumnStage]]:
    """Return stages that share what they read together, each group in the place of its first one."""
    groups: dict[Hashable, list[ColumnStage]] = {}
    for stage in stages:
        groups.setdefault(stage.name if stage.shares is None else ("shared", stage.shares), []).append(stage)
    return list(groups.values())


def _bytes_beside(columns: dict[str, Any], made: dict[str, Any]) -> int:
    """Return what `made` of a batch's columns takes besides their blocks."""
    found = (values.data if isinstance(values, BytesColumn) else values for values in columns.values())
    blocks = [values for values in found if isinstance(values, np.ndarray)]
    return sum(_other_bytes(values, blocks) for values in made.values())


def _other_bytes(values: Any, blocks: list[np.ndarray[Any, Any]]) -> int:
    """Return what values take besides the batch's blocks."""
    if isinstance(values, np.ndarray):
        return 0 if any(np.may_share_memory(values, block) for block in blocks) else values.nbytes
    if isinstance(values, BytesColumn):
        return values.offsets.nbytes + values.present.nbytes + _other_bytes(values.data, blocks)
    if isinstance(values, list | tuple):
        if set(map(type, values)) <= _FLAT:
            return sys.getsizeof(values) + sum(map(sys.getsizeof, values))
        return sys.getsizeof(values) + sum(_other_bytes(value, []) for value in values)
    if isinstance(values, dict):
        return sys.getsizeof(values) + sum(_other_bytes(value, []) for value in values.values())
    return sys.getsizeof(values)
