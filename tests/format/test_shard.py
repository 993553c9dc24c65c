"""Shards: what is written is read back, by us and by other tools; the record says where everything lies."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import json
import os
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pytest
from conftest import rows_of
from format.arrow_values import arrays, batches, ipc, pure_values
from format.pure_reader import PureReader
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import toolkit
from toolkit._native.shards.body import CHUNK_BYTES
from toolkit._native.shards.message import BatchMessage
from toolkit._native.shards.sums import crc32c
from toolkit.errors import StorageError
from toolkit.format.compact import compact_batch
from toolkit.format.digest import sample_digests
from toolkit.format.media import IMAGE_TYPE
from toolkit.format.schema import DIGEST, arrow_schema, image_column, label_column
from toolkit.format.shard import BATCH_BODY_BYTES, SUMS_KEY, ShardRecord, ShardWriter
from toolkit.format.sizes import padding_bytes, row_bytes
from toolkit.storage.background import BackgroundFile

CLASSES = ("cat", "dog")
COLUMNS = (image_column("image"), label_column("label", "0" * 64))
SCHEMA = arrow_schema(COLUMNS, {"image": IMAGE_TYPE, "label": pa.int64()}, {"label": CLASSES})


def sample(key: str, image: object = b"", label: int | None = 0) -> dict[str, object]:
    return {
        "__key__": key,
        "image": {"bytes": image, "path": key} if isinstance(image, bytes) else image,
        "label": label,
    }


def write(path: Path, samples: list[dict[str, object]], **options: int) -> ShardRecord:
    writer = ShardWriter(BackgroundFile(str(path)), SCHEMA, **options)
    for one in samples:
        writer.write(rows_of(SCHEMA, [one]))
    assert writer.rows == len(samples)
    return writer.close()


def check(path: Path, record: ShardRecord, samples: list[dict[str, object]], limit: int = BATCH_BODY_BYTES) -> None:
    """Everything docs/format.md says of a shard, through pyarrow."""
    data = path.read_bytes()
    assert record.file_bytes == len(data)
    assert record.sha256 == hashlib.sha256(data).digest()
    assert record.rows == len(samples) == sum(batch.rows for batch in record.batches)
    file = pa.ipc.open_file(path)
    assert file.schema.equals(SCHEMA, check_metadata=True)
    digests = sample_digests(rows_of(SCHEMA, samples))
    assert file.read_all().to_pylist() == [
        {"__key__": one["__key__"], DIGEST: digest, "image": one["image"], "label": one["label"]}
        for one, digest in zip(samples, digests, strict=True)
    ]
    nonbody, position = b"", 0
    assert file.num_record_batches == len(record.batches)
    for number, place in enumerate(record.batches):
        start = place.offset + place.metadata_bytes
        nonbody += data[position:start]
        position = start + place.body_bytes
        message = BatchMessage(data[place.offset : start])
        body = data[start:position]
        assert (message.rows, message.body_bytes) == (place.rows, place.body_bytes)
        assert file.get_batch(number).num_rows == place.rows
        assert place.body_bytes <= limit or place.rows == 1
        assert start % 8 == 0
        assert all(at % 8 == 0 and at + size <= len(body) for at, size in message.buffers.tolist())
        chunks = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
        sums = b"".join(struct.pack("<I", crc32c(chunk)) for chunk in chunks)
        assert base64.b64decode(message.metadata[SUMS_KEY], validate=True) == sums
    assert record.nonbody_sha256 == hashlib.sha256(nonbody + data[position:]).digest()


# --- round trips ------------------------------------------------------------------------------------------------

TEXT = st.text(max_size=30)
IMAGES = st.none() | st.fixed_dictionaries({"bytes": st.none() | st.binary(max_size=2000), "path": st.none() | TEXT})
SAMPLES = st.fixed_dictionaries(
    {"__key__": TEXT, "image": IMAGES, "label": st.none() | st.integers(-(2**63), 2**63 - 1)}
)


@settings(max_examples=60, deadline=None)
@given(st.lists(SAMPLES, max_size=30), st.sampled_from([1, 300, 4000, BATCH_BODY_BYTES]))
def test_any_samples(tmp_path_factory: pytest.TempPathFactory, samples: list[dict], limit: int) -> None:
    path = tmp_path_factory.mktemp("s") / "s.arrow"
    check(path, write(path, samples, batch_body_bytes=limit), samples, limit)


def test_no_rows(tmp_path: Path) -> None:
    record = write(tmp_path / "s", [])
    assert record.batches == ()
    check(tmp_path / "s", record, [])


@pytest.mark.parametrize("image", [None, b"", b"x", {"bytes": None, "path": "p"}, {"bytes": b"x", "path": None}])
def test_one_row(tmp_path: Path, image: object) -> None:
    samples = [sample("k", image, None)]
    check(tmp_path / "s", write(tmp_path / "s", samples), samples)


def test_a_row_bigger_than_a_batch_is_alone_in_its_batch(tmp_path: Path) -> None:
    big = np.random.default_rng(0).bytes(BATCH_BODY_BYTES + 1)
    samples = [sample("a", b"1"), sample("b", b"2"), sample("big", big), sample("c", b"3")]
    record = write(tmp_path / "s", samples)
    assert [batch.rows for batch in record.batches] == [2, 1, 1]
    assert record.batches[1].body_bytes > BATCH_BODY_BYTES
    check(tmp_path / "s", record, samples)


def test_batches_are_filled(tmp_path: Path) -> None:
    samples = [sample(f"{i}", bytes(1 << 20)) for i in range(40)]
    record = write(tmp_path / "s", samples)
    assert [batch.rows for batch in record.batches] == [15, 15, 10]
    assert all(batch.body_bytes <= BATCH_BODY_BYTES for batch in record.batches)


@given(SAMPLES, st.integers(1, 30))
@settings(max_examples=50, deadline=None)
def test_row_bytes_is_an_upper_bound(tmp_path_factory: pytest.TempPathFactory, one: dict, count: int) -> None:
    path = tmp_path_factory.mktemp("s") / "s.arrow"
    (place,) = write(path, [one] * count).batches
    (size,) = set(row_bytes(rows_of(SCHEMA, [one] * count)).tolist())
    assert place.body_bytes <= count * size + 256


def test_the_same_samples_give_the_same_bytes(tmp_path: Path) -> None:
    samples = [sample(f"{i}", os.urandom(999), i % 2) for i in range(50)]
    one, other = (write(tmp_path / name, samples, batch_body_bytes=9000) for name in ("a", "b"))
    assert one == other
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_long_text_and_odd_names_through_a_dataset(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    keys = ["", "🦆" * 20_000, "a\u0000b", "\u202e", "e\u0301", "é", "x/" * 3000]
    samples = [sample(key, key.encode(), i % 2) for i, key in enumerate(keys)]
    commit_samples(tmp_path / "d", {"train": [samples]}, batch_body_bytes=4000)
    ds = toolkit.open(tmp_path / "d")
    assert [one["__key__"] for one in ds] == keys
    assert [one["image"] for one in ds] == [key.encode() for key in keys]
    assert [stored["path"] for stored in ds.fetcher.values("image", ds.fetcher.locate(np.arange(len(keys))))] == keys
    assert list(PureReader(tmp_path / "d").samples("train")) == samples


def test_nulls_through_a_dataset(tmp_path: Path, commit_samples: Callable[..., str]) -> None:
    samples = [sample(f"{i}", None if i % 3 else b"x" * i, None if i % 2 else 1) for i in range(40)]
    commit_samples(tmp_path / "d", {"train": [samples[:7], samples[7:]]}, batch_body_bytes=600)
    ds = toolkit.open(tmp_path / "d")
    assert [one["image"] for one in ds] == [None if i % 3 else b"x" * i for i in range(40)]
    assert [one["label"] for one in ds] == [None if i % 2 else 1 for i in range(40)]


# --- columns of any type ----------------------------------------------------------------------------------------


def schema_of(rows: pa.RecordBatch) -> pa.Schema:
    return rows.schema.insert(1, pa.field(DIGEST, pa.binary(16), nullable=False))


def write_pieces(path: Path, pieces: list[pa.RecordBatch], limit: int) -> tuple[ShardRecord, bytes]:
    writer = ShardWriter(BackgroundFile(str(path)), schema_of(pieces[0]), batch_body_bytes=limit)
    for piece in pieces:
        writer.write(piece)
    return writer.close(), path.read_bytes()


def rebuilt(piece: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows in other memory: no longer a slice, nothing left under nulls."""
    return pa.ipc.read_record_batch(pa.py_buffer(piece.serialize().to_pybytes()), piece.schema)


