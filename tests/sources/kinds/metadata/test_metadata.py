"""Image folders with metadata files are what Hugging Face's datasets makes of them; what it takes silently is told."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pictures import encode, picture

import toolkit
from toolkit.errors import RejectsError, SourceError, UsageError
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.run import pack
from toolkit.sources.detect import find_kind
from toolkit.sources.options import LabelMode

GOLDEN = Path(__file__).parents[3] / "golden/hf_folder"
EXPECTED: dict[str, Any] = json.loads((GOLDEN / "expected.json").read_text())["folders"]


def packed(source: Path, dataset: Path, **options: Any) -> PackResult:
    return pack(PackJob(source=str(source), dataset=str(dataset), **options))


def put(folder: Path, metadata: str, name: str = "metadata.csv", count: int = 2) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for i in range(count):
        (folder / f"{i}.jpg").write_bytes(encode(picture(i)))
    (folder / name).write_text(metadata)
    return folder


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_values_are_those_of_datasets(tmp_path: Path, name: str) -> None:
    shutil.copytree(GOLDEN / name, tmp_path / "in")
    assert find_kind([str(tmp_path / "in")]) == "metadata"
    result = packed(tmp_path / "in", tmp_path / "ds")
    assert result.splits == {split: len(rows) for split, rows in EXPECTED[name].items()}
    for split, rows in EXPECTED[name].items():
        ds = toolkit.open(tmp_path / "ds", split=split)
        for i, row in enumerate(rows):
            sample = ds[i]
            assert sample.keys() - {"__key__"} == row.keys()
            assert {field: plain(ds, field, sample[field]) for field in row} == row


def plain(ds: Any, field: str, value: Any) -> Any:
    if isinstance(value, bytes):
        return {"sha256": hashlib.sha256(value).hexdigest()}
    if field == "label":
        return ds.classes[value]
    return json.loads(value) if field == "boxes" else value


def test_keys_are_those_of_an_image_folder(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "splits", tmp_path / "in")
    packed(tmp_path / "in", tmp_path / "a")
    packed(tmp_path / "in", tmp_path / "b", source_kind="imagefolder", label_mode=LabelMode.NONE)
    for split in ("train", "test"):
        a, b = (toolkit.open(tmp_path / name, split=split) for name in "ab")
        assert [a[i]["__key__"] for i in range(len(a))] == [b[i]["__key__"] for i in range(len(b))]
        assert a[1]["__key__"] == f"{split}/1.png"


def test_what_no_row_names_is_told(tmp_path: Path) -> None:
    result = packed(put(tmp_path / "in", "file_name\n1.jpg\n", count=3), tmp_path / "ds")
    assert (result.samples, result.skipped["unlisted"]) == (1, 2)
    assert result.skipped_names["unlisted"] == ("0.jpg", "2.jpg")
    assert result.warnings


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("../x.jpg", "leaves its folder"),
        ("a/../../x.jpg", "leaves its folder"),
        ("/etc/hosts", "absolute"),
        ("https://me:secret@example.com/x.jpg?key=1", "https://example.com is a URL"),
        ("nothing.jpg", "there is no file 'train/nothing.jpg'"),
    ],
)
def test_paths_stay_below_the_metadata_file(tmp_path: Path, value: str, told: str) -> None:
    put(tmp_path / "in/train", f"file_name\n{value}\n0.jpg\n")
    (tmp_path / "in/x.jpg").write_bytes(encode(picture(7)))
    with pytest.raises(RejectsError) as caught:
        packed(tmp_path / "in", tmp_path / "ds")
    result = packed(tmp_path / "in", tmp_path / "ds", max_rejects=1)
    (reject,) = result.rejects
    assert told in reject.reason
    assert reject.source.endswith("metadata.csv, line 2")
    for text in (str(caught.value), repr(reject), (tmp_path / "ds/manifest.json").read_text()):
        assert "secret" not in text
        assert "key=1" not in text


def test_a_way_round_that_stays_is_followed(tmp_path: Path) -> None:
    put(tmp_path / "in/train", "file_name\nx/../1.jpg\n")
    packed(tmp_path / "in", tmp_path / "ds")
    assert toolkit.open(tmp_path / "ds")[0]["__key__"] == "train/1.jpg"


@pytest.mark.parametrize(
    ("name", "metadata", "told"),
    [
        ("metadata.csv", "file_name,image\n0.jpg,1\n", "'file_name' and the field 'image' would have one name"),
        ("metadata.jsonl", '{"file_names": ["0.jpg", "1.jpg"]}\n', "'file_names' names several files a row"),
        ("metadata.jsonl", '{"file_name": 1}\n', "'file_name' is int64, and paths are text"),
        ("metadata.csv", 'file_name,t\n0.jpg,"x\n', "line 2: a quote is opened here and never closed"),
        ("metadata.csv", "file_name,t\n0.jpg,\xe9\n", "not UTF-8"),
    ],
)
def test_what_can_not_be_understood_is_refused(tmp_path: Path, name: str, metadata: str, told: str) -> None:
    folder = put(tmp_path / "in", "", name)
    (folder / name).write_bytes(metadata.encode("latin-1"))
    with pytest.raises(SourceError, match=told):
        packed(folder, tmp_path / "ds", source_kind="metadata")


def test_a_file_beside_split_folders_is_refused(tmp_path: Path) -> None:
    put(tmp_path / "in/train", "file_name\n0.jpg\n")
    put(tmp_path / "in", "file_name\ntrain/0.jpg\n", count=0)
    (tmp_path / "in/train/metadata.csv").unlink()
    with pytest.raises(SourceError, match="lies beside split folders"):
        packed(tmp_path / "in", tmp_path / "ds")
    assert packed(tmp_path / "in", tmp_path / "ds", split="all").splits == {"all": 1}


def test_several_files_of_one_folder_are_refused(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", "file_name\n0.jpg\n")
    put(folder, '{"file_name": "1.jpg"}\n', "metadata.jsonl")
    with pytest.raises(SourceError, match=r"metadata\.csv and metadata\.jsonl: leave one out"):
        packed(folder, tmp_path / "ds")
    with pytest.raises(UsageError, match="is one SOURCE"):
        pack(
            PackJob(
                source=str(folder), more_sources=(str(folder),), dataset=str(tmp_path / "d"), source_kind="metadata"
            )
        )


def test_a_metadata_file_that_names_no_file_is_none(tmp_path: Path) -> None:
    put(tmp_path / "in", "name,t\n0.x,9\n")
    assert find_kind([str(tmp_path / "in")]) == "imagefolder"


def test_a_damaged_parquet_file_is_an_error(tmp_path: Path) -> None:
    folder = put(tmp_path / "in", "")
    (folder / "metadata.csv").unlink()
    pq.write_table(pa.table({"file_name": ["0.jpg"]}), folder / "metadata.parquet")
    data = (folder / "metadata.parquet").read_bytes()
    (folder / "metadata.parquet").write_bytes(data[:-20] + data[-8:])
    with pytest.raises(SourceError, match=r"metadata\.parquet"):
        packed(folder, tmp_path / "ds", source_kind="metadata")
