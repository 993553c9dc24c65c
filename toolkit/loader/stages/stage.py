"""What every column's way into a batch has in common: its memory, how a part is filled, errors with the place."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import SampleError
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.dataset.located import Located
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.stages.memory import SampleMemory
from toolkit.memory.pool import Lend

__all__ = ["ColumnStage", "Part", "allocate", "block_bytes", "missing_value"]


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
        laid_out: Whether a batch needs lay_out().
        shares: What it reads, and how, if it shares that with the other stages of which this is equal; else None.
        largest_part: Samples that one call of fill() takes at the most; bounds how long close() and Ctrl-C wait.
    """

    optional = False
    dtype: str | None = None
    laid_out = False
    shares: Hashable | None = None
    largest_part = 256

    def __init__(self, name: str, fetcher: Fetcher, stats: LoaderStats) -> None:
        self.name = name
        self._fetcher = fetcher
        self._stats = stats

    @abstractmethod
    def allocate(self, samples: int, lend: Lend) -> Any:
        """Return the place for a batch of `samples`: an array over one block, or a list."""

    @abstractmethod
    def block_bytes(self, samples: int) -> int | None:
        """Return the size of that block, or None for a list."""

    def lay_out(self, place: Any, located: Located, where: NDArray[np.int64]) -> None:  # noqa: B027  # few ask for it
        """Get ready for a batch, before the first of its parts: its sample where[i] is stored at row i of `located`.

        Samples whose shards can't be opened are not among them.
        """

    def late_bytes(self, located: Located) -> int:
        """Return the size of the block that lay_out() will lend for those samples."""
        return 0

    @abstractmethod
    def fill(self, place: Any, part: Part, memory: SampleMemory) -> None:
        """Fill place[part.places]. Raises CorruptShardError, SampleError."""

    def fill_together(
        self, stages: Sequence[ColumnStage], places: Sequence[Any], part: Part, memory: SampleMemory
    ) -> None:
        """Fill the places of stages that share what they read, this one being their first. Raises as fill() does."""
        for stage, place in zip(stages, places, strict=True):
            stage.fill(place, part, memory)

    def blank(self, place: Any, start: int, stop: int) -> None:
        """Empty the places from `start` to `stop`: memory is lent with what was in it before."""
        place[start:stop] = [None] * (stop - start) if isinstance(place, list) else 0

    def finish(self, place: Any) -> Any:
        """Return what the consumer gets of a place that is filled."""
        return place

    def _failed(self, row: int, step: str, what: str) -> SampleError:
        place = self._fetcher.place(row)
        return SampleError(
            f"{place}, slot {self.name!r}, step {step}: {what}",
            dataset=place.dataset,
            shard=place.shard,
            row=place.row,
            key=place.key,
            slot=self.name,
            step=step,
        )


def allocate(shape: tuple[int, ...] | None, dtype: np.dtype[Any] | None, samples: int, lend: Lend) -> Any:
    """Return a block's array (samples, *shape), or a list of `samples` places where there is no shape."""
    nbytes = block_bytes(shape, dtype, samples)
    if shape is None or dtype is None or nbytes is None:
        return [None] * samples
    return lend(nbytes).view(dtype).reshape((samples, *shape))


def block_bytes(shape: tuple[int, ...] | None, dtype: np.dtype[Any] | None, samples: int) -> int | None:
    """Return how large that block is, or None where there is no shape."""
    if shape is None or dtype is None:
        return None
    return math.prod((samples, *shape)) * dtype.itemsize


def missing_value(column: str) -> str:
    """Return what is said of a null where a value has to be."""
    return (
        f"the value is missing. Give it a slot that may lack it, slot({column!r}, optional=True), "
        "or read only columns that are complete"
    )
