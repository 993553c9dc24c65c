"""How many bytes each row of a batch adds to a body: what record batches and shards are cut by."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.format.arrays import value_offsets
from toolkit.format.compact import compact_batch
from toolkit.format.layout import takes_bytes
from toolkit.format.schema import DIGEST

__all__ = ["MOST_EMPTY_ITEMS", "empty_items", "padding_bytes", "row_bytes"]

MOST_EMPTY_ITEMS = 1 << 20  # of lists, that take no bytes, in a record batch: offsets alone could ask for any number

_NODE_BYTES = 32  # the padding of three buffers, and the end of the last offset
_EMPTY_ITEM_BYTES = 16  # what such an item counts: a batch of 16 MiB has no more of them then
_FIXED_BYTES = 24  # the digest, and a row's share of padding


def row_bytes(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Return an upper bound for each row: its values, offsets, validity. Depends on the row alone."""
    total = np.full(batch.num_rows, _FIXED_BYTES, np.int64)
    compact = compact_batch(batch)
    for name, array in zip(compact.schema.names, compact.columns, strict=True):
        total += 0 if name == DIGEST else _value_bytes(array)
    return total


def padding_bytes(schema: pa.Schema) -> int:
    """Return an upper bound of what a body holds beside its rows: once, however many rows there are."""
    return sum(_nodes(field.type) for field in schema) * _NODE_BYTES


def empty_items(array: pa.Array) -> int:
    """Return how many items of lists there are, at any depth of a compact array, that take no bytes."""
    dtype = array.type
    if pa.types.is_struct(dtype):
        return sum(empty_items(array.field(i)) for i in range(dtype.num_fields))
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype) or pa.types.is_fixed_size_list(dtype):
        return empty_items(array.values) if takes_bytes(dtype.value_type) else len(array.values)
    return 0


def _nodes(dtype: pa.DataType) -> int:
    return 1 + sum(_nodes(dtype.field(i).type) for i in range(dtype.num_fields))


def _item_bytes(items: pa.Array) -> NDArray[np.int64]:
    return _value_bytes(items) if takes_bytes(items.type) else np.full(len(items), _EMPTY_ITEM_BYTES, np.int64)


def _value_bytes(array: pa.Array) -> NDArray[np.int64]:
    dtype = array.type
    if pa.types.is_null(dtype):
        return np.zeros(len(array), np.int64)
    if pa.types.is_struct(dtype):
        children = [_value_bytes(array.field(i)) for i in range(dtype.num_fields)]
        return sum(children, start=np.ones(len(array), np.int64))
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        offsets = value_offsets(array).astype(np.int64)
        if not dtype.value_field.nullable:  # token ids: nothing but their width
            return np.asarray(np.diff(offsets) * (dtype.value_type.bit_width // 8) + 9, np.int64)
        ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(_item_bytes(array.values))))
        return ends[offsets[1:]] - ends[offsets[:-1]] + 9
    if pa.types.is_fixed_size_list(dtype):
        size = dtype.list_size
        values = _item_bytes(array.values)[array.offset * size : (array.offset + len(array)) * size]
        return np.asarray(values.reshape(len(array), size).sum(axis=1) + 1, np.int64)
    if dtype in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
        lengths = np.diff(value_offsets(array)).astype(np.int64)  # what is compact has nothing under its nulls
        return lengths + (5 if dtype in (pa.binary(), pa.string()) else 9)
    return np.full(len(array), max(1, dtype.bit_width // 8) + 1, np.int64)
