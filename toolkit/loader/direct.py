"""Read samples in the caller's thread: what a loader's worker does, for whoever brings threads or processes himself."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from toolkit.errors import PipelineError, UsageError
from toolkit.loader.dataset.dataset import Dataset
from toolkit.loader.engine.filler import fill_now
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.outputs.delivery import unfit_sample
from toolkit.loader.outputs.registry import named
from toolkit.loader.outputs.values import UnfitValueError
from toolkit.loader.stages.filler import SampleFiller
from toolkit.loader.stages.make import make_stages
from toolkit.loader.stages.planned import PlannedBatch
from toolkit.memory.pool import BlockPool
from toolkit.pipelines.build import last_steps
from toolkit.pipelines.pipeline import Pipeline

__all__ = ["DirectReader"]


class DirectReader:
    """Reads rows of a dataset through a pipeline. Safe from any thread, in any process; owns a thread's memory each."""

    def __init__(self, dataset: Dataset, pipeline: Pipeline | None, seed: int, output: str) -> None:
        """Raises UsageError, PipelineError; no sample is read yet."""
        if pipeline is not None and not isinstance(pipeline, Pipeline):
            raise UsageError(f"this takes a pipeline, got {type(pipeline).__name__}: toolkit.pipeline(slot(...), ...)")
        if pipeline is not None and pipeline.batch_maps:
            raise PipelineError("batch maps need the batches of toolkit's own loader: leave them out here")
        self._dataset = dataset
        self._pool = BlockPool(keep=0)
        compiled = pipeline.compile(dataset.columns, dataset.schema) if pipeline else []
        self._steps = last_steps(compiled)
        stages = make_stages(dataset.columns, dataset.schema, compiled, dataset.fetcher, LoaderStats(), seed=seed)
        self._dtypes = {stage.name: stage.dtype for stage in stages}
        self._filler = SampleFiller(stages, dataset.fetcher)
        self._arrays = named(output).arrays()
        self._local = threading.local()

    def read(self, rows: Sequence[int], epoch: int) -> dict[str, Any]:
        """Return the columns of rows of the dataset: the output's arrays, or lists, as in a loader's batch.

        A row stands for its position where steps draw: nobody here knows what order the rows are read in.

        Raises:
            IndexError, CorruptShardError, SampleError: A row that is not there, is damaged, or can't be decoded; or the
                output has nothing for a value of it.
        """
        memory = getattr(self._local, "memory", None)
        if memory is None:
            memory = self._local.memory = self._filler.memory()
        chosen = np.asarray(rows, np.int64)
        samples = len(self._dataset)
        if len(chosen) and not (-samples <= int(chosen.min()) and int(chosen.max()) < samples):
            raise IndexError(f"rows must be within 0..{samples - 1}, got {chosen.min()}..{chosen.max()}")
        positions = chosen % samples if samples else chosen
        planned = PlannedBatch(epoch, positions, self._dataset.rows(positions), len(positions))
        columns = fill_now(self._filler, planned, lambda column: self._pool.lend, memory).columns
        try:
            return self._arrays.columns(columns, self._dtypes)
        except UnfitValueError as error:
            if error.index is None:
                raise
            raise unfit_sample(self._dataset.fetcher, int(planned.rows[error.index]), self._steps, error) from error
