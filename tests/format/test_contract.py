"""Manifests and tables that a stranger wrote, every hash and pin mended: refused when the dataset is opened."""

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
from crafted import Crafted, edited_table, table_bytes, write_manifest

import toolkit
from toolkit.checks.gc import gc
from toolkit.checks.inspect import inspect
from toolkit.checks.labels import inspect_labels
from toolkit.checks.verify import verify
from toolkit.errors import CorruptShardError, CorruptTableError, IntegrityError, StorageError

LARGE = [-1, -(2**63), 2**63 - 1, 2**62, 2**48 + 1]


def refused(crafted: Crafted, root: Path, says: str | None = None) -> None:
    """Every way of opening it gives the same kind of error."""
    crafted.write(root)
    with pytest.raises(CorruptTableError, match=says):
        toolkit.open(root, split="train")
    with pytest.raises(CorruptTableError, match=says):
        verify(root)
    with pytest.raises(CorruptTableError, match=says):
        inspect(str(root))


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
        ("splits", "train", "tables", 0, "shards"),
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
    refused(crafted, root)


def test_deep_json(crafted: Crafted, root: Path) -> None:
    crafted.write(root)
    data = (root / "manifest.json").read_bytes()
    start = data.index(b'"options": {') + len(b'"options": {')
    write_manifest(root, data[:start] + b'"deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"," + data[start:])
    with pytest.raises(CorruptTableError, match="isn't a manifest"):
        toolkit.open(root, split="train")


# --- the shard tables -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*LARGE, 1, 2**31, 2**32 + 8])
@pytest.mark.parametrize("key", ["offset", "body_bytes", "rows"])
def test_numbers_of_a_record_batch(crafted: Crafted, root: Path, key: str, value: int) -> None:
    batch = crafted.batch("train", shard=1)
    crafted.batch("train", shard=1).line[key] = value if key != "rows" or value != batch.rows else 3
    crafted.write(root)
    try:
        ds = toolkit.open(root, split="train")
    except CorruptTableError:
        return
    # It can be so, for all that the tables say: the shard itself says otherwise.
    with pytest.raises(CorruptShardError):
        [ds[row] for row in range(len(ds))]


@pytest.mark.parametrize("value", [-1, 0, 7, 2**31 - 1, -(2**31)])
def test_metadata_bytes_of_a_record_batch(crafted: Crafted, root: Path, value: int) -> None:
    crafted.batch("train").line["metadata_bytes"] = value
    refused(crafted, root, "record batch lies")


@pytest.mark.parametrize("value", LARGE)
@pytest.mark.parametrize("key", ["rows", "bytes", "tokens"])
def test_numbers_of_a_shard(crafted: Crafted, root: Path, key: str, value: int) -> None:
    crafted.shard("train").line[key] = value
    refused(crafted, root)


def test_sums_that_overflow(crafted: Crafted, root: Path) -> None:
    """Each number is within its range, all together are beyond an int64."""
    table = crafted.splits["train"][0]
    shard = table.shards[0]
    shard.line = {"bytes": 2**60 - 8, "path": "shards/none"}
    table.shards += [shard] * 16
    for place in ("rows", "shards"):
        table.ref[place] = 1
    refused(crafted, root)


def test_record_batches_that_lie_over_each_other(crafted: Crafted, root: Path) -> None:
    second = crafted.shard("train").batches[1]
    second.line["offset"] = crafted.shard("train").encoded()[1]["batches"][0]["offset"]
    refused(crafted, root, "over each other")


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", "shards/../../outside", "..", "", "a\0b", "shards/.."])
def test_paths_that_leave_the_dataset(crafted: Crafted, root: Path, path: str) -> None:
    crafted.shard("train").line["path"] = path
    refused(crafted, root, "leaves the dataset folder")
    with pytest.raises(CorruptTableError, match="leaves the dataset folder"):
        gc(str(root))


def test_dots_within_a_name_are_no_way_out(crafted: Crafted, root: Path) -> None:
    crafted.shard("train").path = "shards/a..b.arrow"
    crafted.write(root)
    assert toolkit.open(root, split="train")[0]["image"]


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.drop_columns(["tokens"]),
        lambda table: table.append_column("more", table["rows"]),
        lambda table: table.set_column(1, "rows", table["rows"].cast(pa.int32())),
        lambda table: table.set_column(1, table.schema.field(1), pa.array([None] * len(table), pa.int64())),
        lambda table: table.set_column(0, table.schema.field(0), pa.array([None] * len(table), pa.string())),
        lambda table: table.set_column(6, table.schema.field(6), pa.array([None] * len(table), table.schema.types[6])),
        lambda table: table.set_column(
            6, table.schema.field(6), pa.array([[None]] * len(table), table.schema.types[6])
        ),
        lambda table: table.slice(1),
        lambda table: table.slice(0, 0),
    ],
)
def test_shard_tables_of_another_form(crafted: Crafted, root: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    crafted.splits["train"][0].edit = edited_table(change)
    refused(crafted, root)


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
    else:
        column = next(one for one in crafted.manifest["columns"] if one["kind"] == "label")
        crafted.edits[column["label_table"]] = edit
    refused(crafted, root, "can't be read")


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
    crafted.set_schema(crafted.schema.set(2, pa.field("image", dtype)))
    refused(crafted, root)


@pytest.mark.parametrize("dtype", [pa.int32(), pa.string(), pa.int64(), pa.struct([("bytes", pa.binary())])])
def test_types_that_are_not_of_their_kind(crafted: Crafted, root: Path, dtype: pa.DataType) -> None:
    crafted.set_schema(crafted.schema.set(2, pa.field("image", dtype)))
    refused(crafted, root, "of kind image, and its type")


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
    table = crafted.splits["train"][0]
    table.shards = table.shards[:1]
    crafted.say("splits", "train", "labels", "label", value={"counts": [0, 0], "missing": 0})

    def many(data: bytes) -> bytes:
        one = pa.ipc.open_file(pa.py_buffer(data)).read_all().slice(0, 1)
        return table_bytes(pa.concat_tables([one] * 20_000))

    table.edit = many
    rows = sum(batch.rows for batch in table.shards[0].batches) * 20_000
    crafted.say("splits", "train", "rows", value=rows)
    crafted.say("splits", "train", "bytes", value=len(table.shards[0].encoded()[0]) * 20_000)
    crafted.say("splits", "train", "labels", "label", value={"counts": [rows, 0], "missing": 0})
    table.ref = {"rows": rows, "shards": 20_000}
    crafted.write(root)
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    sys.setprofile(count)
    try:
        ds = toolkit.open(root, split="train")
    finally:
        sys.setprofile(None)
    assert len(ds) == rows
    assert calls < 20_000
    assert np.array_equal(ds.index.batch_rows, np.diff(ds.index.batch_start))
    assert msgspec.json.decode((root / "manifest.json").read_bytes())["splits"]["train"]["rows"] == rows
