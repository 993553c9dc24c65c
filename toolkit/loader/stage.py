"""What every column's way into a batch has in common: its memory, how a part is filled, errors with the place."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.chunks import FetchBuffer
from toolkit._native.image import Scratch
from toolkit.errors import LoaderError, SampleError
from toolkit.loader.fetch import Fetcher, Located
from toolkit.loader.stats import LoaderStats
from toolkit.memory.pool import BlockPool

__all__ = ["ColumnStage", "Part", "RunningCall", "WorkerMemory", "allocate", "missing_value"]


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A function of the user's own that a worker is in. `overdue()` is the error when it isn't back by the deadline."""

    deadline: float
    overdue: Callable[[], Exception]


class WorkerMemory:
    """One thread's reusable memory: fetched bytes and decode scratch.

    Attributes:
        call: The function of the user's own that it is in.
        closed: Nobody waits for it any more: it enters no more functions.
    """

    def __init__(self) -> None:
        self.fetched = FetchBuffer()
        self.scratch = Scratch()
        self.call: RunningCall | None = None
        self.closed = False

    def enter(self, timeout: float | None, overdue: Callable[[float], Exception]) -> None:
        """Note that a function of the user's own begins, which may take `timeout` seconds. Raises LoaderError."""
        if self.closed:
            raise LoaderError("the loader was closed")
        if timeout is None:
            self.call = RunningCall(math.inf, lambda: overdue(math.inf))
        else:
            self.call = RunningCall(time.monotonic() + timeout, lambda: overdue(timeout))

    def leave(self) -> None:
        """Note that it is back."""
        self.call = None


@dataclass(frozen=True, slots=True)
class Part:
    """Samples of a batch that one worker fills.

    Attributes:
        start: Where in the batch they begin.
        located: Where they are stored.
        epoch: The batch's epoch.
        positions: int64 (n,): their positions in the epoch's order.
        present: bool of the whole batch by name of an optional slot, to be filled as the columns are.
    """

    start: int
    located: Located
    epoch: int
    positions: NDArray[np.int64]
    present: dict[str, NDArray[np.bool_]] = field(default_factory=dict)

    @property
    def places(self) -> slice:
        """The samples' places in the batch."""
        return slice(self.start, self.start + len(self.positions))


class ColumnStage(ABC):
    """One column's way into batches. Stateless between parts; used by every worker at once.

    Attributes:
        name: What it is called in batches.
        optional: Whether samples may lack it: then Part.present has its name.
        dtype: Of the arrays it fills, "bfloat16" where their uint16 mean that; None for lists of other things.
        largest_part: Samples that one call of fill() takes at the most; bounds how long close() and Ctrl-C wait.
    """

    optional = False
    dtype: str | None = None
    largest_part = 256

    def __init__(self, name: str, fetcher: Fetcher, stats: LoaderStats) -> None:
        self.name = name
        self._fetcher = fetcher
        self._stats = stats

    @abstractmethod
    def allocate(self, samples: int, pool: BlockPool) -> Any:
        """Return the place for a batch of `samples`."""

    @abstractmethod
    def fill(self, place: Any, part: Part, memory: WorkerMemory) -> None:
        """Fill place[part.places]. Raises CorruptShardError, SampleError."""

    def _failed(self, row: int, step: str, what: str) -> SampleError:
        dataset = self._fetcher.root
        shard, key = self._fetcher.place(row)
        return SampleError(
            f"dataset {dataset}, shard {shard}, row {row}, key {key!r}, slot {self.name!r}, step {step}: {what}",
            dataset=dataset,
            shard=shard,
            row=row,
            key=key,
            slot=self.name,
            step=step,
        )


def allocate(shape: tuple[int, ...] | None, dtype: np.dtype[Any] | None, samples: int, pool: BlockPool) -> Any:
    """Return a block's array (samples, *shape), or a list of `samples` places where there is no shape."""
    if shape is None or dtype is None:
        return [None] * samples
    full = (samples, *shape)
    return pool.lend(int(np.prod(full, dtype=np.int64)) * dtype.itemsize).view(dtype).reshape(full)


def missing_value(column: str) -> str:
    """Return what is said of a null where a value has to be."""
    return (
        f"the value is missing. Give it a slot that may lack it, slot({column!r}, optional=True), "
        "or read only columns that are complete"
    )
