"""Shard tables and label tables: round trips, rows found, damage named."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from itertools import accumulate

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
    parse_shard_table,
    sha256,
)

COUNTS = st.integers(0, 2**31 - 1)
HASHES = st.binary(min_size=32, max_size=32)
RECORD = ShardRecord("shards/a", 3, 9, bytes(32), bytes(range(32)), (BatchPlace(8, 16, 8, 24, 3, 5, bytes(32)),))
PLACES = st.builds(BatchPlace, COUNTS, COUNTS, COUNTS, COUNTS, st.integers(0, 1000), COUNTS, HASHES)


@st.composite
def shard_records(draw: st.DrawFn) -> ShardRecord:
    batches = tuple(draw(st.lists(PLACES, max_size=4)))
    return ShardRecord(
        path=draw(st.text(max_size=9)),
        rows=sum(batch.rows for batch in batches),
        file_bytes=draw(st.integers(0, 2**62)),
        sha256=draw(HASHES),
        nonbody_sha256=draw(HASHES),
        batches=batches,
    )


@settings(max_examples=60, deadline=None)
@given(st.lists(shard_records(), max_size=5))
def test_shard_tables(records: list[ShardRecord]) -> None:
    data = encode_shard_table(records)
    assert data == encode_shard_table(records)
    table = parse_shard_table(data, "T")
    batches = [(shard, batch) for shard, record in enumerate(records) for batch in record.batches]
    assert (table.shards, table.batches) == (len(records), len(batches))
    assert [table.shard_path(shard) for shard in range(table.shards)] == [record.path for record in records]
    assert table.paths.to_pylist() == [record.path for record in records]
    assert table.shard_rows.tolist() == [record.rows for record in records]
    assert table.shard_bytes.tolist() == [record.file_bytes for record in records]
    assert table.shard_tokens.tolist() == [record.tokens for record in records]
    assert table.sha256.to_pylist() == [record.sha256 for record in records]
    assert table.nonbody_sha256.to_pylist() == [record.nonbody_sha256 for record in records]
    assert table.shard_first_batch.tolist() == list(accumulate((len(r.batches) for r in records), initial=0))
    assert table.batch_shard.tolist() == [shard for shard, _ in batches]
    for field in ("offset", "metadata_bytes", "head_bytes", "body_bytes", "rows", "tokens"):
        assert getattr(table, f"batch_{field}").tolist() == [getattr(batch, field) for _, batch in batches]
    assert table.metadata_sha256.to_pylist() == [batch.metadata_sha256 for _, batch in batches]
    assert table.batch_start.tolist() == list(accumulate((batch.rows for _, batch in batches), initial=0))
    assert table.batch_token_start.tolist() == list(accumulate((batch.tokens for _, batch in batches), initial=0))


def grown(dtype: pa.DataType, array: pa.Array) -> pa.Array:
    """A list of structs with another field behind those of each struct."""
    items = array.values
    more = pa.field("more", pa.list_(pa.string()))
    fields = [*items.type, more]
    values = [*(items.field(i) for i in range(items.type.num_fields)), pa.nulls(len(items), more.type)]
    struct = pa.StructArray.from_arrays(values, fields=fields)
    item = pa.field("item", pa.struct(fields), nullable=False)
    return pa.ListArray.from_arrays(array.offsets, struct, pa.list_(item))


def test_further_columns_and_fields_are_ignored() -> None:
    """Of whatever type, also with values that are missing."""
    data = encode_shard_table([RECORD, RECORD])
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    lists = table.column("batches").chunk(0)
    more = table.set_column(
        6, pa.field("batches", grown(lists.type, lists).type, nullable=False), grown(lists.type, lists)
    )
    more = more.append_column("note", pa.array(["a", None])).append_column("odd", pa.array([[1], None]))
    again, known = parse_shard_table(written(more), "T"), parse_shard_table(data, "T")
    assert vars(again).keys() == vars(known).keys()
    for name, values in vars(known).items():
        other = getattr(again, name)
        assert other.to_pylist() == values.to_pylist() if isinstance(values, pa.Array) else (other == values).all()
    labels = pa.ipc.open_file(pa.py_buffer(encode_label_table(["a", "b"]))).read_all()
    assert parse_label_table(written(labels.append_column("wordnet", pa.array([None, "n02"]))), "T") == ("a", "b")


def written(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.select([1, 0, 2, 3, 4, 5, 6]),
        lambda table: table.drop_columns(["tokens"]),
        lambda table: table.add_column(0, "more", pa.array([1, 2])),
        lambda table: table.cast(table.schema.set(1, pa.field("rows", pa.int32(), nullable=False))),
        lambda table: table.set_column(
            6,
            pa.field("batches", pa.list_(pa.field("item", pa.struct([("offset", pa.int64())]), nullable=False)), False),
            pa.array([[], []], pa.list_(pa.field("item", pa.struct([("offset", pa.int64())]), nullable=False))),
        ),
    ],
)
def test_what_is_known_has_its_place_and_type(change: Callable[[pa.Table], pa.Table]) -> None:
    table = pa.ipc.open_file(pa.py_buffer(encode_shard_table([RECORD, RECORD]))).read_all()
    with pytest.raises(CorruptTableError, match="has not the columns of format 1"):
        parse_shard_table(written(change(table)), "T")


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


@pytest.mark.parametrize("data", [encode_label_table(["cat", "dog", ""]), encode_shard_table([RECORD, RECORD])])
def test_every_cut_is_a_corrupt_table(data: bytes) -> None:
    for cut in range(len(data)):
        for parse in (lambda d: parse_label_table(d, "T"), lambda d: parse_shard_table(d, "T")):
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
        parse_shard_table(encode_label_table(["a"]), "T")


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
