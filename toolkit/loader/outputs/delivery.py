"""Turn a filled batch into what the loop gets: arrays of an output, or what an adapter makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import LoaderError, SampleError
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.engine.work import FilledBatch
from toolkit.loader.outputs.batch import Batch, Origin, Sources
from toolkit.loader.outputs.spec import Arrays
from toolkit.loader.outputs.values import UnfitValueError
from toolkit.loader.stages.filler import FilledSamples
from toolkit.loader.stages.planned import PlannedBatch
from toolkit.loader.stages.stage import ColumnStage
from toolkit.memory.pool import BlockPool
from toolkit.pipelines.batch.step import BatchStep
from toolkit.pipelines.batch_maps import BatchMap
from toolkit.pipelines.functions import function_name

__all__ = ["BatchOutput", "OutputAdapter", "sample_shapes", "unfit_sample"]

# Makes of a batch of numpy arrays whatever the loop is to get. bfloat16 comes as uint16, as numpy has none.
OutputAdapter = Callable[[Batch], Any]


class BatchOutput:
    """Makes batches. For errors, `dataset` names the folders that samples lie in, `makers` what made each column."""

    def __init__(
        self,
        arrays: Arrays,
        adapter: OutputAdapter | None,
        fetcher: Fetcher,
        dataset: str,
        makers: Mapping[str, str],
        maps: Sequence[BatchStep | BatchMap],
        sources: Sources | None = None,
    ) -> None:
        self._sources = sources
        self._arrays = arrays
        self._adapter = adapter
        self._fetcher = fetcher
        self._dataset = dataset
        self._makers = makers
        self._maps = ", ".join(map(repr, maps))

    def __call__(
        self,
        filled: FilledBatch[PlannedBatch, FilledSamples],
        dtypes: Mapping[str, str | None],
        mask: NDArray[np.bool_],
    ) -> Any:
        """Return the batch, or what the adapter makes of it.

        Raises:
            LoaderError: From what the adapter raised; or a batch map made what the framework has nothing for.
            SampleError: A step made that.
        """
        planned, content, arrays = filled.planned, filled.content, self._arrays
        try:
            columns = arrays.columns(content.columns, dtypes)
        except UnfitValueError as error:
            raise self._unfit(planned, error) from error
        batch = Batch(
            columns,
            Origin(
                self._fetcher,
                planned.epoch,
                planned.positions,
                planned.rows,
                arrays.mask(mask),
                {name: arrays.mask(there) for name, there in content.present.items()},
                filled.token,
                sources=self._sources,
            ),
        )
        if self._adapter is None:
            return batch
        try:
            return self._adapter(batch)
        except Exception as error:
            named = function_name(self._adapter)
            raise LoaderError(
                f"{self._place(planned)}, output adapter {named}: {type(error).__name__}: {error}"
            ) from error

    def _unfit(self, planned: PlannedBatch, error: UnfitValueError) -> LoaderError | SampleError:
        """Return the error with where the value is from."""
        if error.index is None or self._maps:  # a batch map may have put the samples in another order
            maker = f"batch maps {self._maps}" if self._maps else f"step {self._makers.get(error.column, 'read')}"
            value = "" if error.index is None else f", value {error.index}"
            return LoaderError(f"{self._place(planned)}, {maker}, column {error.column!r}{value}: {error}")
        return unfit_sample(self._fetcher, int(planned.rows[error.index]), self._makers, error)

    def _place(self, planned: PlannedBatch) -> str:
        positions = f"{planned.positions[0]}..{planned.positions[-1]}"
        return f"dataset {self._dataset}, epoch {planned.epoch}, positions {positions}"


def unfit_sample(fetcher: Fetcher, row: int, makers: Mapping[str, str], error: UnfitValueError) -> SampleError:
    """Return the error of a sample's value that a framework has nothing for; `makers`: the last step of each slot."""
    place, step = fetcher.place(row), makers.get(error.column, "read")
    return SampleError(
        f"{place}, slot {error.column!r}, step {step}: {error}",
        dataset=place.dataset,
        shard=place.shard,
        row=place.row,
        key=place.key,
        slot=error.column,
        step=step,
    )


def sample_shapes(stages: list[ColumnStage]) -> dict[str, tuple[int, ...] | None]:
    """Return the shape of one sample of each column, None for lists."""
    pool = BlockPool(keep=0)
    one = {stage.name: stage.allocate(1, pool.lend) for stage in stages}
    return {name: values.shape[1:] if isinstance(values, np.ndarray) else None for name, values in one.items()}
