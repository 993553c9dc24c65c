"""Layouts: each leaf's buffers lie where Arrow puts them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.format.layout import FixedLayout, VariableLayout, buffer_count, leaf_layouts
from toolkit.format.message import parse_batch_message
from toolkit.format.schema import arrow_schema, image_column, label_column

FORMAT_1 = arrow_schema((image_column("image"), label_column("label", "0" * 64)), {"label": ()})


def test_format_1_is_the_table_in_the_docs() -> None:
    places = {}
    for name, leaf in leaf_layouts(FORMAT_1).items():
        places[name] = (leaf.validity.tolist(), leaf.offsets if isinstance(leaf, VariableLayout) else None, leaf.data)
    assert places == {
        "__key__": ([0], 1, 2),
        "__digest__": ([3], None, 4),
        "image.bytes": ([5, 6], 7, 8),
        "image.path": ([5, 9], 10, 11),
        "label": ([12], None, 13),
    }
    assert buffer_count(FORMAT_1) == 14


LEAVES = st.sampled_from(
    [pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.int8(), pa.int64(), pa.float32(), pa.binary(5)]
)
TYPES = st.recursive(LEAVES, lambda inner: st.lists(inner, min_size=1, max_size=3).map(
    lambda types: pa.struct([(f"f{i}", dtype) for i, dtype in enumerate(types)])), max_leaves=5)  # fmt: skip


def value(dtype: pa.DataType, seed: int) -> object:
    if pa.types.is_struct(dtype):
        return {child.name: value(child.type, seed + i + 1) for i, child in enumerate(dtype)}
    if pa.types.is_fixed_size_binary(dtype):
        return bytes([65 + seed % 26]) * dtype.byte_width
    if pa.types.is_primitive(dtype):
        return seed % 100
    text = f"{seed}" * (seed % 4)
    return text if dtype in (pa.string(), pa.large_string()) else text.encode()


@given(st.lists(TYPES, min_size=1, max_size=3))
def test_leaves_are_found_in_what_pyarrow_writes(types: list[pa.DataType]) -> None:
    schema = pa.schema([(f"c{i}", dtype) for i, dtype in enumerate(types)])
    rows = [{field.name: value(field.type, 7 * row + i) for i, field in enumerate(schema)} for row in range(3)]
    batch = pa.RecordBatch.from_pylist(rows, schema)
    data = batch.serialize().to_pybytes()
    metadata = 8 + int.from_bytes(data[4:8], "little")
    message, body = parse_batch_message(data[:metadata]), data[metadata:]
    assert buffer_count(schema) == len(message.buffers)

    def read(number: int) -> bytes:
        start, length = message.buffers[number].tolist()
        return body[start : start + length]

    for name, leaf in leaf_layouts(schema).items():
        for row in range(3):
            expected: object = rows[row]
            for part in name.split("."):
                expected = expected[part]  # type: ignore[index]
            if isinstance(leaf, FixedLayout):
                raw = read(leaf.data)[row * leaf.width : (row + 1) * leaf.width]
                if not pa.types.is_fixed_size_binary(leaf.type):
                    raw = np.frombuffer(raw, leaf.type.to_pandas_dtype())[0]
                assert raw == expected
            else:
                offsets = np.frombuffer(read(leaf.offsets), f"<i{leaf.offset_width}")
                raw = read(leaf.data)[offsets[row] : offsets[row + 1]]
                assert raw == (expected.encode() if isinstance(expected, str) else expected)


@pytest.mark.parametrize("dtype", [pa.bool_(), pa.list_(pa.int8()), pa.dictionary(pa.int8(), pa.string()), pa.null()])
def test_types_without_a_layout_are_refused(dtype: pa.DataType) -> None:
    with pytest.raises(TypeError, match="no layout"):
        leaf_layouts(pa.schema([("x", dtype)]))
