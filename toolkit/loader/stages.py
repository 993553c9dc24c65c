"""What happens to one column of a batch: memory for it, and how a part of it is filled."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from toolkit._native.chunks import FetchBuffer
from toolkit._native.image import Scratch
from toolkit.errors import SampleError
from toolkit.format.layout import VariableLayout, leaf_layouts, leaf_name
from toolkit.format.schema import IMAGE_TYPE, RAW_IMAGE_TYPE, Column, Kind
from toolkit.loader.fetch import Fetcher, Located
from toolkit.loader.stats import LoaderStats
from toolkit.memory.pool import BlockPool
from toolkit.pipelines.image import CompiledImage

__all__ = ["ColumnStage", "WorkerMemory", "make_stages"]


class WorkerMemory:
    """One thread's reusable memory: fetched bytes and decode scratch."""

    def __init__(self) -> None:
        self.fetched = FetchBuffer()
        self.scratch = Scratch()


class ColumnStage(ABC):
    """One column's way into batches. Stateless between parts; used by every worker at once.

    Attributes:
        largest_part: Samples that one call of fill() takes at the most; bounds how long close() and Ctrl-C wait.
    """

    largest_part = 256

    def __init__(self, column: str, fetcher: Fetcher, stats: LoaderStats) -> None:
        self.column = column
        self._fetcher = fetcher
        self._stats = stats

    @abstractmethod
    def allocate(self, samples: int, pool: BlockPool) -> Any:
        """Return the place for a batch of `samples`."""

    @abstractmethod
    def fill(self, place: Any, start: int, located: Located, memory: WorkerMemory) -> None:
        """Fill place[start : start + len(located.rows)]. Raises CorruptShardError, SampleError."""

    def _failed(self, row: int, step: str, what: str) -> SampleError:
        shard, row, key = self._fetcher.place(row)
        return SampleError(
            f"shard {shard}, row {row}, key {key!r}, slot {self.column!r}, step {step}: {what}",
            shard=shard,
            row=row,
            key=key,
            slot=self.column,
            step=step,
        )


class NumberStage(ColumnStage):
    """Labels and other numbers: one array (n,). A missing one has no number, so a batch that meets it is an error."""

    def __init__(self, column: str, dtype: np.dtype[Any], fetcher: Fetcher, stats: LoaderStats) -> None:
        super().__init__(column, fetcher, stats)
        self._dtype = dtype

    def allocate(self, samples: int, pool: BlockPool) -> Any:
        """Return (samples,) of the column's own dtype."""
        return pool.lend(self._dtype.itemsize * samples).view(self._dtype)

    def fill(self, place: Any, start: int, located: Located, memory: WorkerMemory) -> None:
        """Copy the numbers."""
        out = place[start : start + len(located.rows)]
        null = self._fetcher.fixed(self.column, located, out.view(np.uint8))
        if null.any():
            row = int(located.rows[int(np.argmax(null))])
            raise self._failed(
                row, "read", "the value is missing. Pack with --require-labels, or read only columns that are complete"
            )


class ValueStage(ColumnStage):
    """A list of Python values, of any type; None where the value is null."""

    def allocate(self, samples: int, pool: BlockPool) -> Any:
        """Return a list of `samples` places."""
        return [None] * samples

    def fill(self, place: Any, start: int, located: Located, memory: WorkerMemory) -> None:
        """Rebuild the values."""
        place[start : start + len(located.rows)] = self._fetcher.values(self.column, located)


class BytesStage(ColumnStage):
    """A list of bytes, or of str, as stored; None where the value is null."""

    def __init__(self, column: str, leaf: str, text: bool, fetcher: Fetcher, stats: LoaderStats) -> None:
        super().__init__(column, fetcher, stats)
        self._leaf = leaf
        self._text = text

    def allocate(self, samples: int, pool: BlockPool) -> Any:
        """Return a list of `samples` places."""
        return [None] * samples

    def fill(self, place: Any, start: int, located: Located, memory: WorkerMemory) -> None:
        """Copy the values out."""
        begun = time.perf_counter()
        values = self._fetcher.bytes(self._leaf, located)
        size = sum(len(value) for value in values if value is not None)
        place[start : start + len(values)] = (
            [None if value is None else value.decode() for value in values] if self._text else values
        )
        self._stats.add(fetch_seconds=time.perf_counter() - begun, fetched_bytes=size)


class ImageStage(ColumnStage):
    """Decoded, transformed images: one array (n, *shape), or a list of arrays where each has its own size."""

    largest_part = 16

    def __init__(self, compiled: CompiledImage, fetcher: Fetcher, stats: LoaderStats) -> None:
        super().__init__(compiled.column, fetcher, stats)
        self._compiled = compiled

    def allocate(self, samples: int, pool: BlockPool) -> Any:
        """Return (samples, *shape) of the slot's dtype, or a list."""
        shape = self._compiled.shape
        if shape is None:
            return [None] * samples
        full = (samples, *shape)
        nbytes = int(np.prod(full, dtype=np.int64)) * self._compiled.dtype.itemsize
        return pool.lend(nbytes).view(self._compiled.dtype).reshape(full)

    def fill(self, place: Any, start: int, located: Located, memory: WorkerMemory) -> None:
        """Fetch, decode and transform straight into the batch."""
        stop = start + len(located.rows)
        begun = time.perf_counter()
        values = self._fetcher.variable(leaf_name(self.column, "bytes"), located, memory.fetched)
        fetched = time.perf_counter()
        out = [None] * (stop - start) if isinstance(place, list) else place[start:stop]
        failures = self._compiled.run(values.addresses, values.lengths, memory.fetched, out, memory.scratch)
        if isinstance(place, list):
            place[start:stop] = out
        self._stats.add(
            fetch_seconds=fetched - begun,
            decode_seconds=time.perf_counter() - fetched,
            fetched_bytes=int(values.lengths[values.lengths > 0].sum()),
        )
        if failures:
            first = failures[0]
            raise self._failed(int(located.rows[first.index]), first.step, first.message)


def make_stages(
    columns: tuple[Column, ...],
    schema: pa.Schema,
    compiled: Mapping[str, CompiledImage],
    fetcher: Fetcher,
    stats: LoaderStats,
) -> list[ColumnStage]:
    """Return a stage for each column, in order: what its slot says, or the stored value."""
    from toolkit.loader.raw_stage import RawImageStage  # is a ColumnStage itself

    leaves = leaf_layouts(schema)
    stages: list[ColumnStage] = []
    for column in columns:
        name = column.name
        leaf = leaves.get(name)
        if column.kind is Kind.IMAGE and schema.field(name).type == RAW_IMAGE_TYPE:
            stages.append(RawImageStage(name, compiled.get(name), fetcher, stats))
        elif name in compiled:
            stages.append(ImageStage(compiled[name], fetcher, stats))
        elif schema.field(name).type == IMAGE_TYPE:
            stages.append(BytesStage(name, leaf_name(name, "bytes"), False, fetcher, stats))
        elif isinstance(leaf, VariableLayout):
            stages.append(BytesStage(name, name, leaf.type in (pa.string(), pa.large_string()), fetcher, stats))
        elif _is_number(schema.field(name).type):
            stages.append(NumberStage(name, np.dtype(schema.field(name).type.to_pandas_dtype()), fetcher, stats))
        else:
            stages.append(ValueStage(name, fetcher, stats))
    return stages


def _is_number(dtype: pa.DataType) -> bool:
    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype))
