"""What torch's own tools take: a map-style dataset for its DataLoader, and a loader's state that all ranks agree on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed
import torch.utils.data

from toolkit.errors import LoaderError
from toolkit.loader.dataset import Dataset as ToolkitDataset
from toolkit.loader.device.torch_arrays import convert
from toolkit.loader.direct import DirectReader
from toolkit.loader.loader import Loader
from toolkit.loader.state import differing_states
from toolkit.pipelines.slots import Pipeline

__all__ = ["Dataset", "agreed_state"]


class Dataset(torch.utils.data.Dataset):  # type: ignore[misc]  # torch's types aren't followed
    """A dataset, through a pipeline, for torch.utils.data.DataLoader with any number of workers, forked or spawned.

    A sample is a dict of column -> tensor, number, bytes or str. It pickles as path and pin: workers copy no sample.
    toolkit's own loader shares memory with its batches and resumes exactly; this is for code that has a DataLoader.

    Random steps draw by (seed, epoch, index): call set_epoch() before each epoch, as on torch's DistributedSampler, or
    every epoch augments alike. Workers that persist keep the epoch they were started with.
    """

    def __init__(self, dataset: ToolkitDataset, pipeline: Pipeline | None = None, *, seed: int = 0) -> None:
        """Raises UsageError, PipelineError; no sample is read yet."""
        self._dataset = dataset
        self._pipeline = pipeline
        self._seed = seed
        self._epoch = 0
        self._reader = DirectReader(dataset, pipeline, seed)

    def set_epoch(self, epoch: int) -> None:
        """Let random steps draw as in `epoch` from now on."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a sample. Raises IndexError, CorruptShardError, SampleError."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return the samples of a batch, read at once: what a DataLoader calls."""
        dtypes = self._reader.dtypes
        read = self._reader.read(indices, self._epoch)
        columns = {name: convert(values, dtypes[name]) for name, values in read.items()}
        return [{name: values[i] for name, values in columns.items()} for i in range(len(indices))]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._dataset, self._pipeline, self._seed, self._epoch)


def _restored(
    kind: type[Dataset], dataset: ToolkitDataset, pipeline: Pipeline | None, seed: int, epoch: int
) -> Dataset:
    made = kind(dataset, pipeline, seed=seed)
    made.set_epoch(epoch)
    return made


def agreed_state(loader: Loader) -> dict[str, Any]:
    """Return loader.state_dict() after all ranks of torch.distributed compared theirs. Every rank must call it.

    Raises:
        LoaderError: Ranks stand at different steps, or were made of different data, seeds or orders.
    """
    state = loader.state_dict()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        states: list[Any] = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(states, state)
        differing = differing_states(states)
        if differing:
            raise LoaderError(differing)
    return state
