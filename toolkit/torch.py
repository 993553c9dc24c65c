"""What torch's own tools take: datasets for its DataLoader, and a loader's state that all ranks agree on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
import torch.distributed
import torch.utils.data

from toolkit.errors import LoaderError, UsageError
from toolkit.loader.dataset import Dataset as ToolkitDataset
from toolkit.loader.device.torch_arrays import convert
from toolkit.loader.direct import DirectReader
from toolkit.loader.loader import Loader
from toolkit.loader.ranks import find_ranks
from toolkit.loader.state import Cursor, Run, differing_states, dump_state, load_state
from toolkit.loader.views import joined_pin
from toolkit.pipelines.slots import Pipeline
from toolkit.processors import processors

__all__ = ["Dataset", "IterableDataset", "agreed_state"]


class Dataset(torch.utils.data.Dataset):  # type: ignore[misc]  # torch's types aren't followed
    """A dataset, through a pipeline, for torch.utils.data.DataLoader with any number of workers, forked or spawned.

    A sample is a dict of column -> tensor, number, bytes or str. It pickles as path and pin: workers copy no sample.
    toolkit's own loader shares memory with its batches and resumes exactly; this is for code that has a DataLoader.

    Random steps draw by (seed, epoch, index): call set_epoch() before each epoch, as on torch's DistributedSampler, or
    every epoch augments alike. Workers that persist keep the epoch they were started with. A state, as torchdata's
    StatefulDataLoader keeps it beside its sampler's, is the epoch, and what the samples are of.
    """

    def __init__(self, dataset: ToolkitDataset, pipeline: Pipeline | None = None, *, seed: int = 0) -> None:
        """Raises UsageError, PipelineError; no sample is read yet."""
        self._dataset = dataset
        self._pipeline = pipeline
        self._seed = seed
        self._epoch = 0
        self._asked = False
        self._reader = DirectReader(dataset, pipeline, seed)

    def set_epoch(self, epoch: int) -> None:
        """Let random steps draw as in `epoch` from now on, whatever a state says that is loaded afterwards."""
        self._epoch, self._asked = epoch, True

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, and what a dataset must be of to load it."""
        return dump_state(self._run(), Cursor(self._epoch, self._epoch, 0))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the state's epoch, unless set_epoch() said one. Raises UsageError: the state is of other samples."""
        epoch = load_state(state, self._run()).epoch
        if not self._asked:
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
        return _restored, (type(self), self._dataset, self._pipeline, self._seed, self._epoch, self._asked)

    def _run(self) -> Run:
        return Run(
            pin=joined_pin(self._dataset.pins),
            view=self._dataset.view,
            order="DataLoader's",
            samples=len(self._dataset),
            seed=self._seed,
            pipeline=(self._pipeline or Pipeline(())).describe(),
        )


class IterableDataset(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """The batches of a loader, for DataLoader and torchdata's StatefulDataLoader with batch_size=None.

    A batch is a dict of column -> tensor or list, with "__positions__", int64 (n,), -1 where it is padded, and
    "__mask__", bool (n,), False there and where a sample was skipped. Workers deal the batches out among themselves:
    with any number of them they come the same and in the same order, each once. It pickles as path and pin.

    An iter() gives one epoch: call set_epoch() before each, as on torch's DistributedSampler, or every epoch is alike.
    A state is that of one worker; StatefulDataLoader keeps them all, and wants the same number of workers again.
    """

    def __init__(self, dataset: ToolkitDataset, pipeline: Pipeline | None = None, **options: Any) -> None:
        """Take the options of Dataset.loader(), but for epochs, output, device and sharding; max_bytes is a worker's.

        Raises UsageError, PipelineError; no sample is read yet.
        """
        refused = sorted({"epochs", "output", "device", "sharding"} & set(options))
        if refused:
            raise UsageError(
                f"a DataLoader takes one epoch an iter(), of tensors on the CPU: leave {', '.join(refused)} out"
            )
        # Now, and not in a worker: it may know less of the launcher.
        options["rank"], options["world_size"] = find_ranks(options.get("rank"), options.get("world_size"))
        whole = dataset.loader(pipeline, **options, output="torch")
        self._dataset, self._pipeline, self._options = dataset, pipeline, whole.options
        self._length = len(whole)
        self._asked: int | None = None
        self._loaded: dict[str, Any] | None = None
        self._epoch = 0
        self._loader: Loader | None = None

    def set_epoch(self, epoch: int) -> None:
        """Let the next iter() give this epoch; of the one that a loaded state stands in, what is left of it."""
        self._asked = epoch

    def __len__(self) -> int:
        """Batches of an epoch, of all workers together."""
        return self._length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Return an epoch's batches; in a worker, its share of them."""
        # A state serves once, and at this call: StatefulDataLoader may drop the iterator unused and ask for another.
        loaded, self._loaded = self._loaded, None
        if loaded is not None and self._asked in (None, loaded["epoch"]):
            self._epoch = loaded["epoch"]
            self._loader = loader = self._open()
            if loaded["loader"]["epoch"] > self._epoch:  # all of it was delivered
                loader.set_epoch(self._epoch + 1)
                return iter(())
            loader.load_state_dict(loaded["loader"])
        else:
            self._epoch = self._asked or 0
            self._loader = loader = self._open()
        return _dicts(loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch that this process is in, and where: what was received of it."""
        self._loader = self._loader or self._open()
        return {"epoch": self._epoch, "loader": self._loader.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iter() go on there. Raises UsageError: the state is of another run, or none of this class."""
        if not isinstance(state, dict) or set(state) != {"epoch", "loader"}:
            raise UsageError(f"this is no state of toolkit.torch.IterableDataset: {state!r}")
        self._open().load_state_dict(state["loader"])  # an error now, and not in the loop
        self._loaded = state

    def _open(self) -> Loader:
        """Return the loader of this process, at the epoch."""
        options, worker = self._options, torch.utils.data.get_worker_info()
        share = (0, 1) if worker is None else (worker.id, worker.num_workers)
        if options.threads == "auto":
            options = replace(options, threads=max(1, processors() // share[1]))
        loader = Loader(self._dataset, self._pipeline, options, worker=share[0], workers=share[1])
        loader.set_epoch(self._epoch)
        return loader

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None}


def _dicts(loader: Loader) -> Iterator[dict[str, Any]]:
    for batch in loader:
        yield {
            **batch,
            "__positions__": torch.from_numpy(batch.positions),
            "__mask__": torch.from_numpy(batch.mask),
        }
        del batch  # the DataLoader alone decides how long it lives


def _restored(
    kind: type[Dataset], dataset: ToolkitDataset, pipeline: Pipeline | None, seed: int, epoch: int, asked: bool
) -> Dataset:
    made = kind(dataset, pipeline, seed=seed)
    made._epoch, made._asked = epoch, asked
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