@settings(max_examples=150, deadline=None)
@given(batches(), st.lists(st.integers(0, 40), max_size=4), st.sampled_from([200, 1500, BATCH_BODY_BYTES]))
def test_the_pieces_that_rows_come_in_never_change_a_byte(
    tmp_path_factory: pytest.TempPathFactory, rows: pa.RecordBatch, cuts: list[int], limit: int
) -> None:
    folder = tmp_path_factory.mktemp("s")
    whole = write_pieces(folder / "whole", [rows], limit)
    ends = sorted({0, rows.num_rows, *(min(cut, rows.num_rows) for cut in cuts)})
    pieces = [rows.slice(start, stop - start) for start, stop in itertools.pairwise(ends)] or [rows]
    assert write_pieces(folder / "pieces", pieces, limit) == whole
    assert write_pieces(folder / "rebuilt", [rebuilt(piece) for piece in pieces], limit) == whole
    assert write_pieces(folder / "single", [rows.slice(i, 1) for i in range(rows.num_rows)] or [rows], limit) == whole
    file = pa.ipc.open_file(folder / "whole")
    assert all(place.body_bytes <= limit or place.rows == 1 for place in whole[0].batches)
    found = [file.get_batch(i) for i in range(file.num_record_batches)]
    for name in rows.schema.names:
        assert [value for batch in found for value in pure_values(batch.column(name))] == pure_values(rows[name])
    assert [value for batch in found for value in batch[DIGEST].to_pylist()] == sample_digests(rows)


