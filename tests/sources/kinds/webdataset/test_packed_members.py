"""Members called .gz are what webdataset's own decoder makes of them; tars come compressed in any of four ways."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sources.tars import JPEG, job, numpy_file, packed, rejects, tar_bytes, write

import toolkit
from toolkit.errors import SourceError, UsageError
from toolkit.format.kinds import Kind
from toolkit.pack.run import pack
from toolkit.sources.contents import UnfitError
from toolkit.sources.kinds.webdataset.parts import is_gzip, unpacked
from toolkit.sources.kinds.webdataset.source import WebDatasetSource
from toolkit.sources.options import SourceOptions

GOLDEN = Path(__file__).parents[3] / "golden/webdataset"
TOLD = json.loads((GOLDEN / "values.json").read_text())["samples"]


def as_told(column: str, value: Any) -> object:
    """A packed value in the form in which values.json has those of webdataset's reader."""
    if column == "x_npy_gz":
        array = np.load(io.BytesIO(value))
        return {"dtype": array.dtype.str, "values": array.tolist()}
    if column == "meta_json_gz":
        return json.loads(value)
    return {"base64": base64.b64encode(value).decode()} if isinstance(value, bytes) else value


@pytest.mark.parametrize("name", ["members.tar", "members.tar.gz", "members.tar.bz2", "members.tar.xz"])
def test_values_are_those_of_webdataset_itself(tmp_path: Path, name: str) -> None:
    got = packed(GOLDEN / name, tmp_path / "ds")
    assert len(got) == len(TOLD)
    for sample, told in zip(got, TOLD, strict=True):
        columns = {name.replace(".", "_"): value for name, value in told.items()}
        assert {name: as_told(name, value) for name, value in sample.items()} == columns
    kinds = {column.name: column.kind for column in toolkit.open(tmp_path / "ds").columns}
    assert kinds == {
        "txt": Kind.TEXT,
        "caption_txt_gz": Kind.TEXT,
        "meta_json_gz": Kind.JSON,
        "cls_gz": Kind.SCALAR,
        "x_npy_gz": Kind.TENSOR,
        "seg_gif_gz": Kind.IMAGE,
        "nii_gz": Kind.BYTES,
        "gz": Kind.BYTES,
        "twice_txt_gz_gz": Kind.BYTES,
        "notes_txt_bz2": Kind.BYTES,
        "notes_json_xz": Kind.BYTES,
    }


def test_what_is_gunzipped_is_a_part_like_any_other(tmp_path: Path) -> None:
    items = [
        ("a.jpg.gz", gzip.compress(JPEG)),
        ("a.cls.gz", gzip.compress(b"dog")),
        ("b.cls", b"cat"),
        ("b.JPG.GZ", gzip.compress(JPEG[:-2] + b"xx" + JPEG[-2:])),
    ]
    source = write(tmp_path / "x.tar", tar_bytes(items))
    got = packed(source, tmp_path / "ds", map={"image": "jpg.gz", "label": "cls;cls.gz"}, classes=("cat", "dog"))
    assert [(sample["label"], len(sample["image"])) for sample in got] == [(1, len(JPEG)), (0, len(JPEG) + 2)]
    (shard,) = (tmp_path / "ds/shards").iterdir()
    assert [value["path"] for value in pa.ipc.open_file(shard).read_all().column("image").to_pylist()] == [
        "a.jpg",
        "b.JPG",
    ]


def test_gzip_that_cannot_be_read_is_a_reject(tmp_path: Path) -> None:
    whole = gzip.compress(b"text")
    hurt = whole[:-6] + b"\0" * 6
    items = {
        "a": whole,
        "b": b"text",
        "c": whole[:-3],
        "d": hurt,
        "e": whole + b"more",
        "f": whole + gzip.compress(b" and more") + bytes(5),
        "g": b"",
        "h": gzip.compress(b"\xff"),
        "i": gzip.compress(bytes(1 << 16)),
    }
    source = write(tmp_path / "x.tar", tar_bytes((f"{key}.txt.gz", data) for key, data in items.items()))
    found = rejects(source, tmp_path / "ds", max_value_bytes=1 << 15)
    assert sorted(found) == ["b", "c", "d", "e", "h", "i"]
    for key in "bcde":
        assert found[key].startswith("txt.gz: no gzip data that can be read: the compressed data is ")
    assert found["h"] == "txt.gz: not UTF-8 text at byte 0"
    told = "txt.gz: gunzipped, it has more bytes than a value may have (32768); --max-value-bytes says how many"
    assert found["i"] == told
    opened = toolkit.open(tmp_path / "ds")
    assert [opened[i]["txt_gz"] for i in range(len(opened))] == ["text", "text and more", ""]


