"""Compact arrays: the same values, and the same bytes however the array came to be."""

from __future__ import annotations

import pyarrow as pa
import pytest
from format.arrow_values import arrays, ipc, pure_values
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.format.compact import compact_batch


def batch(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], names=["x"])


@settings(max_examples=300, deadline=None)
@given(arrays())
def test_values_stay_and_nothing_else(array: pa.Array) -> None:
    compact = compact_batch(batch(array))
    compact.validate(full=True)
    assert pure_values(compact.column(0)) == pure_values(array)
    assert ipc(compact_batch(compact)) == ipc(compact)


@settings(max_examples=200, deadline=None)
@given(arrays(nan=False), st.data())
def test_however_it_came_to_be(array: pa.Array, data: st.DataObject) -> None:
    expected = ipc(compact_batch(batch(array)))
    cut = data.draw(st.integers(0, len(array)))
    joined = pa.concat_arrays([array.slice(0, cut), array.slice(cut)])
    assert ipc(compact_batch(batch(joined))) == expected
    if not pa.types.is_interval(array.type):
        taken = array.take(pa.array(range(len(array)), pa.int64()))
        assert ipc(compact_batch(batch(taken))) == expected


@pytest.mark.parametrize("dtype", [pa.string(), pa.large_binary(), pa.list_(pa.int8()), pa.binary(2), pa.int16()])
def test_arrays_without_buffers(dtype: pa.DataType) -> None:
    assert compact_batch(batch(pa.array([], dtype))).num_rows == 0
    assert compact_batch(batch(pa.array([None, None], dtype))).column(0).null_count == 2


def test_large_values_are_not_copied() -> None:
    array = pa.array([b"x" * 1000] * 10)
    assert compact_batch(batch(array)).column(0).buffers()[2].address == array.buffers()[2].address
