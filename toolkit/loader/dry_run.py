"""Run a pipeline on a few samples, one by one and slot by slot: what each slot gives, and every error by key."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.errors import ToolkitError, UsageError
from toolkit.escapes import short
from toolkit.loader.engine.filler import fill_now
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.stages.filler import SampleFiller
from toolkit.loader.stages.make import make_stages
from toolkit.loader.stages.planned import PlannedBatch
from toolkit.loader.stages.stage import ColumnStage
from toolkit.memory.pool import BlockPool

if TYPE_CHECKING:
    from toolkit.loader.dataset.dataset import Dataset
    from toolkit.pipelines.pipeline import Pipeline

__all__ = ["DryRun", "SlotRun", "dry_run"]


@dataclass(slots=True, kw_only=True)
class SlotRun:
    """What one column of the batches would hold.

    Attributes:
        types: dtypes, or names of Python types, in order of appearance.
        shapes: Shapes of arrays, in order of appearance.
        least, most: Of all numbers; None without any.
        missing: Samples that lack it, where the slot is optional.
        errors: What went wrong, by sample key.
    """

    types: list[str] = field(default_factory=list)
    shapes: list[tuple[int, ...]] = field(default_factory=list)
    least: float | None = None
    most: float | None = None
    missing: int = 0
    errors: dict[str, ToolkitError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The samples that were run, and what came of each column. Printed, it is a table."""

    samples: int
    columns: dict[str, SlotRun]

    @property
    def ok(self) -> bool:
        """Whether no sample failed."""
        return not any(column.errors for column in self.columns.values())

    def __str__(self) -> str:
        lines = [f"{self.samples} samples, {'all good' if self.ok else 'with errors'}"]
        for name, column in self.columns.items():
            said = [" or ".join(column.types) or "nothing"]
            said += [" or ".join(map(str, column.shapes))] if column.shapes else []
            said += [f"{column.least:g}..{column.most:g}"] if column.least is not None else []
            said += [f"{column.missing} missing"] if column.missing else []
            lines.append(f"  {name}: {', '.join(said)}")
            lines += [f"    {key}: {error}" for key, error in column.errors.items()]
        return "\n".join(lines)


def dry_run(dataset: Dataset, pipeline: Pipeline, samples: int) -> DryRun:
    """Run the first `samples` samples, as epoch 0 of seed 0 in stored order. Batch maps don't run.

    Raises:
        PipelineError: A slot doesn't fit the dataset.
        CorruptShardError: A shard is missing or was changed.
    """
    if not isinstance(samples, int) or samples < 1:
        raise UsageError(f"dry_run: samples must be an int of at least 1, got {short(samples, 80, quoted=True)}")
    compiled = pipeline.compile(dataset.columns, dataset.schema)
    stages = make_stages(dataset.columns, dataset.schema, compiled, dataset.fetcher, LoaderStats(), seed=0)
    ran = DryRun(min(samples, len(dataset)), {stage.name: SlotRun() for stage in stages})
    pool = BlockPool(keep=0)
    runs = [(stage, SampleFiller([stage], dataset.fetcher), ran.columns[stage.name]) for stage in stages]
    for position in range(ran.samples):
        positions = np.array([position], np.int64)
        planned = PlannedBatch(0, positions, dataset.rows(positions), 1)
        dataset.fetcher.locate(planned.rows)  # a shard that can't be opened is no fault of a slot's
        for stage, filler, into in runs:
            _run_one(stage, filler, planned, pool, into)
    return ran


def _run_one(stage: ColumnStage, filler: SampleFiller, planned: PlannedBatch, pool: BlockPool, into: SlotRun) -> None:
    try:
        content = fill_now(filler, planned, lambda column: pool.lend, filler.memory())
    except ToolkitError as error:
        into.errors[getattr(error, "key", None) or "?"] = error
        return
    if stage.optional and not content.present[stage.name][0]:
        into.missing += 1
        return
    _note(content.columns[stage.name][0], stage.dtype, into)


def _note(value: Any, dtype: str | None, into: SlotRun) -> None:
    is_array = isinstance(value, (np.ndarray, np.generic))
    kind = (dtype or value.dtype.name) if is_array else type(value).__name__
    if kind not in into.types:
        into.types.append(kind)
    if not is_array:
        return
    if value.shape not in into.shapes:
        into.shapes.append(value.shape)
    if value.size and dtype != "bfloat16" and value.dtype.kind in "biuf":
        least, most = float(value.min()), float(value.max())
        into.least = least if into.least is None else min(into.least, least)
        into.most = most if into.most is None else max(into.most, most)
