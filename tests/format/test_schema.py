"""Stored types: whatever Arrow has becomes a type that format 1 has a layout for, with the same values."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from format.arrow_values import TYPES, arrays
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.format.encodings import ImageEncoding
from toolkit.format.layout import column_layouts
from toolkit.format.media import IMAGE
from toolkit.format.schema import Column, Kind, arrow_schema, image_column, stored_type


def _nest(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        inner.map(pa.list_),
        inner.map(pa.list_view),
        inner.map(pa.large_list_view),
        st.builds(pa.map_, st.sampled_from([pa.string(), pa.int32()]), inner),
        st.lists(inner, max_size=3).map(lambda types: pa.struct([(f"f{i}", t) for i, t in enumerate(types)])),
    )


FOREIGN = st.recursive(
    TYPES
    | st.sampled_from(
        [
            pa.string_view(),
            pa.binary_view(),
            pa.dictionary(pa.int8(), pa.string()),
            pa.dictionary(pa.int32(), pa.list_(pa.string_view())),
            pa.run_end_encoded(pa.int32(), pa.float32()),
            pa.uuid(),
            pa.json_(),
            pa.bool8(),
        ]
    ),
    _nest,
    max_leaves=4,
)


@settings(max_examples=200, deadline=None)
@given(FOREIGN)
def test_every_type_is_stored_as_one_with_a_layout(dtype: pa.DataType) -> None:
    stored = stored_type(dtype)
    assert stored_type(stored) == stored
    assert column_layouts(pa.schema([("x", stored)]))["x"].type == stored


@given(TYPES)
def test_a_plain_type_is_stored_as_it_is(dtype: pa.DataType) -> None:
    assert stored_type(dtype) == dtype


@pytest.mark.parametrize(
    ("dtype", "values", "stored"),
    [
        (pa.dictionary(pa.int8(), pa.string()), ["a", None, "b", "a"], pa.string()),
        (pa.string_view(), ["a" * 50, None, ""], pa.string()),
        (pa.binary_view(), [b"a" * 50, None], pa.binary()),
        (pa.list_view(pa.int8()), [[1, 2], None, []], pa.list_(pa.int8())),
        (
            pa.map_(pa.string(), pa.int8()),
            [[("k", 1)], None, []],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.int8())])),
        ),
    ],
)
def test_what_pyarrow_casts_keeps_its_values(dtype: pa.DataType, values: list, stored: pa.DataType) -> None:
    assert stored_type(dtype) == stored
    if pa.types.is_map(dtype):
        expected = [None if v is None else [{"key": k, "value": i} for k, i in v] for v in values]
    else:
        expected = values
    assert pa.array(values, dtype).cast(stored).to_pylist() == expected


@pytest.mark.parametrize("nest", [lambda t: t, pa.list_, lambda t: pa.struct([("x", t)])])
def test_unions_are_refused(nest: object) -> None:
    union = pa.dense_union([pa.field("a", pa.int8()), pa.field("b", pa.string())])
    with pytest.raises(TypeError, match="stores no unions"):
        stored_type(nest(union))  # type: ignore[operator]


def test_two_children_of_one_name_are_refused() -> None:
    twins = pa.struct([("a", pa.int8()), ("a", pa.string())])
    for dtype in (twins, pa.list_(twins), pa.struct([("x", twins)])):
        with pytest.raises(TypeError, match="two fields called 'a'"):
            stored_type(dtype)


def test_only_encoded_images_are_images_to_hugging_face() -> None:
    def feature(encoding: str) -> object:
        column = image_column("x", ImageEncoding.parse(encoding))
        dtype = IMAGE.form_in(encoding).type
        assert column.arrow_type == str(dtype)
        schema = arrow_schema((column,), {"x": dtype}, {})
        return json.loads(schema.metadata[b"huggingface"])["info"]["features"]["x"]

    assert feature("keep") == feature("jpeg:90") == {"_type": "Image"}
    sizes = {"pixels": "large_binary", "height": "int32", "width": "int32", "channels": "int8"}
    assert feature("raw") == {name: {"_type": "Value", "dtype": dtype} for name, dtype in sizes.items()}


@settings(max_examples=50, deadline=None)
@given(arrays())
def test_the_schema_of_any_column(array: pa.Array) -> None:
    column = Column(name="x", kind=Kind.VALUE, arrow_type=str(array.type))
    schema = arrow_schema((column,), {"x": array.type}, {})
    assert schema.names == ["__key__", "__digest__", "x"]
    assert schema.field("x").type == array.type
    assert "x" in json.loads(schema.metadata[b"huggingface"])["info"]["features"]
