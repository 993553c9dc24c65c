"""Run a pipeline's batch steps and functions on a filled batch, on the worker that filled its last part."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import LoaderError, SampleError
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.engine.memory import WorkerMemory
from toolkit.loader.stages.planned import PlannedBatch
from toolkit.memory.bytes_column import BytesColumn
from toolkit.pipelines.batch.step import BatchFaultError, BatchStep, FilledColumns
from toolkit.pipelines.batch_maps import BatchMap, run_batch_map
from toolkit.pipelines.batch_plan import PlannedMap

__all__ = ["BatchMaps"]


class BatchMaps:
    """The batch steps and functions of a loader, in order. Used by every worker at once."""

    def __init__(self, maps: Sequence[PlannedMap], seed: int, dataset: str, fetcher: Fetcher) -> None:
        self._maps = maps
        self._seed = seed
        self._dataset = dataset
        self._fetcher = fetcher

    def __call__(
        self,
        planned: PlannedBatch,
        columns: dict[str, Any],
        there: NDArray[np.bool_],
        present: dict[str, NDArray[np.bool_]],
        memory: WorkerMemory,
    ) -> dict[str, Any]:
        """Return the columns after all of them; `there`, `present`: bool (n,), see FilledColumns.

        Raises:
            LoaderError: From what one raised.
            SampleError: A step can't take a sample.
        """
        blocks = [values for values in columns.values() if isinstance(values, np.ndarray)]
        kept: set[str] = set()
        for place, each in enumerate(self._maps):
            if isinstance(each.made, BatchStep):
                filled = FilledColumns(
                    columns, each.known, planned.positions, there, present, self._seed, planned.epoch, each.name, kept
                )
                columns = self._stepped(planned, each.made, filled)
            else:
                columns = self._mapped(planned, place, each.made, columns, memory)
                kept = _kept(columns, blocks)
        return columns

    def _stepped(self, planned: PlannedBatch, step: BatchStep, filled: FilledColumns) -> dict[str, Any]:
        try:
            step.run(filled)
        except BatchFaultError as error:
            if error.index is None:
                raise self._error(planned, "step", step, str(error)) from error
            place = self._fetcher.place(int(planned.rows[error.index]))
            raise SampleError(
                f"{place}, slot {error.column!r}, batch step {step!r}: {error}",
                dataset=place.dataset,
                shard=place.shard,
                row=place.row,
                key=place.key,
                slot=error.column,
                step=repr(step),
            ) from error
        except Exception as error:
            raise self._error(planned, "step", step, f"{type(error).__name__}: {error}") from error
        return filled.columns

    def _mapped(
        self, planned: PlannedBatch, place: int, made: BatchMap, columns: dict[str, Any], memory: WorkerMemory
    ) -> dict[str, Any]:
        columns = {  # theirs to change
            name: list(values) if isinstance(values, BytesColumn) else values for name, values in columns.items()
        }
        memory.enter(made.timeout, functools.partial(self._overdue, planned, made))
        try:
            return run_batch_map(
                made,
                place,
                columns,
                len(planned.positions),
                seed=self._seed,
                epoch=planned.epoch,
                first_position=int(planned.positions[0]),
            )
        except Exception as error:
            raise self._error(planned, "map", made, f"{type(error).__name__}: {error}") from error
        finally:
            memory.leave()

    def _overdue(self, planned: PlannedBatch, made: BatchMap, limit: float) -> LoaderError:
        what = f"it has not returned for {limit:g} s; batch_map(…, timeout=) allows more"
        return self._error(planned, "map", made, what)

    def _error(self, planned: PlannedBatch, kind: str, made: BatchStep | BatchMap, what: str) -> LoaderError:
        positions = f"{planned.positions[0]}..{planned.positions[-1]}"
        return LoaderError(
            f"dataset {self._dataset}, epoch {planned.epoch}, positions {positions}, batch {kind} {made!r}: {what}"
        )


def _kept(columns: dict[str, Any], blocks: list[NDArray[Any]]) -> set[str]:
    """Return names of arrays that a step must not change in place: the function has them, or two columns are one.

    What lies in the batch's `blocks`, and in no other column, is the batch's.
    """
    arrays = {name: values for name, values in columns.items() if isinstance(values, np.ndarray)}
    return {
        name
        for name, values in arrays.items()
        if not any(np.may_share_memory(values, block) for block in blocks)
        or any(np.may_share_memory(values, other) for theirs, other in arrays.items() if theirs != name)
    }
