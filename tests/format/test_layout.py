"""Layouts: each value's buffers lie where Arrow puts them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from format.arrow_values import batches, ipc, pure_columns
from hypothesis import given, settings

from toolkit._native.shards.message import BatchMessage
from toolkit.format.layout import (
    BitLayout,
    FixedLayout,
    Layout,
    ListLayout,
    NullLayout,
    StructLayout,
    VariableLayout,
    batch_shape,
    column_layouts,
    leaf_layouts,
    leaf_name,
)
from toolkit.format.media import IMAGE_TYPE
from toolkit.format.schema import arrow_schema, derived_of, image_column, label_column

COLUMNS = (image_column("image"), label_column("label", "0" * 64))
FORMAT_1 = arrow_schema(COLUMNS, {"image": IMAGE_TYPE, "label": pa.int64()}, {"label": ()}, derived_of(COLUMNS))


def test_format_1_is_the_table_in_the_docs() -> None:
    places = {}
    for name, leaf in leaf_layouts(FORMAT_1).items():
        places[name] = (leaf.validity.tolist(), leaf.offsets if isinstance(leaf, VariableLayout) else None, leaf.data)
    assert places == {
        "__key__": ([0], 1, 2),
        "__digest__": ([3], None, 4),
        "label": ([5], None, 6),
        "__image.height__": ([7], None, 8),
        "__image.width__": ([9], None, 10),
        "__image.orientation__": ([11], None, 12),
        "__image.format__": ([13], 14, 15),
        leaf_name("image", "bytes"): ([16, 17], 18, 19),
        leaf_name("image", "path"): ([16, 20], 21, 22),
    }
    shape = batch_shape(FORMAT_1, COLUMNS)
    assert (shape.buffers, shape.empty.tolist(), shape.head, shape.tokens) == (23, [0, 3], 19, None)


def numbers(layout: Layout) -> list[int]:
    """The buffers that belong to a layout alone, in order."""
    if isinstance(layout, NullLayout):
        return []
    own = [int(layout.validity[-1])]
    match layout:
        case StructLayout(children=children):
            return own + [number for child in children.values() for number in numbers(child)]
        case ListLayout(child=child, offsets=offsets):
            return own + ([] if offsets is None else [offsets]) + numbers(child)
        case VariableLayout(offsets=offsets, data=data):
            return [*own, offsets, data]
    return [*own, layout.data]


class Reader:
    """Takes single values out of a body, by a layout's buffer numbers."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        head, self.body = ipc(batch)
        self.buffers = BatchMessage(head).buffers.tolist()

    def buffer(self, number: int) -> bytes:
        start, length = self.buffers[number]
        return self.body[start : start + length]

    def bit(self, number: int, row: int) -> bool:
        return bool(self.buffer(number)[row >> 3] >> (row & 7) & 1)

    def span(self, layout: VariableLayout | ListLayout, row: int) -> tuple[int, int]:
        if isinstance(layout, ListLayout) and layout.offsets is None:
            return row * layout.size, (row + 1) * layout.size
        offsets = np.frombuffer(self.buffer(layout.offsets or 0), f"<i{layout.offset_width}")
        return int(offsets[row]), int(offsets[row + 1])

    def value(self, layout: Layout, row: int) -> object:
        if isinstance(layout, NullLayout):
            return None
        if any(self.buffer(number) and not self.bit(number, row) for number in layout.validity.tolist()):
            return None
        match layout:
            case FixedLayout(data=data, width=width):
                return self.buffer(data)[row * width : (row + 1) * width]
            case BitLayout(data=data):
                return self.bit(data, row)
            case StructLayout(children=children):
                return tuple(self.value(child, row) for child in children.values())
        start, stop = self.span(layout, row)
        if isinstance(layout, ListLayout):
            return [self.value(layout.child, item) for item in range(start, stop)]
        return self.buffer(layout.data)[start:stop]


@settings(max_examples=200, deadline=None)
@given(batches())
def test_values_are_found_in_what_pyarrow_writes(batch: pa.RecordBatch) -> None:
    layouts = column_layouts(batch.schema)
    reader = Reader(batch)
    assert list(layouts) == batch.schema.names
    assert [number for layout in layouts.values() for number in numbers(layout)] == list(range(len(reader.buffers)))
    for (field, expected), (name, layout) in zip(pure_columns(batch), layouts.items(), strict=True):
        assert (field.name, layout.type) == (name, batch.schema.field(name).type)
        assert [reader.value(layout, row) for row in range(batch.num_rows)] == expected


@settings(max_examples=50, deadline=None)
@given(batches())
def test_leaves_are_those_of_the_tree(batch: pa.RecordBatch) -> None:
    layouts = column_layouts(batch.schema)
    for name, leaf in leaf_layouts(batch.schema).items():
        column, *parts = name.split("\0")
        found = layouts[column]
        for part in parts:
            assert isinstance(found, StructLayout)
            found = found.children[part]
        assert isinstance(leaf, FixedLayout | VariableLayout)
        assert numbers(leaf) == numbers(found)
        assert leaf.validity.tolist() == found.validity.tolist()


@pytest.mark.parametrize(
    "dtype",
    [
        pa.dictionary(pa.int8(), pa.string()),
        pa.map_(pa.string(), pa.int8()),
        pa.string_view(),
        pa.list_view(pa.int8()),
        pa.sparse_union([pa.field("a", pa.int8())]),
    ],
)
def test_types_without_a_layout_are_refused(dtype: pa.DataType) -> None:
    for nested in (dtype, pa.list_(dtype), pa.struct([("x", dtype)])):
        with pytest.raises(TypeError, match="no layout"):
            column_layouts(pa.schema([("x", nested)]))
