"""A loader: options checked once, epochs of batches, each epoch exactly as planned or an error."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

import numpy as np

from toolkit.errors import LoaderError, UsageError, did_you_mean
from toolkit.loader.batch import Batch
from toolkit.loader.dataset import Dataset
from toolkit.loader.device import Output, converter
from toolkit.loader.engine import Engine, PlannedBatch
from toolkit.loader.maps import BatchMaps
from toolkit.loader.order import Order, Shuffle
from toolkit.loader.stages import make_stages
from toolkit.loader.stats import LoaderStats
from toolkit.pipelines.build import compile_pipeline
from toolkit.pipelines.slots import Pipeline
from toolkit.processors import processors

__all__ = ["Loader", "LoaderOptions", "Remainder"]

_Member = TypeVar("_Member", bound=enum.Enum)


class Remainder(enum.Enum):
    """What happens to samples that fill no whole batch: a shorter last batch, or they are left out."""

    KEEP = "keep"
    DROP = "drop"


@dataclass(frozen=True, kw_only=True)
class LoaderOptions:
    """How a loader cuts, orders and delivers. Checked when made.

    Attributes:
        batch_size: Samples of a batch, on each rank.
        shuffle: "full" permutes all samples anew each epoch; "none" keeps the stored order.
        seed: Of the order, and of what the pipeline draws.
        epochs: Epochs that each iter() gives.
        prefetch: Batches in flight besides the one that is delivered next.
        threads: Worker threads; "auto" is the number of processors this process may use.
        rank, world_size: This rank's slice of each global batch of batch_size * world_size.
        remainder: "keep" delivers a shorter last batch (one rank only), "drop" leaves those samples out.
        output: "numpy", "torch" or "jax".
    """

    batch_size: int
    shuffle: Shuffle
    seed: int
    epochs: int
    prefetch: int
    threads: int
    rank: int
    world_size: int
    remainder: Remainder
    output: Output

    def __post_init__(self) -> None:
        for name, least in (
            ("batch_size", 1),
            ("epochs", 1),
            ("prefetch", 0),
            ("threads", 1),
            ("world_size", 1),
            ("rank", 0),
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise UsageError(f"{name} must be an int of at least {least}, got {value!r}")
        if not isinstance(self.seed, int):
            raise UsageError(f"seed must be an int, got {self.seed!r}")
        if self.rank >= self.world_size:
            raise UsageError(f"rank {self.rank} of a world of {self.world_size}: ranks count from 0")
        if self.world_size > 1 and self.remainder is Remainder.KEEP:
            raise UsageError(
                "remainder='keep' would give ranks unequal batches: with several ranks say remainder='drop'"
            )


class Loader:
    """Iterates over batches. Each iter() gives `epochs` epochs from `epoch` on and then advances it.

    A `with` block, or close(), ends the threads; so does the end of the last epoch, and dropping the loader.
    """

    def __init__(
        self,
        dataset: Dataset,
        pipeline: Pipeline | None = None,
        *,
        batch_size: int,
        shuffle: str = "none",
        seed: int = 0,
        epochs: int = 1,
        prefetch: int = 4,
        threads: int | str = "auto",
        rank: int = 0,
        world_size: int = 1,
        remainder: str = "keep",
        output: str = "numpy",
    ) -> None:
        """See LoaderOptions. Raises UsageError, PipelineError; no byte of a sample is read yet."""
        self.options = LoaderOptions(
            batch_size=batch_size,
            shuffle=_member(Shuffle, "shuffle", shuffle),
            seed=seed,
            epochs=epochs,
            prefetch=prefetch,
            threads=_thread_count(threads),
            rank=rank,
            world_size=world_size,
            remainder=_member(Remainder, "remainder", remainder),
            output=_member(Output, "output", output),
        )
        if pipeline is not None and not isinstance(pipeline, Pipeline):
            raise UsageError(
                f"a loader takes a pipeline, got {type(pipeline).__name__}: toolkit.pipeline(slot(...), ...)"
            )
        self.dataset = dataset
        self.pipeline = pipeline
        self.epoch = 0
        self._stats = LoaderStats()
        self._compiled = compile_pipeline(pipeline, dataset.columns, dataset.schema) if pipeline else []
        self._convert = converter(self.options.output)
        self._engine: Engine | None = None
        self._closed = False
        if len(dataset) and not self._batches_an_epoch():
            raise UsageError(
                f"remainder='drop' leaves nothing of {len(dataset)} samples in batches of "
                f"{batch_size} on each of {world_size} ranks: take smaller batches"
            )
        self._pid = os.getpid()

    def __len__(self) -> int:
        """Batches that one iter() gives."""
        return self._batches_an_epoch() * self.options.epochs

    def __iter__(self) -> Iterator[Batch]:
        """Start the next epochs. An iteration that is still running ends."""
        if self._closed:
            raise LoaderError("this loader is closed: make a new one with ds.loader(...)")
        if os.getpid() != self._pid:
            raise LoaderError("this loader was made before a fork: open a new one in the child process")
        self._end_engine()
        options = self.options
        first = self.epoch
        self.epoch += options.epochs
        stages = make_stages(
            self.dataset.columns,
            self.dataset.schema,
            self._compiled,
            self.dataset.fetcher,
            self._stats,
            seed=options.seed,
        )
        maps = BatchMaps(self.pipeline.batch_maps if self.pipeline else (), options.seed, self.dataset.root)
        self._engine = Engine(
            _plan(self.dataset, options, self._batches_an_epoch(), first),
            stages,
            self.dataset.fetcher,
            self._stats,
            maps,
            threads=options.threads,
            prefetch=options.prefetch,
        )
        dtypes = {stage.name: stage.dtype for stage in stages}
        return _Iteration(self._deliver(self._engine, dtypes))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def set_epoch(self, epoch: int) -> None:
        """Let the next iter() begin at `epoch`."""
        if not isinstance(epoch, int) or epoch < 0:
            raise UsageError(f"an epoch is a whole number from 0 on, got {epoch!r}")
        self.epoch = epoch

    def stats(self) -> dict[str, float]:
        """Return the counters so far; see LoaderStats."""
        return self._stats.snapshot()

    def close(self) -> None:
        """End a running iteration and its threads. May be called more than once."""
        self._closed = True
        self._end_engine()

    def _end_engine(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None

    def _batches_an_epoch(self) -> int:
        whole, rest = divmod(len(self.dataset), self.options.batch_size * self.options.world_size)
        return whole + (1 if rest and self.options.remainder is Remainder.KEEP else 0)

    def _deliver(self, engine: Engine, dtypes: dict[str, str | None]) -> Iterator[Batch]:
        delivered, planned_batches = 0, len(self)
        try:
            for filled in engine:
                delivered += 1
                planned = filled.planned
                columns = {name: self._convert(values, dtypes.get(name)) for name, values in filled.columns.items()}
                batch = Batch(
                    columns, self.dataset.fetcher, planned.epoch, planned.positions, planned.rows, filled.present
                )
                del filled, columns  # the consumer alone decides how long a batch lives
                yield batch
                del batch
        finally:
            engine.close()
        if delivered != planned_batches:
            raise LoaderError(
                f"the iteration ended after {delivered} of {planned_batches} batches, because the loader was closed or "
                "another iteration over it began: use one loader for each loop that runs at the same time"
            )


class _Iteration(Iterator[Batch]):
    """An iteration that stays broken once it broke: a generator would end quietly, and the epoch would be short."""

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self._broken: str | None = None

    def __next__(self) -> Batch:
        if self._broken is not None:
            raise LoaderError(f"this iteration ended with an error, its epoch is not complete: {self._broken}")
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except BaseException as error:
            self._broken = str(error) or type(error).__name__
            raise


def _plan(dataset: Dataset, options: LoaderOptions, batches: int, first_epoch: int) -> Iterator[PlannedBatch]:
    """Yield this rank's slice of each global batch. Not a method: the engine must not keep its loader alive."""
    samples = len(dataset)
    order = Order(samples, options.shuffle, options.seed)
    for epoch in range(first_epoch, first_epoch + options.epochs):
        for batch in range(batches):
            start = (batch * options.world_size + options.rank) * options.batch_size
            positions = np.arange(start, min(start + options.batch_size, samples), dtype=np.int64)
            yield PlannedBatch(epoch, positions, dataset.rows(order.rows(epoch, positions)))


def _member(kind: type[_Member], name: str, value: object) -> _Member:
    try:
        return kind(value)
    except ValueError:
        known = [member.value for member in kind]
        hint = did_you_mean(str(value), known)
        raise UsageError(f"{name} must be one of {', '.join(known)}, got {value!r}.{hint}") from None


def _thread_count(threads: int | str) -> int:
    if threads == "auto":
        return processors()
    if isinstance(threads, str):
        if not threads.isdecimal():
            raise UsageError(f"threads must be a number or 'auto', got {threads!r}")
        return int(threads)
    return threads
