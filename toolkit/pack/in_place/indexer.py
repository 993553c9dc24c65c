"""Make references of values: below which root, where, with the sums of their bytes. A step between shape and shards.

The digests are those of the values themselves, as a pack stores them, and so are derived columns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.shards.sums import chunk_sums
from toolkit.errors import UsageError
from toolkit.format.arrays import bool_array, to_array, valid_rows, value_offsets
from toolkit.format.digest import sample_digests
from toolkit.format.references import REFERENCE_TYPE
from toolkit.format.schema import DIGEST, DIGEST_BYTES, KEY, derived_of, derived_type, stored_order
from toolkit.format.unhashed import encode_stats
from toolkit.pack.derive import STATS, Deriver
from toolkit.pack.in_place.locate import Located, Roots
from toolkit.pack.in_place.trust import Trust
from toolkit.pack.shape import Shaper
from toolkit.pipelines.media import held_medium
from toolkit.sources.base import Rows, Slice
from toolkit.sources.in_place import Places
from toolkit.sources.reject import Reject

__all__ = ["Indexer"]

_SUM_BYTES = 4
_STAT_BYTES = 16  # of a value
_CHUNK_BYTES = 16 * 1024


class Indexer:
    """The rows of a source with references in place of the values of media. A Finisher as well.

    Attributes:
        survey: What is packed: the source's survey with its media columns as they are stored.
    """

    def __init__(self, shaper: Shaper, trust: Trust, roots: Roots) -> None:
        """Raises UsageError when no column holds a medium."""
        self._shaper = shaper
        self._trust = trust
        self._roots = roots
        survey = shaper.survey
        held = {one.name: held_medium(one.kind, survey.types[one.name]) for one in survey.columns}
        self._payloads = {name: one.form.payload for name, one in held.items() if one is not None}
        if not self._payloads:
            found = ", ".join(f"{column.name} ({column.kind.value})" for column in survey.columns)
            raise UsageError(
                f"no column holds images, so there is nothing that could stay where it is; there are {found}. Pack it, "
                "or say which column does with --kind COLUMN=image"
            )
        self._columns = survey.columns
        self._derived = derived_of(survey.columns)
        self._deriver = Deriver(survey.columns, self._derived)
        fixed, texts, large = stored_order(survey.columns, survey.types)
        self._digested = [KEY, *fixed, *texts, *large]
        self._stored = [name for name in large if name in self._payloads]  # in the order of shards
        types = dict.fromkeys(self._payloads, REFERENCE_TYPE)
        columns = tuple(
            msgspec.structs.replace(one, arrow_type=str(REFERENCE_TYPE)) if one.name in types else one
            for one in survey.columns
        )
        self.survey = replace(survey, columns=columns, types={**survey.types, **types})

    def rows(self, part: Slice) -> Iterator[Rows]:
        """Yield the rows of a slice; values that lie below no root become rejects."""
        for rows in self._shaper.rows(part):
            located, outside = {}, {}
            for name in self._payloads:
                located[name], wrong = self._roots.located(rows.places[name])
                outside.update(wrong)
            if not outside:
                yield replace(rows, places=located)
                continue
            kept = np.array([row for row in range(rows.batch.num_rows) if row not in outside], np.int64)
            keys = rows.batch.column(KEY)
            rejects = [
                Reject(self._shaper.place(part, key := keys[row].as_py()), key, why) for row, why in outside.items()
            ]
            yield Rows(
                rows.batch.take(pa.array(kept)),
                (*rows.rejects, *rejects),
                rows.read_bytes,
                {name: places.picked(kept) for name, places in located.items()},
            )

    def finished(self, rows: pa.RecordBatch, places: Mapping[str, Places]) -> pa.RecordBatch:
        """Return the rows with references, derived columns and digests."""
        hashed = self._trust is Trust.HASH
        arrays = dict(zip(rows.schema.names, rows.columns, strict=True))
        for name, payload in self._payloads.items():
            values = rows.column(name).field(payload) if hashed else None
            arrays[name] = _references(places[name], values)
        if hashed:
            added = self._deriver.added(rows)
            arrays.update((one.name, added.column(one.name)) for one in self._derived)
            arrays[DIGEST] = to_array(sample_digests(rows.select(self._digested)), pa.binary(DIGEST_BYTES))
        else:
            count = rows.num_rows
            arrays.update((one.name, pa.nulls(count, derived_type(one, self._columns))) for one in self._derived)
            arrays[DIGEST] = pa.nulls(count, pa.binary(DIGEST_BYTES))
            arrays[STATS] = self._stats(places)
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))

    def _stats(self, places: Mapping[str, Places]) -> pa.Array:
        """Return sizes and times of the files, as they lie beside shards."""
        columns = []
        for place in (places[name] for name in self._stored):
            there = valid_rows(place.files)
            columns.append((np.where(there, place.sizes, -1), np.where(there, place.mtimes_ns, -1)))
        data = pa.py_buffer(encode_stats(columns))
        return pa.Array.from_buffers(
            pa.binary(_STAT_BYTES * len(columns)), len(places[self._stored[0]].files), [None, data]
        )


def _references(places: Places, values: pa.Array | None) -> pa.Array:
    """Return the column of values at those places; `values` are they, if there are to be sums of them."""
    assert isinstance(places, Located)
    rows = len(places.files)
    there = valid_rows(places.files)
    lengths = np.where(there, places.lengths, 0)
    sums = pa.nulls(rows, pa.binary())
    if values is not None:
        _check_lengths(lengths, values)
        sums = _sums(values)
    children = [
        places.roots,
        places.files,
        _int64(np.where(there, places.offsets, 0)),
        _int64(lengths),
        places.names,
        sums,
    ]
    missing = None if there.all() else bool_array(~there)
    return pa.StructArray.from_arrays(children, fields=list(REFERENCE_TYPE), mask=missing)


def _check_lengths(lengths: NDArray[np.int64], values: pa.Array) -> None:
    held = np.where(valid_rows(values), np.diff(value_offsets(values)), 0)
    if not np.array_equal(lengths, held):
        raise ValueError("a source says of its values that they have other lengths than they have")


def _sums(values: pa.Array) -> pa.Array:
    """Return a binary array of the CRC32C of each value's chunks."""
    offsets, data = value_offsets(values).astype(np.int64), values.buffers()[2]
    chunks = -(-np.diff(offsets) // _CHUNK_BYTES)
    sums = np.empty(int(chunks.sum()), np.uint32)
    chunk_sums(offsets, np.frombuffer(b"" if data is None else data, np.uint8), sums)
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(chunks))) * _SUM_BYTES
    buffers = [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(sums.astype("<u4", copy=False))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _int64(values: NDArray[np.int64]) -> pa.Array:
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, np.int64))])