def test_a_cut_inside_a_byte_of_bits(tmp_path: Path) -> None:
    """Bits and padding behind the last row of a slice belong to other rows: they must not be written."""
    rows = pa.RecordBatch.from_pydict(
        {"__key__": list("abcdefgh"), "b": [True] * 8, "n": pa.array(range(8), pa.int8())}
    )
    rows = rows.cast(pa.schema([pa.field("__key__", pa.string(), nullable=False), *list(rows.schema)[1:]]))
    alone = rows.take(pa.array(range(5)))
    assert write_pieces(tmp_path / "a", [rows.slice(0, 5)], 1000) == write_pieces(tmp_path / "b", [alone], 1000)


def body_bytes(rows: pa.RecordBatch) -> int:
    """What the rows take in a body as we write it."""
    return len(ipc(compact_batch(rows.append_column(DIGEST, pa.array([bytes(16)] * len(rows), pa.binary(16)))))[1])


@settings(max_examples=200, deadline=None)
@given(batches(max_columns=2), st.data())
def test_row_bytes_bound_what_a_row_adds(rows: pa.RecordBatch, data: st.DataObject) -> None:
    sizes = row_bytes(rows)
    start = data.draw(st.integers(0, rows.num_rows))
    part = rows.slice(start)
    assert body_bytes(part) <= int(sizes[start:].sum()) + padding_bytes(schema_of(rows))
    assert row_bytes(part).tolist() == sizes[start:].tolist()
    assert row_bytes(rebuilt(part)).tolist() == sizes[start:].tolist()


