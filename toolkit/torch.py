"""What torch's own tools take: datasets for its DataLoader, and a loader's state that all ranks agree on."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Unpack

import torch
import torch.distributed
import torch.utils.data

from toolkit.errors import LoaderError, UsageError
from toolkit.escapes import short
from toolkit.loader.api import Dataset as ToolkitDataset
from toolkit.loader.dataset.views import joined_pin
from toolkit.loader.direct import DirectReader
from toolkit.loader.loader import Loader
from toolkit.loader.options.fronts import BATCHES, SAMPLES, check_options
from toolkit.loader.options.keywords import BatchesKeywords, LoaderKeywords, SamplesKeywords
from toolkit.loader.options.loader import LoaderOptions
from toolkit.loader.order.ranks import find_ranks
from toolkit.loader.order.state import (
    MOST,
    Cursor,
    Run,
    checked_epoch,
    differing_states,
    dump_state,
    load_state,
    whole_number,
)
from toolkit.pipelines.pipeline import Pipeline
from toolkit.processors import processors

__all__ = ["Dataset", "IterableDataset", "agreed_state"]


class Dataset(torch.utils.data.Dataset):  # type: ignore[misc]  # torch's types aren't followed
    """A dataset, through a pipeline, for torch.utils.data.DataLoader with any number of workers, forked or spawned.

    A sample is a dict of column -> tensor, number, bytes or str. It pickles as path and pin: workers copy no sample.
    toolkit's own loader shares memory with its batches and resumes exactly; this is for code that has a DataLoader.

    Random steps draw by (seed, epoch, index): call set_epoch() before each epoch, as on torch's DistributedSampler.
    Workers see it too, also those that persist. Without it every epoch augments alike, and the second one warns. A
    state, as torchdata's StatefulDataLoader keeps it beside its sampler's, is the epoch, and what the samples are of.
    """

    @SAMPLES.documented
    def __init__(
        self, dataset: ToolkitDataset, pipeline: Pipeline | None = None, **options: Unpack[SamplesKeywords]
    ) -> None:
        """Raises UsageError, PipelineError; no sample is read yet."""
        given = check_options(SAMPLES, options)
        self._dataset = dataset = dataset if given["verify"] is None else dataset.verified(given["verify"])
        self._pipeline = pipeline
        self._seed = given["seed"]
        self._uses = _Uses()
        self._reader = DirectReader(dataset, pipeline, self._seed, output="torch")
        self._random = pipeline is not None and any(slot.is_random for slot in pipeline.slots)

    def set_epoch(self, epoch: int) -> None:
        """Let random steps draw as in `epoch` from now on, whatever a state says that is loaded afterwards.

        Raises UsageError: it is no whole number from 0 on.
        """
        self._uses.begin(checked_epoch(epoch), asked=True)

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, and what a dataset must be of to load it."""
        return dump_state(self._run(), Cursor(self._uses.epoch, self._uses.epoch, 0, 0))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take the state's epoch, unless set_epoch() said one. Raises UsageError: the state is of other samples."""
        epoch = load_state(state, self._run()).epoch
        if not self._uses.asked:
            self._uses.begin(epoch, asked=False)

    def __repr__(self) -> str:
        return f"<toolkit.torch.Dataset of {self._dataset!r}, epoch {self._uses.epoch}>"

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a sample. Raises IndexError, CorruptShardError, SampleError."""
        return self._read([index], counted=torch.utils.data.get_worker_info() is not None)[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return the samples of a batch, read at once: what a DataLoader calls."""
        return self._read(indices, counted=True)

    def _read(self, indices: Sequence[int], *, counted: bool) -> list[dict[str, Any]]:
        """Return samples; `counted` is left out for who just looks at one."""
        if counted and self._random and self._uses.repeated(indices, len(self)):
            warnings.warn(
                f"toolkit.torch.Dataset is asked for samples again in epoch {self._uses.epoch}, so random steps draw "
                "what they drew before: call set_epoch(epoch) before each epoch",
                stacklevel=3,
            )
        columns = self._reader.read(indices, self._uses.epoch)
        return [{name: values[i] for name, values in columns.items()} for i in range(len(indices))]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self._dataset, self._pipeline, self._seed, self._uses.shared)

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
    Epochs behind until_epoch= or steps= are empty; steps count as if each epoch before had all of its batches.
    A state is that of one worker; StatefulDataLoader keeps them all, and wants the same number of workers again.
    """

    @BATCHES.documented
    def __init__(
        self, dataset: ToolkitDataset, pipeline: Pipeline | None = None, **options: Unpack[BatchesKeywords]
    ) -> None:
        """Take the options of Dataset.loader(), but for epochs, output, device and sharding; max_bytes is a worker's.

        Raises UsageError, PipelineError; no sample is read yet.
        """
        given = check_options(BATCHES, options)
        # Now, and not in a worker: it may know less of the launcher.
        given["rank"], given["world_size"] = find_ranks(given["rank"], given["world_size"])
        fixed: LoaderKeywords = {**given, "epochs": 1, "output": "torch", "device": None, "sharding": None}
        whole = Loader(dataset, pipeline, LoaderOptions(fixed))
        self._dataset, self._pipeline, self._options = dataset, pipeline, whole.options
        self._length, self._steps = len(whole), whole.cut.steps()
        self._asked: int | None = None
        self._loaded: dict[str, Any] | None = None
        self._epoch = 0
        self._loader: Loader | None = None

    def set_epoch(self, epoch: int) -> None:
        """Let the next iter() give this epoch; of the one that a loaded state stands in, what is left of it."""
        asked = checked_epoch(epoch)
        if asked * self._steps > MOST:  # a state counts steps from the very first
            raise UsageError(f"an epoch of {self._steps:,} steps is at most number {MOST // self._steps}, got {asked}")
        self._asked = asked

    def __repr__(self) -> str:
        return f"<toolkit.torch.IterableDataset of {self._dataset!r}: {self._length:,} batches an epoch>"

    def __len__(self) -> int:
        """Batches of an epoch, of all workers together."""
        return self._length

    @property
    def finished(self) -> bool:
        """Whether the epoch asked for, or what is left of it by a loaded state, is behind until_epoch= or steps=.

        What workers have delivered since, this process doesn't know.
        """
        epoch = self._epoch
        try:
            return self._start().finished
        finally:
            self._epoch = epoch

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Return an epoch's batches; in a worker, its share of them."""
        # A state serves once, and at this call: StatefulDataLoader may drop the iterator unused and ask for another.
        self._loader = loader = self._start()
        self._loaded = None
        if loader.epoch > self._epoch:  # all of it was delivered
            return iter(())
        return _dicts(loader)

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch that this process is in, and where: what was received of it."""
        self._loader = self._loader or self._start()
        return {"epoch": self._epoch, "loader": self._loader.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iter() go on there. Raises UsageError: the state is of another run, or none of this class."""
        if not isinstance(state, dict) or set(state) != {"epoch", "loader"}:
            raise UsageError(f"this is no state of toolkit.torch.IterableDataset: {short(state, 240, quoted=True)}")
        epoch, loader = whole_number(state, "epoch"), self._open()
        loader.load_state_dict(state["loader"])  # an error now, and not in the loop
        if loader.epoch - epoch not in (0, 1):
            raise UsageError(f"the state's epoch is {epoch}, and its loader stands in epoch {loader.epoch}")
        self._loaded, self._loader = state, None

    def _start(self) -> Loader:
        """Return the loader of this process where a state stands, or at the beginning of the epoch asked for."""
        loader, loaded = self._open(), self._loaded
        if loaded is not None and self._asked in (None, loaded["epoch"]):
            self._epoch = loaded["epoch"]
            loader.load_state_dict(loaded["loader"])
            return loader
        self._epoch = self._asked or 0
        # An epoch is known by its number alone, so its steps are counted from those before it, all whole.
        at = {"first_epoch": self._epoch, "epoch": self._epoch, "step": self._epoch * self._steps}
        loader.load_state_dict({**loader.state_dict(), **at})
        return loader

    def _open(self) -> Loader:
        """Return a loader of this process."""
        options, worker = self._options, torch.utils.data.get_worker_info()
        share = (0, 1) if worker is None else (worker.id, worker.num_workers)
        if options.given["threads"] == "auto":
            options = LoaderOptions({**options.given, "threads": max(1, processors() // share[1])})
        return Loader(self._dataset, self._pipeline, options, worker=share[0], workers=share[1])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loader": None}


def _dicts(loader: Loader) -> Iterator[dict[str, Any]]:
    for batch in loader:
        made = [
            {
                **batch,
                "__positions__": torch.from_numpy(batch.positions),
                "__mask__": torch.from_numpy(batch.mask),
            }
        ]
        del batch
        yield made.pop()  # kept by no name here: the DataLoader alone decides how long it lives


def _restored(
    kind: type[Dataset], dataset: ToolkitDataset, pipeline: Pipeline | None, seed: int, shared: torch.Tensor
) -> Dataset:
    made = kind(dataset, pipeline, seed=seed)
    made._uses = _Uses(shared)
    return made


class _Uses:
    """The epoch that a dataset is in, and whether its samples came before in it, for it and all its workers together.

    Draws can't follow from how often a sample was asked for: workers begin anew with each epoch, or persist and get
    other samples. So the consumer says the epoch, in memory that the workers share; where nobody does, repeats are
    noticed.

    Attributes:
        shared: int64: epoch, whether it was asked for, samples drawn in it, the first of them, whether that was warned.
    """

    def __init__(self, shared: torch.Tensor | None = None) -> None:
        """Go on with `shared`, which a worker is given, or a copy has of its own."""
        self.shared = torch.tensor([0, 0, 0, -1, 0]) if shared is None else shared
        if not self.shared.is_shared():
            with contextlib.suppress(RuntimeError):  # no shared memory: then there can be no workers
                self.shared.share_memory_()
        self._values = self.shared.numpy()

    @property
    def epoch(self) -> int:
        """The epoch."""
        return int(self._values[0])

    @property
    def asked(self) -> bool:
        """Whether the consumer said it."""
        return bool(self._values[1])

    def begin(self, epoch: int, *, asked: bool) -> None:
        """Be in an epoch of which no sample was drawn yet."""
        self._values[:4] = epoch, asked, 0, -1

    def repeated(self, indices: Sequence[int], samples: int) -> bool:
        """Note that samples are drawn. Is one surely drawn again in this epoch, and was that not said before?

        Two processes may note at once and one of them be lost: an epoch later there are more.
        """
        values, known = self._values, len(indices) and int(self._values[3])
        values[2] += len(indices)
        again = values[2] > samples or (known >= 0 and known in indices)
        if known < 0:
            values[3] = indices[0]
        if not again or values[4]:
            return False
        values[4] = 1
        return True


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
