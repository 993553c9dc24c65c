"""Values of any type, read out of a shard: what was written, for any rows, and an error for what can't be trusted."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from bodies import body_over
from format.arrow_values import TYPES, batches, make_array, pure_values
from format.shard_indexes import index_of
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit._native.shards.body import READ_CRC, READ_RANGE, Body
from toolkit.format.layout import batch_shape, column_layouts
from toolkit.format.reader import ShardReader
from toolkit.format.schema import DIGEST
from toolkit.format.shard import BATCH_BODY_BYTES, ShardWriter
from toolkit.format.values import DamagedValueError, python_value, read_rows
from toolkit.storage.background import BackgroundFile
from toolkit.storage.local import LocalStore


def write(
    folder: Path, rows: pa.RecordBatch, limit: int = BATCH_BODY_BYTES
) -> tuple[pa.Schema, list[tuple[int, Body]]]:
    """Return the shard's schema, and the first row and body of each record batch."""
    schema = rows.schema.insert(1, pa.field(DIGEST, pa.binary(16), nullable=False))
    writer = ShardWriter(BackgroundFile(str(folder / "shard")), schema, batch_body_bytes=limit)
    writer.write(rows)
    index = index_of([replace(writer.close(), path="shard")])
    reader = ShardReader(LocalStore(str(folder)), index, 0, batch_shape(schema, ()))
    return schema, [(index.batch(i).start, reader.body(i)) for i in range(index.batches)]


def keyed(array: pa.Array) -> pa.RecordBatch:
    fields = pa.schema([pa.field("__key__", pa.string(), nullable=False), ("x", array.type)])
    return pa.RecordBatch.from_arrays([pa.array([str(i) for i in range(len(array))]), array], schema=fields)


@settings(max_examples=200, deadline=None)
@given(batches(), st.sampled_from([300, BATCH_BODY_BYTES]), st.data())
def test_any_rows_of_any_column(
    tmp_path_factory: pytest.TempPathFactory, rows: pa.RecordBatch, limit: int, data: st.DataObject
) -> None:
    schema, bodies = write(tmp_path_factory.mktemp("s"), rows, limit)
    layouts = column_layouts(schema)
    assert bool(bodies) == bool(rows.num_rows)
    ends = [first for first, _ in bodies[1:]] + [rows.num_rows][: len(bodies)]
    for (first, body), end in zip(bodies, ends, strict=True):
        start = data.draw(st.integers(0, end - first))
        count = data.draw(st.integers(0, end - first - start))
        for name in rows.schema.names:
            for begin, number in ((start, count), (0, end - first)):
                found = read_rows(body, layouts[name], begin, number)
                found.validate(full=True)
                assert found.type == rows.schema.field(name).type
                assert pure_values(found) == pure_values(rows[name].slice(first + begin, number))


@settings(max_examples=60, deadline=None)
@given(TYPES, st.integers(0, 99))
def test_each_row_of_many(tmp_path_factory: pytest.TempPathFactory, dtype: pa.DataType, seed: int) -> None:
    array = make_array(dtype, 20, random.Random(seed), 0.3)
    schema, [(_, body)] = write(tmp_path_factory.mktemp("s"), keyed(array))
    layout = column_layouts(schema)["x"]
    assert [pure_values(read_rows(body, layout, row, 1)) for row in range(20)] == [[v] for v in pure_values(array)]


LISTS = pa.array([[{"a": "x" * 9000}], None, [{"a": "y" * 9000}, None, {"a": None}], []])


def test_a_flip_is_an_error_for_the_rows_that_touch_it(tmp_path: Path) -> None:
    schema, [(_, body)] = write(tmp_path, keyed(LISTS))
    layout = column_layouts(schema)["x"]
    data = bytearray((tmp_path / "shard").read_bytes())
    data[data.index(b"y" * 9000) + 8999] ^= 1
    (tmp_path / "shard").write_bytes(data)  # in place: the map sees it
    with pytest.raises(DamagedValueError) as caught:
        read_rows(body, layout, 2, 1)
    assert caught.value.status == READ_CRC
    assert read_rows(body, layout, 0, 1).equals(LISTS.slice(0, 1))


@pytest.mark.parametrize("offsets", [[0, 5, 2], [-1, 0, 1], [0, 1, 9]])
@pytest.mark.parametrize("dtype", [pa.list_(pa.int64()), pa.string()])
def test_offsets_that_lie_are_an_error(tmp_path: Path, offsets: list[int], dtype: pa.DataType) -> None:
    """Behind the chunk sums, which a writer's own mistake would pass."""
    data = np.array(offsets, "<i4").tobytes().ljust(16, b"\0") + b"abcdefgh"
    buffers = [(0, 0), (0, 12), *([(0, 0)] if pa.types.is_list(dtype) else []), (16, 8)]
    body = body_over(tmp_path / "s", data, buffers, rows=2)
    with pytest.raises(DamagedValueError) as caught:
        read_rows(body, column_layouts(pa.schema([("x", dtype)]))["x"], 0, 2)
    assert caught.value.status == READ_RANGE


@pytest.mark.parametrize(
    ("dtype", "stored", "expected"),
    [
        (pa.timestamp("ns"), 1_700_000_000_123_456_789, np.datetime64(1_700_000_000_123_456_789, "ns")),
        (pa.timestamp("ns", "Europe/Berlin"), 5, np.datetime64(5, "ns")),
        (pa.time64("ns"), 123_456_789, np.timedelta64(123_456_789, "ns")),
        (pa.duration("ns"), 1, np.timedelta64(1, "ns")),
        (pa.timestamp("us"), 2**62, np.datetime64(2**62, "us")),
        (pa.duration("s"), 2**60, np.timedelta64(2**60, "s")),
        (pa.date32(), 2**31 - 1, np.datetime64(2**31 - 1, "D")),
    ],
)
def test_times_beyond_pythons_own_are_exact(dtype: pa.DataType, stored: int, expected: object) -> None:
    width = pa.int32() if dtype.bit_width == 32 else pa.int64()
    array = pa.array([stored], width).view(dtype)
    nested = pa.StructArray.from_arrays([pa.array([[0]], pa.list_(pa.int8())), array], names=["l", "t"])
    for value in (python_value(array[0]), python_value(nested[0])["t"], python_value(pa.array([[array[0]]])[0])[0]):
        assert type(value) is type(expected)
        assert value == expected
    assert python_value(pa.nulls(1, dtype)[0]) is None