@settings(max_examples=200, deadline=None)
@given(arrays())
def test_many_times_a_row_take_no_more_than_its_row_bytes(array: pa.Array) -> None:
    """With a thousand rows what is only once a batch no longer counts."""
    if not len(array):
        return
    thousand = pa.concat_arrays([array.slice(len(array) - 1)] * 1000)
    rows = pa.RecordBatch.from_arrays([pa.array([""] * 1000), thousand], names=["__key__", "x"])
    (size,) = set(row_bytes(rows).tolist())
    assert body_bytes(rows) <= 1000 * size


def test_bytes_under_a_null_are_neither_counted_nor_written(tmp_path: Path) -> None:
    hidden = pa.array(["x" * 100_000]).buffers()
    text = pa.Array.from_buffers(pa.string(), 1, [pa.py_buffer(b"\0"), *hidden[1:]])
    plain = pa.array([None], pa.string())
    fields = pa.schema([pa.field("__key__", pa.string(), nullable=False), ("x", pa.string())])
    one, other = (pa.RecordBatch.from_arrays([pa.array(["k"]), x], schema=fields) for x in (text, plain))
    assert row_bytes(one).tolist() == row_bytes(other).tolist()
    assert write_pieces(tmp_path / "a", [one], 1000) == write_pieces(tmp_path / "b", [other], 1000)


# --- failures ---------------------------------------------------------------------------------------------------


def test_a_file_that_exists_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")
    with pytest.raises(StorageError, match="can't create"):
        ShardWriter(BackgroundFile(str(tmp_path / "s")), SCHEMA)
    assert (tmp_path / "s").read_text() == "mine"


def test_abort_removes_the_file(tmp_path: Path) -> None:
    writer = ShardWriter(BackgroundFile(str(tmp_path / "s")), SCHEMA, batch_body_bytes=10)
    for i in range(5):
        writer.write(rows_of(SCHEMA, [sample(f"{i}", b"abc")]))
    writer.abort()
    writer.abort()
    assert os.listdir(tmp_path) == []


def test_abort_after_close_keeps_the_file(tmp_path: Path) -> None:
    writer = ShardWriter(BackgroundFile(str(tmp_path / "s")), SCHEMA)
    writer.close()
    writer.abort()
    assert os.listdir(tmp_path) == ["s"]


# --- other tools ------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(dataset: Path) -> toolkit.Dataset:
    return toolkit.open(dataset, split="train")


def test_pyarrow_polars_and_pandas_read_shards(opened: toolkit.Dataset) -> None:
    keys = [one["__key__"] for one in opened]
    tables = [pa.ipc.open_file(path).read_all() for path in opened.files]
    frames = pl.concat([pl.read_ipc(path) for path in opened.files])
    pandas = pd.concat([pd.read_feather(path) for path in opened.files])
    assert [key for table in tables for key in table["__key__"].to_pylist()] == keys
    assert frames["__key__"].to_list() == keys
    assert pandas["__key__"].tolist() == keys
    for i, one in enumerate(opened):
        for image in (frames["image"][i], pandas["image"].iloc[i]):
            assert image["bytes"] == one["image"]
            assert image["path"] == one["__key__"].rpartition("/")[2]
        assert frames["label"][i] == pandas["label"].iloc[i] == one["label"]


def test_hugging_face_datasets_decodes_images_and_names_classes(
    opened: toolkit.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    loaded = datasets.load_dataset("arrow", data_files=opened.files, split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.features["label"].names == list(opened.classes or ())
    assert len(loaded) == len(opened)
    for theirs, ours in zip(loaded, opened, strict=True):
        assert theirs["__key__"] == ours["__key__"]
        assert theirs["label"] == ours["label"]
        expected = np.asarray(Image.open(io.BytesIO(ours["image"])))
        assert np.array_equal(np.asarray(theirs["image"]), expected)


def test_the_schema_metadata_is_as_described(opened: toolkit.Dataset) -> None:
    metadata = pa.ipc.open_file(opened.files[0]).schema.metadata
    own = json.loads(metadata[b"toolkit"])
    assert own["format"] == 1
    assert [column["name"] for column in own["columns"]] == ["image", "label"]
    assert json.loads(metadata[b"huggingface"])["info"]["features"]["label"]["names"] == ["cat", "dog"]