def test_a_bomb_takes_no_more_than_a_value_may() -> None:
    bomb = gzip.compress(bytes(64 << 20), 9)
    tracemalloc.start()
    try:
        with pytest.raises(UnfitError, match="more bytes than a value may have"):
            unpacked(memoryview(bomb), 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_pieces_of_rows_are_cut_by_what_was_gunzipped(tmp_path: Path) -> None:
    items = [(f"{i}.bin.gz", gzip.compress(bytes(3 << 20))) for i in range(6)]
    source = WebDatasetSource(
        SourceOptions(paths=(str(write(tmp_path / "x.tar", tar_bytes(items))),), slice_bytes=1 << 30)
    )
    survey = source.survey()
    (part,) = survey.slices
    assert [rows.batch.num_rows for rows in source.read(survey, part)] == [2, 2, 2]


def test_a_kind_can_be_given(tmp_path: Path) -> None:
    items = [("a.notes.gz", gzip.compress("é".encode())), ("a.npy.gz", gzip.compress(numpy_file(np.arange(3))))]
    source = write(tmp_path / "x.tar", tar_bytes(items))
    (sample,) = packed(source, tmp_path / "ds", kind={"notes_gz": Kind.TEXT, "npy_gz": Kind.BYTES})
    assert sample["notes_gz"] == "é"
    assert sample["npy_gz"] == numpy_file(np.arange(3))
    with pytest.raises(UsageError, match="'label' is to be a label"):
        packed(source, tmp_path / "ds2", rename={"npy.gz": "label"}, kind={"label": Kind.LABEL})


def test_text_is_tokenised(tmp_path: Path) -> None:
    source = write(tmp_path / "x.tar", tar_bytes([("a.txt.gz", gzip.compress(b"ab"))]))
    (sample,) = packed(source, tmp_path / "ds", tokenizer="bytes", text_column="txt.gz")
    assert list(sample["tokens"]) == [97, 98]


@given(st.lists(st.binary(max_size=300), max_size=5), st.integers(0, 40))
def test_any_gzip_comes_back_as_python_reads_it(parts: list[bytes], zeros: int) -> None:
    data = b"".join(map(gzip.compress, parts)) + bytes(zeros if parts else 0)
    assert bytes(unpacked(memoryview(data), 1 << 20)) == gzip.decompress(data) == b"".join(parts)


def test_only_the_last_suffix_counts() -> None:
    assert [name for name in ("gz", "txt.gz", "gz.txt", "tgz", "xgz", "a.gz.gz", "") if is_gzip(name)] == [
        "gz",
        "txt.gz",
        "a.gz.gz",
    ]


@pytest.mark.parametrize("pack_bytes", [bz2.compress, lzma.compress])
def test_a_cut_or_hurt_tar_is_refused(tmp_path: Path, pack_bytes: Any) -> None:
    data = pack_bytes(tar_bytes([(f"{i}.txt", b"x" * 1000) for i in range(40)]))
    for name, content in {"cut": data[:-20], "hurt": data[:60] + bytes([data[60] ^ 255]) + data[61:]}.items():
        (tmp_path / f"{name}.tar.x").write_bytes(content)
        with pytest.raises(SourceError, match=rf"{name}\.tar\.x': the compressed data is .* near byte"):
            pack(job(tmp_path / f"{name}.tar.x", tmp_path / f"ds-{name}"))
    (tmp_path / "two.tar.x").write_bytes(data + pack_bytes(b"") + bytes(40))
    assert len(packed(tmp_path / "two.tar.x", tmp_path / "ds")) == 40
