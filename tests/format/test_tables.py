"""Shard tables and label tables: round trips, rows found, damage named."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import CorruptTableError
from toolkit.format.shard import BatchPlace, ShardRecord
from toolkit.format.tables import (
    encode_label_table,
    encode_schema_table,
    encode_shard_table,
    parse_label_table,
    parse_schema_table,
    parse_shard_tables,
    sha256,
)

COUNTS = st.integers(0, 2**31 - 1)
BATCHES = st.lists(st.builds(BatchPlace, COUNTS, COUNTS, COUNTS, st.integers(1, 1000)), max_size=4)
HASHES = st.binary(min_size=32, max_size=32)


@st.composite
def shard_records(draw: st.DrawFn) -> ShardRecord:
    batches = tuple(draw(BATCHES))
    rows = sum(batch.rows for batch in batches)
    return ShardRecord(
        path=draw(st.text(max_size=9)),
        rows=rows,
        file_bytes=draw(st.integers(0, 2**62)),
        sha256=draw(HASHES),
        nonbody_sha256=draw(HASHES),
        batches=batches,
        tokens=draw(COUNTS),
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(shard_records(), max_size=4), max_size=3))
def test_shard_tables(tables: list[list[ShardRecord]]) -> None:
    files = [(f"t{i}", encode_shard_table(records)) for i, records in enumerate(tables)]
    if not files:
        files = [("empty", encode_shard_table([]))]
    index = parse_shard_tables(files)
    records = [record for table in tables for record in table]
    batches = [(i, batch) for i, record in enumerate(records) for batch in record.batches]
    assert index.shards == len(records)
    assert index.rows == sum(record.rows for record in records)
    assert [index.shard_path(i) for i in range(index.shards)] == [record.path for record in records]
    assert index.shard_rows.tolist() == [record.rows for record in records]
    assert index.shard_bytes.tolist() == [record.file_bytes for record in records]
    assert index.sha256.to_pylist() == [record.sha256 for record in records]
    assert index.nonbody_sha256.to_pylist() == [record.nonbody_sha256 for record in records]
    assert index.batch_shard.tolist() == [shard for shard, _ in batches]
    assert index.batch_offset.tolist() == [batch.offset for _, batch in batches]
    assert index.batch_metadata_bytes.tolist() == [batch.metadata_bytes for _, batch in batches]
    assert index.batch_body_bytes.tolist() == [batch.body_bytes for _, batch in batches]
    assert index.shard_first_batch.tolist() == np.cumsum([0, *(len(r.batches) for r in records)]).tolist()
    if index.rows:
        rows = np.unique(np.linspace(0, index.rows - 1, 20).astype(np.int64))
        found, inner = index.locate(rows)
        starts = np.cumsum([0, *(batch.rows for _, batch in batches)])
        assert (starts[found] + inner == rows).all()
        assert (inner < np.diff(starts)[found]).all()


@given(st.lists(st.text(), max_size=20))
def test_label_tables(names: list[str]) -> None:
    data = encode_label_table(names)
    assert parse_label_table(data, "x") == tuple(names)
    assert data == encode_label_table(names)


def test_sha256_is_hexadecimal() -> None:
    assert sha256(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_tables_are_uncompressed_files_of_one_batch() -> None:
    for data in (encode_label_table(["a"]), encode_shard_table([]), encode_label_table([])):
        file = pa.ipc.open_file(pa.py_buffer(data))
        assert file.num_record_batches == 1
    assert b"a long enough name" * 9 in encode_label_table(["a long enough name" * 9])


def test_schema_tables() -> None:
    schema = pa.schema(
        [pa.field("__key__", pa.string(), nullable=False), ("x", pa.struct([("y", pa.list_(pa.decimal128(9, 2)))]))],
        metadata={"toolkit": "é"},
    )
    data = encode_schema_table(schema)
    assert parse_schema_table(data, "T").equals(schema, check_metadata=True)
    assert pa.ipc.open_file(pa.py_buffer(data)).num_record_batches == 0
    assert data == encode_schema_table(schema)


# --- damage: behind a hash that is checked first, and still never another error ---------------------------------

RECORD = ShardRecord("shards/a", 3, 9, bytes(32), bytes(range(32)), (BatchPlace(8, 16, 24, 3),))


@pytest.mark.parametrize("data", [encode_label_table(["cat", "dog", ""]), encode_shard_table([RECORD, RECORD])])
def test_every_cut_is_a_corrupt_table(data: bytes) -> None:
    for cut in range(len(data)):
        for parse in (lambda d: parse_label_table(d, "T"), lambda d: parse_shard_tables([("T", d)])):
            with pytest.raises(CorruptTableError, match="T"):
                parse(data[:cut])


def test_every_flip_parses_or_is_a_corrupt_table() -> None:
    data = encode_label_table(["cat", "dog", ""])
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        with contextlib.suppress(CorruptTableError):
            assert all(isinstance(name, str) for name in parse_label_table(bytes(flipped), "T"))


def test_a_damaged_schema_table_parses_or_is_a_corrupt_table() -> None:
    data = encode_schema_table(pa.schema([("__key__", pa.string()), ("x", pa.list_(pa.int8()))]))
    for cut in range(len(data)):
        with pytest.raises(CorruptTableError, match="T"):
            parse_schema_table(data[:cut], "T")
    for at in range(len(data)):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        with contextlib.suppress(CorruptTableError):
            assert isinstance(parse_schema_table(bytes(flipped), "T"), pa.Schema)


def test_a_table_of_another_kind_is_refused() -> None:
    with pytest.raises(CorruptTableError, match="has not the columns of format 1"):
        parse_label_table(encode_shard_table([RECORD]), "T")
    with pytest.raises(CorruptTableError, match="has not the columns of format 1"):
        parse_shard_tables([("T", encode_label_table(["a"]))])


@pytest.mark.parametrize(
    "field",
    [
        pa.field("column", pa.int8()),
        pa.field("a", pa.struct([("column", pa.int8())])),
        pa.field("a", pa.timestamp("s", "column")),
    ],
)
def test_a_text_of_a_schema_that_is_not_utf8_is_a_corrupt_table(field: pa.Field) -> None:
    data = encode_schema_table(pa.schema([field])).replace(b"column", b"col\xffmn")
    with pytest.raises(CorruptTableError, match="utf-8"):
        parse_schema_table(data, "T")
