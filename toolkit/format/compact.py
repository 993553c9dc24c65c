"""One form for equal values: a shard's bytes must not depend on how an array came to be.

Equal Arrow arrays can differ in memory: they may be slices of longer ones, hold anything at all under a null, and have
stray bits behind their last value. pyarrow writes some of that out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.format.arrays import bits_buffer, bool_array, truths, valid_rows, value_offsets

__all__ = ["compact_batch"]

_Mask = NDArray[np.bool_]


def compact_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the same values with no bytes but theirs: zeros or nothing under nulls; large values are not copied."""
    return pa.RecordBatch.from_arrays([_compact(array, None) for array in batch.columns], schema=batch.schema)


def _compact(array: pa.Array, above: _Mask | None) -> pa.Array:
    """Compact `array`. `above` says which rows are there as far as the parents go; None for all."""
    dtype, rows = array.type, len(array)
    if pa.types.is_null(dtype):
        return pa.nulls(rows)
    there = above
    validity = None
    if array.null_count:
        valid = valid_rows(array)
        there = valid if above is None else valid & above
        # Under a null parent a value counts as there: which bit it had is nobody's concern.
        bits = valid if above is None else valid | ~above
        validity = None if bits.all() else bits_buffer(bits)
    if there is not None and there.all():
        there = None
    if pa.types.is_struct(dtype):
        children = [_compact(array.field(i), there) for i in range(dtype.num_fields)]
        return pa.Array.from_buffers(dtype, rows, [validity], children=children)
    if pa.types.is_fixed_size_list(dtype):
        size = dtype.list_size
        items = array.values.slice(array.offset * size, rows * size)
        child = _compact(items, None if there is None else np.repeat(there, size))
        return pa.Array.from_buffers(dtype, rows, [validity], children=[child])
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        array, offsets = _without_dead_items(array, there)
        first = int(offsets[0])
        child = _compact(array.values.slice(first, int(offsets[-1]) - first), None)
        return pa.Array.from_buffers(dtype, rows, [validity, _rebased(offsets)], children=[child])
    if dtype in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
        array, offsets = _without_dead_items(array, there)
        data = array.buffers()[2]
        first = int(offsets[0])
        values = pa.py_buffer(b"") if data is None else data.slice(first, int(offsets[-1]) - first)
        return pa.Array.from_buffers(dtype, rows, [validity, _rebased(offsets), values])
    if pa.types.is_boolean(dtype):
        values = truths(array)
        return pa.Array.from_buffers(dtype, rows, [validity, bits_buffer(values if there is None else values & there)])
    width = dtype.bit_width // 8
    data = array.buffers()[1]
    values = pa.py_buffer(b"") if data is None else data.slice(array.offset * width, rows * width)
    if there is not None and rows * width:
        kept = np.frombuffer(values, np.uint8).reshape(rows, width).copy()
        kept[~there] = 0
        values = pa.py_buffer(kept)
    return pa.Array.from_buffers(dtype, rows, [validity, values])


def _without_dead_items(array: pa.Array, there: _Mask | None) -> tuple[pa.Array, NDArray[np.signedinteger]]:
    """Return an array of bytes or lists with nothing under its nulls, and its offsets."""
    offsets = value_offsets(array)
    if there is not None and np.diff(offsets)[~there].any():
        lengths = np.where(there, np.diff(offsets), 0)
        # What is kept stands in one piece: the rows that are there, one after the other.
        array = pa.concat_arrays([array.filter(bool_array(there))])
        start = int(value_offsets(array)[0])
        offsets = np.concatenate(([start], start + np.cumsum(lengths))).astype(offsets.dtype)
    return array, offsets


def _rebased(offsets: NDArray[np.signedinteger]) -> pa.Buffer:
    return pa.py_buffer(np.ascontiguousarray(offsets - offsets[0]))
