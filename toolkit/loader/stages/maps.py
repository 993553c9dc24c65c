"""Run a pipeline's batch maps on a filled batch, on the worker that filled its last part."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from toolkit.errors import LoaderError
from toolkit.loader.engine.memory import WorkerMemory
from toolkit.loader.stages.planned import PlannedBatch
from toolkit.memory.bytes_column import BytesColumn
from toolkit.pipelines.batch_maps import BatchMap, run_batch_map

__all__ = ["BatchMaps"]


class BatchMaps:
    """The batch maps of a loader, in order. Used by every worker at once."""

    def __init__(self, maps: Sequence[BatchMap], seed: int, dataset: str) -> None:
        self._maps = maps
        self._seed = seed
        self._dataset = dataset

    def __call__(self, planned: PlannedBatch, columns: dict[str, Any], memory: WorkerMemory) -> dict[str, Any]:
        """Return the columns after all maps. Raises LoaderError, from what a map raised."""
        columns = {  # theirs to change
            name: list(values) if isinstance(values, BytesColumn) else values for name, values in columns.items()
        }
        for place, made in enumerate(self._maps):
            memory.enter(made.timeout, functools.partial(self._overdue, planned, made))
            try:
                columns = run_batch_map(
                    made,
                    place,
                    columns,
                    len(planned.positions),
                    seed=self._seed,
                    epoch=planned.epoch,
                    first_position=int(planned.positions[0]),
                )
            except Exception as error:
                raise self._error(planned, made, f"{type(error).__name__}: {error}") from error
            finally:
                memory.leave()
        return columns

    def _overdue(self, planned: PlannedBatch, made: BatchMap, limit: float) -> LoaderError:
        return self._error(planned, made, f"it has not returned for {limit:g} s; batch_map(…, timeout=) allows more")

    def _error(self, planned: PlannedBatch, made: BatchMap, what: str) -> LoaderError:
        positions = f"{planned.positions[0]}..{planned.positions[-1]}"
        return LoaderError(
            f"dataset {self._dataset}, epoch {planned.epoch}, positions {positions}, batch map {made!r}: {what}"
        )
