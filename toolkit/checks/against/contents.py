"""What stands for a sample's contents on both sides: its digest; where nothing was hashed, sizes and times of files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.format.arrays import bool_array, valid_rows
from toolkit.format.digest import sample_digests
from toolkit.format.schema import DIGEST, KEY, stored_order
from toolkit.loader.api import Dataset
from toolkit.loader.dataset.referenced import References
from toolkit.sources.base import Rows, Survey

__all__ = ["Contents", "Digests", "Stats"]

_STAT_TYPE = pa.struct([(name, pa.int64()) for name in ("offset", "length", "size", "mtime_ns")])


class Contents(Protocol):
    """16 bytes for each sample. Safe from any thread.

    Attributes:
        text: What they stand for, in words.
    """

    text: str

    def of_batch(self, dataset: Dataset, batch: int) -> list[bytes]:
        """Return those of a record batch of a split. Raises CorruptShardError."""

    def of_rows(self, survey: Survey, rows: Rows) -> list[bytes]:
        """Return those of rows of a source."""


class Digests:
    """The digests of samples, as they are packed."""

    text = "digests over all bytes, labels and other columns"

    def of_batch(self, dataset: Dataset, batch: int) -> list[bytes]:
        """Return what is stored."""
        stored: list[bytes] = dataset.fetcher.array(DIGEST, batch).to_pylist()
        return stored

    def of_rows(self, survey: Survey, rows: Rows) -> list[bytes]:
        """Return what a pack would store."""
        return sample_digests(rows.batch.select(_order(survey)))


class Stats:
    """Hashes of labels and other columns, and of where values lie, sizes and times of files: of no byte of a file."""

    text = "sizes and times of files, labels and other columns; no byte of a file, since nothing was hashed"

    def of_batch(self, dataset: Dataset, batch: int) -> list[bytes]:
        """Return those of what is stored, and of what lies beside the shard."""
        references = dataset.stored.parts[0].references
        info = dataset.index.batch(batch)
        rows = np.arange(info.start, info.start + info.rows, dtype=np.int64)
        columns = dataset.manifest.columns
        types = {one.name: dataset.schema.field(one.name).type for one in columns}
        arrays = {name: dataset.fetcher.array(name, batch) for name in (KEY, *types)}
        if references is not None:
            arrays |= {name: _stats_of(references, name, arrays[name], rows) for name in references.columns}
        order = [KEY, *(one for names in stored_order(columns, types) for one in names)]
        return sample_digests(pa.RecordBatch.from_arrays([arrays[name] for name in order], names=order))

    def of_rows(self, survey: Survey, rows: Rows) -> list[bytes]:
        """Return those of what a source says of its values."""
        arrays = dict(zip(rows.batch.schema.names, rows.batch.columns, strict=True))
        for name, places in rows.places.items():
            numbers = [places.offsets, places.lengths, places.sizes, places.mtimes_ns]
            arrays[name] = _stat_array(valid_rows(places.files), numbers)
        order = _order(survey)
        return sample_digests(pa.RecordBatch.from_arrays([arrays[name] for name in order], names=order))


def _order(survey: Survey) -> list[str]:
    return [KEY, *(one for names in stored_order(survey.columns, survey.types) for one in names)]


def _stats_of(references: References, column: str, stored: pa.StructArray, rows: NDArray[np.int64]) -> pa.Array:
    there = valid_rows(stored)
    known = np.full((len(rows), 2), -1, np.int64)
    found = references.files.stats(references.columns.index(column), rows)
    if found is not None:
        known = found
    places: Mapping[str, NDArray[np.int64]] = {
        name: np.where(there, stored.field(name).to_numpy(zero_copy_only=False), 0) for name in ("offset", "length")
    }
    return _stat_array(there, [places["offset"], places["length"], known[:, 0], known[:, 1]])


def _stat_array(there: NDArray[np.bool_], numbers: list[NDArray[np.int64]]) -> pa.Array:
    children = [pa.array(np.where(there, one, 0), pa.int64()) for one in numbers]
    mask = None if there.all() else bool_array(~there)
    return pa.StructArray.from_arrays(children, fields=list(_STAT_TYPE), mask=mask)
