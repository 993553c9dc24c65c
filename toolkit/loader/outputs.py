"""Turn a filled batch into what the loop gets: arrays of numpy, torch or JAX, or what an adapter makes of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import LoaderError
from toolkit.loader.batch import Batch, Origin
from toolkit.loader.device import Output, collector, converter
from toolkit.loader.engine import FilledBatch
from toolkit.loader.fetch import Fetcher
from toolkit.loader.stage import ColumnStage
from toolkit.memory.pool import Allocate, BlockPool, aligned
from toolkit.pipelines.functions import function_name

__all__ = ["Arrays", "BatchOutput", "HostArrays", "OutputAdapter", "mesh_arrays", "sample_shapes", "torch_arrays"]

# Makes of a batch of numpy arrays whatever the loop is to get. bfloat16 comes as uint16, as numpy has none.
OutputAdapter = Callable[[Batch], Any]


class Arrays(Protocol):
    """Turns filled columns into arrays of a framework, where they are wanted."""

    @property
    def allocate(self) -> Allocate:
        """What makes the memory that batches are filled in."""

    def columns(self, columns: Mapping[str, Any], dtypes: Mapping[str, str | None]) -> dict[str, Any]:
        """Return the columns as arrays; lists stay lists, of arrays where they were. `dtypes`: see Converter."""

    def mask(self, mask: NDArray[np.bool_]) -> Any:
        """Return what says for each sample whether it is there, for use beside the columns."""

    def collect(self) -> None:
        """Make the framework let go of the memory of dead arrays now."""


class HostArrays:
    """Arrays over the very memory that was filled, for JAX on its default device."""

    allocate = staticmethod(aligned)

    def __init__(self, output: Output) -> None:
        """Raises UsageError: the framework isn't installed."""
        self._convert = converter(output)
        self.collect = collector(output)

    def columns(self, columns: Mapping[str, Any], dtypes: Mapping[str, str | None]) -> dict[str, Any]:
        """Return the columns over the same memory."""
        return {name: self._convert(values, dtypes.get(name)) for name, values in columns.items()}

    def mask(self, mask: NDArray[np.bool_]) -> Any:
        """Return it as it is."""
        return mask


class BatchOutput:
    """Makes batches. `dataset` names the folders that samples lie in, for errors."""

    def __init__(self, arrays: Arrays, adapter: OutputAdapter | None, fetcher: Fetcher, dataset: str) -> None:
        self._arrays = arrays
        self._adapter = adapter
        self._fetcher = fetcher
        self._dataset = dataset

    def __call__(self, filled: FilledBatch, dtypes: Mapping[str, str | None], mask: NDArray[np.bool_]) -> Any:
        """Return the batch, or what the adapter makes of it. Raises LoaderError, from what the adapter raised."""
        planned, arrays = filled.planned, self._arrays
        batch = Batch(
            arrays.columns(filled.columns, dtypes),
            Origin(
                self._fetcher,
                planned.epoch,
                planned.positions,
                planned.rows,
                arrays.mask(mask),
                {name: arrays.mask(there) for name, there in filled.present.items()},
                filled.token,
            ),
        )
        if self._adapter is None:
            return batch
        try:
            return self._adapter(batch)
        except Exception as error:
            positions = f"{planned.positions[0]}..{planned.positions[-1]}"
            raise LoaderError(
                f"dataset {self._dataset}, epoch {planned.epoch}, positions {positions}, output adapter "
                f"{function_name(self._adapter)}: {type(error).__name__}: {error}"
            ) from error


def mesh_arrays(sharding: Any) -> Any:
    """Return the MeshArrays of a sharding. Raises UsageError: JAX is missing, or it can't be one of a loader's."""
    converter(Output.JAX)
    return importlib.import_module("toolkit.loader.device.jax_mesh").MeshArrays(sharding)


def torch_arrays(device: Any) -> Arrays:
    """Return what gives tensors on `device`; None is the memory that was filled. Raises UsageError: it can't be had."""
    if device is None:
        return HostArrays(Output.TORCH)
    converter(Output.TORCH)
    made: Arrays | None = importlib.import_module("toolkit.loader.device.torch_device").device_arrays(device)
    return made or HostArrays(Output.TORCH)


def sample_shapes(stages: list[ColumnStage]) -> dict[str, tuple[int, ...] | None]:
    """Return the shape of one sample of each column, None for lists."""
    pool = BlockPool(keep=0)
    one = {stage.name: stage.allocate(1, pool.lend) for stage in stages}
    return {name: values.shape[1:] if isinstance(values, np.ndarray) else None for name, values in one.items()}
