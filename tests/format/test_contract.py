"""Manifests and tables that a stranger wrote, every hash and pin mended: refused when they are read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from crafted import Batch, Crafted, Form, edited_table, table_bytes, write_manifest
from format.pure_arrow import Damaged
from format.pure_reader import PureReader

import toolkit
from toolkit.checks.gc import gc
from toolkit.checks.inspect import inspect
from toolkit.checks.labels import inspect_labels
from toolkit.checks.verify import verify
from toolkit.errors import CorruptShardError, CorruptTableError, IntegrityError, StorageError
from toolkit.format.schema import Column, TokenEncoding, stored_order, token_column, token_type

LARGE = [-1, -(2**63), 2**63 - 1, 2**62, 2**48 + 1]


def refused(crafted: Crafted, root: Path, says: str | None = None, *, by_all: bool = True) -> None:
    """Every way of opening it gives the same kind of error. `by_all`: docs/format.md says that every reader does so."""
    crafted.write(root)
    with pytest.raises(CorruptTableError, match=says):
        toolkit.open(root, split="train")
    with pytest.raises(CorruptTableError, match=says):
        verify(root)
    with pytest.raises(CorruptTableError, match=says):
        inspect(str(root))
    if by_all:
        with pytest.raises(Damaged):
            PureReader(root)


def refused_with_its_table(crafted: Crafted, root: Path, says: str | None = None) -> None:
    """The dataset opens; whoever needs a shard, or a row, that the table of `train` names gets the same kind of error.

    The other split is as it was.
    """
    crafted.write(root)
    ds = toolkit.open(root, split="train")
    for read in (
        lambda: ds[0],
        lambda: ds[len(ds) - 1],
        ds.keys,
        lambda: ds.files,
        lambda: next(iter(ds.loader(batch_size=2))),
        lambda: verify(root),
        lambda: inspect(str(root)),
        lambda: gc(str(root)),
    ):
        with pytest.raises(CorruptTableError, match=says):
            read()
    with pytest.raises(Damaged):
        PureReader(root).row("train", 0)
    assert toolkit.open(root, split="val")[0]["image"] == PureReader(root).row("val", 0)["image"]["bytes"]


@pytest.fixture
def crafted(dataset: Path) -> Crafted:
    return Crafted.of(dataset)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "crafted"


# --- the manifest -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*LARGE, 2**70, 0, 5])
@pytest.mark.parametrize(
    "place",
    [
        ("splits", "train", "rows"),
        ("splits", "train", "bytes"),
        ("splits", "train", "tables", 0, "rows"),
        ("splits", "train", "tables", 0, "bytes"),
        ("splits", "train", "labels", "label", "missing"),
        ("splits", "train", "labels", "label", "counts", 0),
    ],
)
def test_numbers_of_the_manifest(crafted: Crafted, root: Path, place: tuple[str | int, ...], value: int) -> None:
    old: Any = crafted.manifest
    for step in place:
        old = old[step]
    if value == old:
        value = 7
    crafted.say(*place, value=value)
    refused(crafted, root)


@pytest.mark.parametrize("key", ["shards", "batches", "tokens"])
@pytest.mark.parametrize("value", [*LARGE, 2**70])
def test_numbers_of_a_table_that_can_not_be(crafted: Crafted, root: Path, key: str, value: int) -> None:
    crafted.say("splits", "train", "tables", 0, key, value=value)
    refused(crafted, root)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("shards", 1, r"it has \d+ shards, the manifest says 1"),
        ("shards", 4096, r"it has \d+ shards, the manifest says 4096"),
        ("batches", 0, r"it has \d+ record batches, the manifest says 0"),
        ("batches", 2**48, r"it has \d+ record batches, the manifest says 281474976710656"),
        ("tokens", 1, r"it has 0 tokens, the manifest says 1"),
    ],
)
def test_sums_of_another_table(crafted: Crafted, root: Path, key: str, value: int, says: str) -> None:
    crafted.say("splits", "train", "tables", 0, key, value=value)
    refused_with_its_table(crafted, root, says)


@pytest.mark.parametrize("key", ["rows", "bytes"])
def test_rows_and_bytes_of_another_table(crafted: Crafted, root: Path, key: str) -> None:
    """The manifest agrees with itself, and not with the table."""
    crafted.splits["train"][0].ref[key] = 13
    if key == "rows":
        crafted.say("splits", "train", "labels", "label", value={"counts": [6, 6], "missing": 1})
    refused_with_its_table(crafted, root, rf"it has \d+ {key}, the manifest says 13")


def test_a_table_of_more_shards_than_there_may_be(crafted: Crafted, root: Path) -> None:
    crafted.say("splits", "train", "tables", 0, "shards", value=4097)
    refused(crafted, root, "a table of 4097 shards, and 4096 are the most")


@pytest.mark.parametrize("digest", ["../../outside", "/etc/hostname", "A" * 64, "0" * 63, "0" * 64 + "\n", ""])
@pytest.mark.parametrize("place", [("schema",), ("splits", "train", "tables", 0, "sha256"), ("parent",)])
def test_hashes_of_the_manifest(crafted: Crafted, root: Path, place: tuple[str | int, ...], digest: str) -> None:
    crafted.say(*place, value=digest)
    refused(crafted, root, "isn't a manifest")


def test_a_table_s_name_opens_no_other_file(crafted: Crafted, root: Path, tmp_path: Path) -> None:
    """The file named was opened before, whatever it was."""
    os.mkfifo(tmp_path / "outside.arrow")
    column = next(i for i, one in enumerate(crafted.manifest["columns"]) if one["kind"] == "label")
    crafted.say("columns", column, "label_table", value="../../outside")
    refused(crafted, root, "isn't a manifest")


@pytest.mark.parametrize("counts", [[], [6], [6, 6, 0], [12]])
def test_counts_of_other_classes(crafted: Crafted, root: Path, counts: list[int]) -> None:
    crafted.say("splits", "train", "labels", "label", "counts", value=counts)
    crafted.say("splits", "train", "labels", "label", "missing", value=12 - sum(counts))
    refused(crafted, root, r"counts .* classes")
    with pytest.raises(CorruptTableError, match=r"counts .* classes"):
        inspect_labels(str(root))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("name", "__key__"),
        ("name", "label"),
        ("name", "a\0b"),
        ("name", ""),
        ("kind", "text"),
        ("kind", "label"),
        ("kind", "tokens"),
        ("encoding", "raw"),
        ("encoding", "png"),
        ("encoding", None),
        ("tokens", {"vocabulary": 5}),
        ("tokens", {"vocabulary": 0}),
        ("label_table", "0" * 64),
    ],
)
def test_columns_of_the_manifest(crafted: Crafted, root: Path, key: str, value: object) -> None:
    crafted.say("columns", 0, key, value=value)
    refused(crafted, root, by_all=key in ("name", "kind", "encoding"))


def test_two_columns_of_tokens(root: Path, tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    """What tables count documents by is one number; with one of them of another kind it is a good dataset."""
    encoding = TokenEncoding(vocabulary=9)
    ids = pa.array([[1], [2, 3]], token_type(9))
    rows = pa.RecordBatch.from_arrays([pa.array(["a", "b"]), ids, ids], ["__key__", "x", "y"])
    commit_rows(
        tmp_path / "good", {"train": [[rows]]}, columns=(token_column("x", encoding), token_column("y", encoding))
    )
    crafted = Crafted.of(tmp_path / "good")
    refused(crafted, root, "the columns 'x' and 'y' are both of kind tokens, and a dataset has one at most")
    with pytest.raises(Damaged, match="2 columns of kind tokens"):
        PureReader(root)
    crafted.manifest["columns"][1] |= {"kind": "value"}
    del crafted.manifest["columns"][1]["tokens"]
    crafted.write(root)
    assert [one["tokens"].tolist() for one in toolkit.open(root).tokens(seq_len=3, batch_size=1)] == [[[1, 2, 3]]]
    assert [one["y"] for one in PureReader(root).samples("train")] == [[1], [2, 3]]


def test_deep_json(crafted: Crafted, root: Path) -> None:
    crafted.write(root)
    data = (root / "manifest.json").read_bytes()
    start = data.index(b'"options": {') + len(b'"options": {')
    write_manifest(root, data[:start] + b'"deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"," + data[start:])
    with pytest.raises(CorruptTableError, match="isn't a manifest"):
        toolkit.open(root, split="train")


# --- the shard tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*LARGE, 1, 2**31, 2**32 + 8])
@pytest.mark.parametrize("key", ["offset", "head_bytes", "body_bytes", "rows", "tokens"])
def test_numbers_of_a_record_batch(crafted: Crafted, root: Path, key: str, value: int) -> None:
    batch = crafted.batch("train", shard=1)
    crafted.batch("train", shard=1).line[key] = value if key != "rows" or value != batch.rows else 3
    crafted.write(root)
    try:
        ds = toolkit.open(root, split="train")
    except CorruptTableError:
        assert key in ("rows", "tokens"), "of a record batch the manifest knows only what it adds up"
        return
    try:
        assert ds[0]["image"]
    except CorruptTableError:
        return
    # It can be so, for all that the table says: the shard itself says otherwise.
    with pytest.raises(CorruptShardError, match="record batch 0"):
        [ds[row] for row in range(len(ds))]


def test_a_message_of_another_hash(crafted: Crafted, root: Path) -> None:
    crafted.batch("train", shard=1).line["metadata_sha256"] = bytes(32)
    crafted.write(root)
    ds = toolkit.open(root, split="train")
    start, rows = ds.index.batch(ds.index.shard(1).batches[0]).start, ds.index.batch(ds.index.shard(1).batches[0]).rows
    with pytest.raises(CorruptShardError, match="the metadata of record batch 0 has changed since it was packed"):
        ds[start]
    others = [row for row in range(len(ds)) if not start <= row < start + rows]
    assert len([ds[row]["image"] for row in others]) == len(ds) - rows


@pytest.mark.parametrize("by", [-8, 8, 16_384])
def test_heads_that_end_elsewhere(crafted: Crafted, root: Path, by: int) -> None:
    batch = crafted.batch("train")
    head = crafted.shard("train").encoded(Form.of(crafted.schema, crafted.manifest))[1]["batches"][0]["head_bytes"]
    batch.line["head_bytes"] = min(head + by, len(batch.body))
    crafted.write(root)
    with pytest.raises(CorruptShardError, match=f"a head of {head} bytes, its shard table says"):
        toolkit.open(root, split="train")[0]


def test_tokens_without_rows(crafted: Crafted, root: Path) -> None:
    """They would be of no document."""
    empty = Batch.of(pa.RecordBatch.from_pylist([], crafted.schema))
    empty.body += bytes(64)
    empty.line["tokens"] = 5
    crafted.shard("train").batches.insert(0, empty)
    refused_with_its_table(crafted, root, "a record batch without rows has tokens")


def test_tokens_that_a_message_does_not_hold(crafted: Crafted, root: Path) -> None:
    crafted.batch("train").line["tokens"] = 5
    crafted.write(root)
    with pytest.raises(CorruptShardError, match="0 tokens, its shard table says 5"):
        toolkit.open(root, split="train")[0]
    for number in (0, 7):
        crafted.shard("train").line["tokens"] = number
        crafted.splits["train"][0].ref["tokens"] = 5
        refused_with_its_table(crafted, root, rf"{number} tokens, its record batches 5")


@pytest.mark.parametrize("value", [-1, 0, 7, 2**31 - 1, -(2**31)])
def test_metadata_bytes_of_a_record_batch(crafted: Crafted, root: Path, value: int) -> None:
    crafted.batch("train").line["metadata_bytes"] = value
    refused_with_its_table(crafted, root, "record batch lies")


@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize("key", ["rows", "bytes", "tokens"])
def test_numbers_of_a_shard(crafted: Crafted, root: Path, key: str, value: int) -> None:
    crafted.shard("train").line[key] = value
    for what in ("rows", "bytes", "tokens"):  # or the sums of the manifest would say it first
        crafted.splits["train"][0].ref[what] = {"rows": 12, "bytes": 400_000, "tokens": 0}[what]
    refused_with_its_table(crafted, root)


@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize("key", ["rows", "bytes", "tokens"])
def test_numbers_of_a_shard_and_their_sums(crafted: Crafted, root: Path, key: str, value: int) -> None:
    crafted.shard("train").line[key] = value
    if (key, value) == ("bytes", -1):
        refused_with_its_table(crafted, root, "its bytes can't be")
    elif (key, value) == ("bytes", 2**48 + 1):  # it could be so, for all that tables say
        crafted.write(root)
        with pytest.raises(CorruptShardError, match=r"it has \d+ bytes, packed were 281474976710657"):
            toolkit.open(root, split="train")[0]
    else:
        refused(crafted, root)


def test_sums_that_overflow(crafted: Crafted, root: Path) -> None:
    """Each number is within its range, all together are beyond an int64; the manifest has what is left of them."""
    table = crafted.splits["train"][0]
    shard = table.shards[0]
    rows, batches = sum(batch.rows for batch in shard.batches), len(shard.batches)
    shard.line = {"bytes": 2**60}
    table.shards = [shard] * 16
    table.ref = {"bytes": 0, "batches": batches * 16}
    crafted.say("splits", "train", "labels", "label", value={"counts": [rows * 16, 0], "missing": 0})
    refused_with_its_table(crafted, root, "its shards have more than 1152921504606846976 bytes")


def test_record_batches_that_lie_over_each_other(crafted: Crafted, root: Path) -> None:
    second = crafted.shard("train").batches[1]
    second.line["offset"] = crafted.shard("train").encoded()[1]["batches"][0]["offset"]
    refused_with_its_table(crafted, root, "over each other")


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "shards/../../outside", "..", "", "a\0b", "shards/.."])
def test_paths_that_leave_the_dataset(crafted: Crafted, root: Path, path: str) -> None:
    crafted.shard("train").line["path"] = path
    refused_with_its_table(crafted, root, "leaves the dataset folder")


def test_dots_within_a_name_are_no_way_out(crafted: Crafted, root: Path) -> None:
    crafted.shard("train").path = "shards/a..b.arrow"
    crafted.write(root)
    assert toolkit.open(root, split="train")[0]["image"]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop_columns(["tokens"]),
        lambda table: table.set_column(1, "rows", table["rows"].cast(pa.int32())),
        lambda table: table.set_column(1, table.schema.field(1), pa.array([None] * len(table), pa.int64())),
        lambda table: table.set_column(0, table.schema.field(0), pa.array([None] * len(table), pa.string())),
        lambda table: table.set_column(6, table.schema.field(6), pa.array([None] * len(table), table.schema.types[6])),
        lambda table: table.set_column(
            6, table.schema.field(6), pa.array([[None]] * len(table), table.schema.types[6])
        ),
        lambda table: table.slice(1),
        lambda table: table.slice(0, 0),
        lambda table: with_fields(table, lambda fields: fields | {"metadata_sha256": pa.nulls(0, pa.binary(32))}),
        lambda table: with_fields(table, lambda fields: fields | {"offset": fields["offset"].cast(pa.int32())}),
        lambda table: with_fields(table, lambda fields: dict(list(fields.items())[:-1])),
        lambda table: with_fields(table, lambda fields: dict(list(fields.items())[::-1])),
    ],
)
def test_shard_tables_of_another_form(crafted: Crafted, root: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    crafted.splits["train"][0].edit = edited_table(change)
    refused_with_its_table(crafted, root)


def with_fields(table: pa.Table, change: Callable[[dict[str, pa.Array]], dict[str, pa.Array]]) -> pa.Table:
    """Change the arrays of the fields of record batches; one that has become too short is filled with nulls."""
    at = table.schema.names.index("batches")
    lists, field = table.column(at).combine_chunks(), table.schema.field(at)
    fields = dict(zip((one.name for one in lists.values.type), lists.values.flatten(), strict=True))
    arrays = {name: array or pa.nulls(len(lists.values), array.type) for name, array in change(fields).items()}
    items = pa.StructArray.from_arrays(list(arrays.values()), list(arrays))
    dtype = pa.list_(pa.field("item", items.type, nullable=False))
    made = pa.ListArray.from_arrays(lists.offsets, items, type=dtype)
    return table.set_column(at, pa.field("batches", dtype, nullable=field.nullable), made)


def test_the_edit_of_fields_is_good_by_itself(crafted: Crafted, root: Path) -> None:
    crafted.splits["train"][0].edit = edited_table(lambda table: with_fields(table, lambda fields: fields))
    crafted.write(root)
    assert verify(root, full=True).findings == ()


def test_further_columns_of_a_shard_table_are_ignored(crafted: Crafted, root: Path, dataset: Path) -> None:
    crafted.splits["train"][0].edit = edited_table(
        lambda table: table.append_column("more", pa.array([None, *(["x"] * (len(table) - 1))]))
    )
    crafted.write(root)
    assert list(toolkit.open(root, split="train")) == list(toolkit.open(dataset, split="train"))
    assert verify(root, full=True).findings == ()


def compressed(data: bytes) -> bytes:
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def twice(data: bytes) -> bytes:
    table = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("edit", [compressed, twice, lambda data: b"", lambda data: data[:-5], lambda data: data[8:]])
@pytest.mark.parametrize("kind", ["shards", "labels"])
def test_table_files_of_another_form(crafted: Crafted, root: Path, edit: Callable[[bytes], bytes], kind: str) -> None:
    """Compressed, a table of a few bytes could take all memory."""
    if kind == "shards":
        crafted.splits["train"][0].edit = edit
        refused_with_its_table(crafted, root, "can't be read")
    else:
        column = next(one for one in crafted.manifest["columns"] if one["kind"] == "label")
        crafted.edits[column["label_table"]] = edit
        refused(crafted, root, "can't be read")


@pytest.mark.parametrize("name", [b"nonbody_sha256", b"head_bytes", b"path"])
def test_a_name_in_a_table_that_is_not_utf8(crafted: Crafted, root: Path, name: bytes) -> None:
    crafted.splits["train"][0].edit = lambda data: data.replace(name, b"\x90" + name[1:])
    refused_with_its_table(crafted, root, "can't be read: 'utf-8' codec")


# --- the schema table -------------------------------------------------------------------------------------------


def deep(levels: int) -> pa.DataType:
    dtype: pa.DataType = pa.int8()
    for _ in range(levels):
        dtype = pa.list_(dtype)
    return dtype


@pytest.mark.parametrize(
    "dtype",
    [
        pa.map_(pa.string(), pa.int8()),
        pa.dictionary(pa.int8(), pa.string()),
        pa.dense_union([pa.field("a", pa.int8())]),
        pa.run_end_encoded(pa.int32(), pa.int8()),
        pa.string_view(),
        pa.list_view(pa.int8()),
        pa.uuid(),
        pa.decimal128(10, 1000),
        pa.struct([pa.field("a", pa.int8()), pa.field("a", pa.int8())]),
        deep(64),
        deep(100),
    ],
)
def test_types_without_a_layout(crafted: Crafted, root: Path, dtype: pa.DataType) -> None:
    crafted.manifest["columns"][0] = {"name": "image", "kind": "value", "arrow_type": str(dtype)}
    crafted.set_schema(in_order(crafted, {"image": pa.field("image", dtype)}))
    # What pyarrow alone knows of: extensions, which Arrow's files have in their metadata, and numbers that can't be.
    refused(crafted, root, "layout for", by_all=dtype not in (pa.uuid(), pa.decimal128(10, 1000)))


def in_order(crafted: Crafted, changes: dict[str, pa.Field]) -> pa.Schema:
    """The schema with other fields, in the order that shards have."""
    columns = msgspec.convert(crafted.manifest["columns"], tuple[Column, ...])
    fields = {**{field.name: field for field in crafted.schema}, **changes}
    fixed, texts, large = stored_order(columns, {column.name: fields[column.name].type for column in columns})
    derived = [name for name in crafted.schema.names[2:] if name.startswith("__")]
    return pa.schema([fields[name] for name in ("__key__", "__digest__", *fixed, *texts, *derived, *large)])


@pytest.mark.parametrize("dtype", [pa.int32(), pa.string(), pa.int64(), pa.struct([("bytes", pa.binary())])])
def test_types_that_are_not_of_their_kind(crafted: Crafted, root: Path, dtype: pa.DataType) -> None:
    crafted.set_schema(in_order(crafted, {"image": pa.field("image", dtype)}))
    refused(crafted, root, "of kind image, and its type")


def test_columns_in_another_order_than_shards_have(crafted: Crafted, root: Path) -> None:
    """Also two derived columns, or a derived one where another goes; the pins are right, the heads would be wrong."""
    names = crafted.schema.names
    assert names[2] == "label"
    assert names[-1] == "image"
    derived = names[3:-1]
    for order in (
        ["__digest__", "__key__", *names[2:]],
        [*names[:2], "image", "label", *derived],
        [*names[:2], *derived, "label", "image"],
        [*names[:2], "label", "image", *derived],
        [*names[:3], *derived[1:], derived[0], "image"],
    ):
        crafted.set_schema(pa.schema([crafted.schema.field(name) for name in order]))
        refused(crafted, root, "the columns of the schema table have another order than shards")


def test_derived_columns_that_are_not_those_of_the_manifest(crafted: Crafted, root: Path) -> None:
    whole, schema = list(crafted.manifest["derived"]), crafted.schema
    assert [one["what"] for one in whole] == ["height", "width", "orientation", "format"]
    at = schema.get_field_index("__image.height__")
    crafted.set_schema(schema.set(at, pa.field("__image.height__", pa.int64())))
    refused(crafted, root, r"the derived column '__image.height__' is int64, not int32")
    crafted.set_schema(schema.remove(at))
    refused(crafted, root, r"its columns .*__image.height__.* are not those of the schema table")
    crafted.set_schema(schema)
    crafted.manifest["derived"] = whole[1:]
    refused(crafted, root, "are not those of the schema table")
    crafted.manifest["derived"] = [{**one, "of": "label"} if one is whole[0] else one for one in whole]
    refused(crafted, root, "are not those of the schema table")
    crafted.manifest["derived"] = [{**one, "of": "sound"} if one is whole[0] else one for one in whole]
    refused(crafted, root, "the derived column '__sound.height__' is of no column")


@pytest.mark.parametrize(
    "field",
    [
        pa.field("__key__", pa.string()),
        pa.field("__key__", pa.binary(), nullable=False),
        pa.field("key", pa.string(), nullable=False),
    ],
)
def test_the_format_s_own_columns(crafted: Crafted, root: Path, field: pa.Field) -> None:
    crafted.set_schema(crafted.schema.set(0, field))
    refused(crafted, root)


# --- files that are none ------------------------------------------------------------------------------------------

PLACES = ["shards", "tables", "manifest.json", "manifests"]


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_file_in_a_file_s_place(dataset: Path, place: str, kind: str) -> None:
    """A pipe was waited for without end. Run as a program, which can be stopped."""
    pin = toolkit.open(dataset, split="train").pin
    paths = [dataset / place] if place == "manifest.json" else sorted((dataset / place).iterdir())
    for path in paths:
        path.unlink()
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "folder":
            path.mkdir()
        else:
            path.symlink_to("/dev/zero")
    reference = f"{dataset}@sha256:{pin}" if place == "manifests" else str(dataset)
    for command in (["verify", reference], ["head", "--split", "train", reference]):
        ran = subprocess.run(
            [sys.executable, "-m", "toolkit.cli.main", *command], capture_output=True, text=True, timeout=60
        )
        assert ran.returncode in (2, 4), ran.stderr
        assert "unexpected" not in ran.stderr


def test_a_manifest_with_a_hole_of_a_terabyte(dataset: Path) -> None:
    pin = toolkit.open(dataset, split="train").pin
    os.truncate(dataset / "manifests" / f"{pin}.json", 1 << 40)
    with pytest.raises((CorruptTableError, StorageError)):
        toolkit.open(f"{dataset}@sha256:{pin}", split="train")


# --- messages -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [-1, 0, 1, 2**62, -(2**63)])
def test_rows_of_a_message(crafted: Crafted, root: Path, rows: int) -> None:
    batch = crafted.batch("train")
    batch.rows = batch.rows + 1 if rows == batch.rows else rows
    batch.line["rows"] = crafted.batch("train").nodes[0][0]
    crafted.write(root)
    with pytest.raises(CorruptShardError, match="rows, its shard table says"):
        toolkit.open(root, split="train")[0]
    assert verify(root).findings == ()
    assert "the bytes of every sample" in verify(root).not_checked[0]


@pytest.mark.parametrize("place", [[-8, 8], [1 << 62, 1 << 62], [0, -1], [4, 4], [0, 1 << 40]])
def test_places_of_buffers(crafted: Crafted, root: Path, place: list[int]) -> None:
    crafted.batch("train").buffers[1] = place
    crafted.write(root)
    with pytest.raises(IntegrityError):
        toolkit.open(root, split="train")[0]


def test_too_few_and_too_many_buffers(crafted: Crafted, root: Path) -> None:
    buffers = crafted.batch("train").buffers
    for changed in (buffers[:-1], [], [*buffers, [0, 0]]):
        crafted.batch("train").buffers = changed
        crafted.write(root)
        with pytest.raises(CorruptShardError, match="buffers, its schema has"):
            toolkit.open(root, split="train")[0]


@pytest.mark.parametrize("number", [0, 3])
def test_keys_and_digests_are_never_null(crafted: Crafted, root: Path, number: int) -> None:
    crafted.batch("train").put(number, b"\0")
    crafted.write(root)
    with pytest.raises(CorruptShardError, match="nulls in a column that has none"):
        toolkit.open(root, split="train")[0]


def test_opening_reads_no_shard_and_looks_at_all_lines_at_once(crafted: Crafted, root: Path) -> None:
    """Bounded by what Python does a shard: a loop over lines would take a call or more each."""
    n = 4096
    table = crafted.splits["train"][0]
    table.shards = table.shards[:1]

    def many(data: bytes) -> bytes:
        one = pa.ipc.open_file(pa.py_buffer(data)).read_all().slice(0, 1)
        return table_bytes(pa.concat_tables([one] * n))

    table.edit = many
    rows = sum(batch.rows for batch in table.shards[0].batches) * n
    batches, nbytes = len(table.shards[0].batches) * n, len(table.shards[0].encoded()[0]) * n
    crafted.say("splits", "train", "labels", "label", value={"counts": [rows, 0], "missing": 0})
    table.ref = {"rows": rows, "shards": n, "batches": batches, "bytes": nbytes}
    crafted.write(root)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        ds = toolkit.open(root, split="train")
        found = ds.index.table(0)
    finally:
        sys.setprofile(None)
    assert len(ds) == rows
    assert calls < n
    assert np.array_equal(found.batch_rows, np.diff(found.batch_start))
    assert (found.shards, found.batches) == (n, batches)
    for split in ds.manifest.splits.values():
        (root / f"tables/{split.tables[0].sha256}.arrow").unlink()
    assert len(toolkit.open(root, split="train")) == rows, "no shard table is read"
