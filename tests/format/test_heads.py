"""The order of columns in shards, and what a shard table says of record batches: held to what pyarrow reads of them."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from format.arrow_values import TYPES, make_array, pure_schema
from format.pure_reader import group
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit._native.shards.message import BatchMessage
from toolkit.format.layout import batch_shape
from toolkit.format.media import IMAGE_TYPE, RAW_IMAGE_TYPE
from toolkit.format.schema import (
    DIGEST,
    KEY,
    Column,
    Kind,
    TokenEncoding,
    arrow_schema,
    columns_of,
    derived_of,
    image_column,
    label_column,
    stored_order,
    token_column,
    token_type,
)
from toolkit.format.shard import BATCH_BODY_BYTES, ShardRecord, ShardWriter
from toolkit.storage.background import BackgroundFile

NUMBERS = [pa.int8(), pa.uint16(), pa.int64(), pa.float16(), pa.float64(), pa.bool_()]
OTHERS = {
    Kind.SCALAR: st.sampled_from(NUMBERS),
    Kind.TEXT: st.sampled_from([pa.string(), pa.large_string()]),
    Kind.JSON: st.just(pa.string()),
    Kind.BYTES: st.sampled_from([pa.binary(), pa.large_binary(), pa.binary(5)]),
    Kind.TENSOR: st.just(pa.binary()),
    Kind.VALUE: TYPES,
    Kind.UNKNOWN: TYPES,
}


@st.composite
def columns(draw: st.DrawFn) -> tuple[tuple[Column, ...], dict[str, pa.DataType]]:
    """Columns of any kind in any order, one of tokens at most, and their types."""
    found, types = [], {}
    kinds = draw(st.lists(st.sampled_from(Kind), max_size=6).filter(lambda kinds: kinds.count(Kind.TOKENS) < 2))
    for number, kind in enumerate(kinds):
        name = f"c{number}"
        if kind is Kind.IMAGE:
            raw = draw(st.booleans())
            types[name] = RAW_IMAGE_TYPE if raw else IMAGE_TYPE
            column = image_column(name)
            column = Column(name=name, kind=kind, arrow_type=str(types[name]), encoding="raw") if raw else column
        elif kind is Kind.LABEL:
            column, types[name] = label_column(name, "0" * 64), pa.int64()
        elif kind is Kind.TOKENS:
            column = token_column(name, TokenEncoding(vocabulary=draw(st.sampled_from([9, 1 << 17]))))
            item = pa.uint16() if column.arrow_type.count("uint16") else pa.uint32()
            types[name] = pa.large_list(pa.field("item", item, nullable=False))
        else:
            types[name] = draw(OTHERS[kind])
            column = Column(name=name, kind=kind, arrow_type=str(types[name]))
        found.append(column)
    return tuple(found), types


def schema_of(found: tuple[Column, ...], types: dict[str, pa.DataType]) -> pa.Schema:
    classes = {column.name: ("a",) for column in found if column.kind is Kind.LABEL}
    return arrow_schema(found, types, classes, derived_of(found))


@settings(max_examples=150, deadline=None)
@given(columns())
def test_columns_stand_in_four_groups_each_in_the_user_s_order(
    drawn: tuple[tuple[Column, ...], dict[str, pa.DataType]],
) -> None:
    found, types = drawn
    schema = schema_of(found, types)
    assert schema.names[:2] == [KEY, DIGEST]
    fields = {field.name: field for field in pure_schema(schema).columns}
    groups = [[one.name for one in found if group(one.kind.value, fields[one.name]) == n] for n in (2, 3, 4)]
    assert list(stored_order(found, types)) == groups
    small, texts, large = groups
    assert schema.names[2:] == [*small, *texts, *(one.name for one in derived_of(found)), *large]


def test_which_values_have_one_width() -> None:
    fixed = [
        *(pa.null(), pa.bool_(), pa.int8(), pa.uint64(), pa.float16(), pa.decimal128(9, 2), pa.decimal256(50, 1)),
        *(pa.date32(), pa.time64("ns"), pa.timestamp("s", "UTC"), pa.duration("ms"), pa.month_day_nano_interval()),
        *(pa.binary(0), pa.binary(16)),
    ]
    large = [
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
        *(pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_(pa.int8(), 3), pa.struct([]), IMAGE_TYPE),
    ]
    types = {f"c{number}": dtype for number, dtype in enumerate([*large, *fixed])}
    columns = [Column(name=name, kind=Kind.VALUE, arrow_type=str(dtype)) for name, dtype in types.items()]
    assert stored_order(columns, types) == ([*types][len(large) :], [], [*types][: len(large)])


# --- heads and tokens -------------------------------------------------------------------------------------------


def rows_of(
    schema: pa.Schema, found: tuple[Column, ...], rows: int, rng: random.Random, nulls: float
) -> pa.RecordBatch:
    kinds = {column.name: column.kind for column in found}
    arrays = []
    for field in schema.remove(1):
        if field.name == KEY:
            array = pa.array([f"k{row}" * rng.randrange(1, 4) for row in range(rows)], pa.string())
        elif kinds.get(field.name) is Kind.TOKENS:
            documents = [[rng.randrange(9) for _ in range(rng.randrange(5))] for _ in range(rows)]
            array = pa.array(documents, field.type)
        else:
            array = make_array(field.type, rows, rng, nulls)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema.remove(1))


def written(path: Path, schema: pa.Schema, rows: pa.RecordBatch, limit: int) -> tuple[ShardRecord, bytes]:
    writer = ShardWriter(BackgroundFile(str(path)), schema, batch_body_bytes=limit)
    writer.write(rows)
    return writer.close(), path.read_bytes()


def leaves(array: pa.Array) -> Iterator[pa.Array]:
    """The arrays that have data, depth first; all of an array of nulls is that it has none."""
    if pa.types.is_struct(array.type):
        for number in range(array.type.num_fields):
            yield from leaves(array.field(number))
    elif pa.types.is_nested(array.type):
        yield from leaves(array.values)
    elif not pa.types.is_null(array.type):
        yield array


@settings(max_examples=250, deadline=None)
@given(
    columns(), st.integers(0, 30), st.integers(0, 2**32), st.sampled_from([0.0, 0.3]), st.sampled_from([400, 1 << 24])
)
def test_heads_and_tokens_are_those_that_pyarrow_finds(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: tuple[tuple[Column, ...], dict[str, pa.DataType]],
    count: int,
    seed: int,
    nulls: float,
    limit: int,
) -> None:
    found, types = drawn
    schema, rng = schema_of(found, types), random.Random(seed)
    assert columns_of(schema) == found
    record, data = written(tmp_path_factory.mktemp("s") / "s", schema, rows_of(schema, found, count, rng, nulls), limit)
    whole = pa.py_buffer(data)
    file, shape = pa.ipc.open_file(whole), batch_shape(schema, found)
    small, texts, large = stored_order(found, types)
    assert len(record.batches) == file.num_record_batches
    for number, place in enumerate(record.batches):
        batch = file.get_batch(number)
        start = place.offset + place.metadata_bytes
        message = data[place.offset : start]
        assert place.metadata_sha256 == hashlib.sha256(message).digest()
        assert place.tokens == sum(len(batch.column(one.name).values) for one in found if one.kind is Kind.TOKENS)
        first = next((leaf for name in large for leaf in leaves(batch.column(name))), None)
        if first is None:
            assert place.head_bytes == place.body_bytes
        elif (buffer := first.buffers()[-1]) is not None and buffer.size:
            assert whole.address + start + place.head_bytes == buffer.address
        buffers = BatchMessage(message).buffers
        ends = buffers.sum(axis=1)
        head = len(buffers) if shape.head is None else shape.head
        assert (ends[:head] <= place.head_bytes).all()
        assert (buffers[head:, 0] >= place.head_bytes).all()
        assert not buffers[shape.empty, 1].any()
        # What lies in the head: all of the columns before the large ones.
        inside = [buffer for name in (KEY, DIGEST, *small, *texts) for buffer in buffers_of(batch.column(name))]
        assert all(buffer.address + buffer.size <= whole.address + start + place.head_bytes for buffer in inside)
    assert record.tokens == sum(place.tokens for place in record.batches)


def buffers_of(array: pa.Array) -> list[pa.Buffer]:
    return [buffer for buffer in array.buffers() if buffer is not None and buffer.size]


def test_the_head_of_large_columns_without_data_ends_with_the_body(tmp_path: Path) -> None:
    types = {"x": pa.list_(pa.null()), "y": pa.struct([("a", pa.null())]), "z": pa.struct([])}
    found = tuple(Column(name=name, kind=Kind.VALUE, arrow_type=str(dtype)) for name, dtype in types.items())
    schema = schema_of(found, types)
    assert batch_shape(schema, found).head is None
    rows = pa.RecordBatch.from_pylist([{KEY: "k", "x": [None], "y": {"a": None}, "z": {}}], schema.remove(1))
    record, _ = written(tmp_path / "s", schema, rows, BATCH_BODY_BYTES)
    assert record.batches[0].head_bytes == record.batches[0].body_bytes


def test_the_head_ends_where_the_second_large_column_has_data_when_the_first_has_none(tmp_path: Path) -> None:
    types = {"x": pa.list_(pa.null()), "y": pa.binary()}
    found = tuple(Column(name=name, kind=Kind.BYTES, arrow_type=str(dtype)) for name, dtype in types.items())
    schema = schema_of(found, types)
    # 0-2 the key, 3-4 the digest, 5-6 places of x, 7-8 places of y
    assert batch_shape(schema, found).head == 9
    rows = pa.RecordBatch.from_pylist([{KEY: "k", "x": [None], "y": b"abc"}], schema.remove(1))
    record, data = written(tmp_path / "s", schema, rows, BATCH_BODY_BYTES)
    place = record.batches[0]
    assert data[place.offset + place.metadata_bytes + place.head_bytes :].startswith(b"abc")


@pytest.mark.parametrize(("vocabulary", "width"), [(9, 2), (1 << 20, 4)])
def test_tokens_are_counted_by_their_bytes(vocabulary: int, width: int) -> None:
    found = (token_column("a", TokenEncoding(vocabulary=vocabulary)), Column(name="b", kind=Kind.BYTES, arrow_type="-"))
    types = {"a": token_type(vocabulary), "b": pa.binary()}
    shape = batch_shape(schema_of(found, types), found)
    assert (shape.tokens, shape.token_bytes) == (8, width)
    assert shape.head == 8
    assert shape.empty.tolist() == [0, 3, 5, 7]
    buffers = np.zeros((shape.buffers, 2), np.int64)
    buffers[8] = 64, 12
    assert shape.token_count(buffers) == 12 // width
    assert shape.head_bytes(buffers, 500) == 64
