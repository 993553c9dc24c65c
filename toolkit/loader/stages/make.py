"""Choose each column's way into a batch: what its slots say, or the stored value."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from toolkit.format.layout import leaf_name
from toolkit.format.schema import Column
from toolkit.loader.dataset.decoded import DecodedColumn
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.stages.bytes_stage import BytesStage
from toolkit.loader.stages.memory import SampleMemory
from toolkit.loader.stages.raw_stage import RawImageStage
from toolkit.loader.stages.readers import BINARY_TYPES, ColumnReader, make_reader
from toolkit.loader.stages.slot_stage import ImageStage, SlotStage
from toolkit.loader.stages.stage import ColumnStage, Part, allocate, block_bytes, missing_value
from toolkit.memory.pool import Lend
from toolkit.pipelines.build import CompiledSlot
from toolkit.pipelines.media import held_medium

__all__ = ["make_stages"]


class StoredStage(ColumnStage):
    """A column that no slot reads: numbers as one array (n,), what isn't bytes as a list, None where it is null."""

    def __init__(self, reader: ColumnReader, fetcher: Fetcher, stats: LoaderStats) -> None:
        super().__init__(reader.column, fetcher, stats)
        self._reader = reader

    def allocate(self, samples: int, lend: Lend) -> Any:
        """Return (samples,) of the column's own dtype, or a list."""
        return allocate((), self._reader.dtype, samples, lend)

    def block_bytes(self, samples: int) -> int | None:
        """Return the array's size, or None for a list."""
        return block_bytes((), self._reader.dtype, samples)

    def fill(self, place: Any, part: Part, memory: SampleMemory) -> None:
        """Copy the values. A number that is missing is an error: no number says so."""
        begun = time.perf_counter()
        stored = self._reader.read(part.located, memory.fetched)
        if self._reader.dtype is not None and not stored.present.all():
            row = int(part.located.rows[int(np.argmin(stored.present))])
            raise self._failed(row, "read", missing_value(self.name))
        place[part.places] = stored.values
        self._stats.add(fetch_seconds=time.perf_counter() - begun, fetched_bytes=stored.nbytes)


def make_stages(
    columns: tuple[Column, ...],
    schema: pa.Schema,
    compiled: Sequence[CompiledSlot],
    fetcher: Fetcher,
    stats: LoaderStats,
    *,
    seed: int,
) -> list[ColumnStage]:
    """Return stages in the order of the columns: those of the slots that read one, or of the stored value."""
    stages: list[ColumnStage] = []
    for column in columns:
        slots = [each for each in compiled if each.slot.column == column.name]
        dtype = schema.field(column.name).type
        stages += [_slot_stage(each, column, dtype, fetcher, stats, seed) for each in slots]
        if not slots:
            stages.append(_stored_stage(column, dtype, fetcher, stats))
    return stages


def _stored_stage(column: Column, dtype: pa.DataType, fetcher: Fetcher, stats: LoaderStats) -> ColumnStage:
    held = held_medium(column.kind, dtype)
    if held is not None and not held.form.is_decoded:
        return BytesStage(column.name, leaf_name(column.name, held.form.payload), fetcher, stats)
    if dtype in BINARY_TYPES:
        return BytesStage(column.name, column.name, fetcher, stats)
    return StoredStage(make_reader(column.name, dtype, held, fetcher), fetcher, stats)


def _slot_stage(
    compiled: CompiledSlot, column: Column, dtype: pa.DataType, fetcher: Fetcher, stats: LoaderStats, seed: int
) -> ColumnStage:
    held = held_medium(column.kind, dtype, by_type=True)
    reader = make_reader(column.name, dtype, held, fetcher, as_bytes=compiled.reads_bytes)
    if compiled.image is None:
        return SlotStage(compiled, reader, seed, stats)
    if held is not None and held.form.is_decoded:
        pixels = DecodedColumn(fetcher, column.name, held)
        return RawImageStage(compiled, compiled.image, pixels, reader, seed, stats)
    leaf = column.name if held is None else leaf_name(column.name, held.form.payload)
    return ImageStage(compiled, compiled.image, leaf, reader, seed, stats)
