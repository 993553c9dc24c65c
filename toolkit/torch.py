"""What torch's own tools take: datasets for its DataLoader, and a loader's state that all ranks agree on."""

from __future__ import annotations

import contextlib
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

_COUNTS = "counts"  # of a state: what its epoch is
_MOST_USES = (1 << 31) - 1


class Dataset(torch.utils.data.Dataset):  # type: ignore[misc]  # torch's types aren't followed
    """A dataset, through a pipeline, for torch.utils.data.DataLoader with any number of workers, forked or spawned.

    A sample is a dict of column -> tensor, number, bytes or str. It pickles as path and pin: workers copy no sample.
    toolkit's own loader shares memory with its batches and resumes exactly; this is for code that has a DataLoader.

    Random steps draw anew each time that a sample is used, by (seed, how often it was used before, rank, index). The
    counts, four bytes a sample, lie in memory that all workers share, also those that begin anew or persist: which
    worker reads a sample changes nothing. set_epoch() says otherwise: then they draw by (seed, epoch, index), the same
    at every use until it is called again. What a rank is, torch.distributed says, or else the launcher.

    A state, as torchdata's StatefulDataLoader keeps it beside its sampler's, is the epoch, or how often the sample
    that was used most often was; all samples then count on from there, so none draws what it drew before.
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
        self._reader = DirectReader(dataset, pipeline, self._seed, output="torch")
        random = pipeline is not None and any(slot.is_random for slot in pipeline.slots)
        self._uses = _Uses.of(len(dataset) if random else 0)
        self._ranks = _ranks()

    def set_epoch(self, epoch: int) -> None:
        """Let random steps draw as in `epoch` from now on, whatever a state says that is loaded afterwards.

        Raises UsageError: it is no whole number from 0 on.
        """
        self._uses.draw_by_epoch(checked_epoch(epoch), asked=True)

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch, or how often samples were used, and what a dataset must be of to load it."""
        uses = self._uses
        number = uses.most if uses.epoch is None else uses.epoch
        return {
            **dump_state(self._run(), Cursor(number, number, 0, 0)),
            _COUNTS: "uses" if uses.epoch is None else "epochs",
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on as the state says, unless set_epoch() was called. Raises UsageError: the state is of other samples."""
        counted = state.get(_COUNTS) if isinstance(state, Mapping) else None
        if counted not in ("uses", "epochs"):
            raise UsageError(f"this is no state of toolkit.torch.Dataset: {short(state, 240, quoted=True)}")
        number = load_state({name: value for name, value in state.items() if name != _COUNTS}, self._run()).epoch
        if counted == "uses":
            self._uses.count_from(number)
        elif not self._uses.asked:
            self._uses.draw_by_epoch(number, asked=False)

    def __repr__(self) -> str:
        epoch = "" if self._uses.epoch is None else f", epoch {self._uses.epoch}"
        return f"<toolkit.torch.Dataset of {self._dataset!r}{epoch}>"

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return a sample. Raises IndexError, CorruptShardError, SampleError."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, Any]]:
        """Return the samples of a batch, read at once: what a DataLoader calls."""
        alike: dict[int, list[int]] = {}  # places of samples that draw by one number; usually that is all of them
        for place, number in enumerate(self._numbers(indices)):
            alike.setdefault(number, []).append(place)
        samples: list[dict[str, Any]] = [{}] * len(indices)
        for number, places in alike.items():
            columns = self._reader.read([indices[place] for place in places], number)
            for i, place in enumerate(places):
                samples[place] = {name: values[i] for name, values in columns.items()}
        return samples

    def _numbers(self, indices: Sequence[int]) -> list[int]:
        """Return what each sample draws by in place of an epoch, and note that it is used."""
        uses = self._uses
        if uses.epoch is not None or not uses.counts:
            return [uses.epoch or 0] * len(indices)
        rank, world_size = _joined_ranks() or self._ranks
        return [uses.next(index) * world_size + rank for index in indices]

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers that are spawned know of no torch.distributed.
        ranks = _joined_ranks() or self._ranks
        return _restored, (type(self), self._dataset, self._pipeline, self._seed, self._uses.shared, ranks)

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
    kind: type[Dataset],
    dataset: ToolkitDataset,
    pipeline: Pipeline | None,
    seed: int,
    shared: torch.Tensor,
    ranks: tuple[int, int],
) -> Dataset:
    made = kind(dataset, pipeline, seed=seed)
    made._uses, made._ranks = _Uses(shared), ranks
    return made


def _joined_ranks() -> tuple[int, int] | None:
    """Return (rank, world size) of torch.distributed where that is initialised."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def _ranks() -> tuple[int, int]:
    """Return (rank, world size) as the launcher says; of what it says wrong, only that ranks draw alike comes."""
    try:
        return find_ranks(None, None)
    except UsageError:
        return 0, 1


class _Uses:
    """How often each sample was used, for a dataset and all its workers together, or the epoch that was told instead.

    A worker can't count alone: workers begin anew with each epoch, or persist and get other samples. A sample is in
    one worker's hands at a time, unless a sampler deals it out twice in an epoch; then two workers may read one count.

    Attributes:
        shared: int32: whether there is an epoch, whether the consumer said it, its lower and upper 31 bits, where
            counts begin, likewise; and the counts, of which there are none where nothing draws.
    """

    def __init__(self, shared: torch.Tensor) -> None:
        """Go on with `shared`, which a worker is given, or a copy has of its own."""
        if not shared.is_shared():
            with contextlib.suppress(RuntimeError):  # no shared memory: then there can be no workers
                shared.share_memory_()
        self.shared = shared
        values = shared.numpy()
        self._said, self._numbers, self.counts = values[:2], values[2:6], memoryview(values)[6:]

    @classmethod
    def of(cls, samples: int) -> _Uses:
        """Begin with samples that were never used."""
        return cls(torch.zeros(6 + samples, dtype=torch.int32))

    @property
    def epoch(self) -> int | None:
        """The epoch, where one was told."""
        return self._number(0) if self._said[0] else None

    @property
    def asked(self) -> bool:
        """Whether the consumer told it."""
        return bool(self._said[1])

    @property
    def most(self) -> int:
        """How often the sample was used that was used most often."""
        return self._number(2) + (int(self.shared[6:].max()) if len(self.counts) else 0)

    def draw_by_epoch(self, epoch: int, *, asked: bool) -> None:
        """Count no more: draw by an epoch."""
        self._set_number(0, epoch)
        self._said[:] = True, asked

    def count_from(self, uses: int) -> None:
        """Let all samples count as used so often, at the least. Each worker may say it, of a state of its own."""
        self._set_number(2, max(uses, self._number(2)))

    def next(self, index: int) -> int:
        """Return how often a sample was used before, and count this use; of an index that is none nothing."""
        if not -len(self.counts) <= index < len(self.counts):
            return 0
        used = self.counts[index]
        self.counts[index] = used + 1 if used < _MOST_USES else 0
        return self._number(2) + used

    def _number(self, at: int) -> int:
        return int(self._numbers[at]) | int(self._numbers[at + 1]) << 31

    def _set_number(self, at: int, number: int) -> None:
        self._numbers[at : at + 2] = number & _MOST_USES, number >> 31


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
