"""Pictures of Parquet files that are no plain column: lists of them, and files that paths lead to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kills import contents, killed
from parquet_inputs import packed, rejected, samples, write
from pictures import encode, make_folder, picture

import toolkit
from toolkit.errors import UsageError
from toolkit.format.media import IMAGE_TYPE
from toolkit.format.schema import Kind
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack, plan
from toolkit.sources.options import LabelMode, Missing

FILES = [{"bytes": encode(picture(i)), "path": f"{i}.jpg"} for i in range(4)]
LISTS = [FILES[:2], [], None, [FILES[2], None], [{**FILES[3], "path": None}]]


def test_lists_of_pictures_are_what_pyarrow_reads(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", {"images": pa.array(LISTS, pa.list_(IMAGE_TYPE)), "n": range(5)})
    packed(file, tmp_path / "ds")
    assert [sample["images"] for sample in samples(tmp_path / "ds")] == pq.read_table(file).column("images").to_pylist()
    opened = toolkit.open(tmp_path / "ds")
    assert {column.name: column.kind for column in opened.columns} == {"images": Kind.VALUE, "n": Kind.SCALAR}


def test_lists_of_pictures_are_what_datasets_reads(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    features = datasets.Features(
        {"images": datasets.Sequence(datasets.Image(decode=False)), "text": datasets.Value("string")}
    )
    rows: dict[str, Any] = {"images": [FILES[:2], [], FILES[3:]], "text": ["a", "b", "c"]}
    datasets.Dataset.from_dict(rows, features=features).to_parquet(str(tmp_path / "x.parquet"))
    theirs = datasets.Dataset.from_parquet(str(tmp_path / "x.parquet"), cache_dir=str(tmp_path / "cache"))
    packed(tmp_path / "x.parquet", tmp_path / "ds")
    assert [sample["images"] for sample in samples(tmp_path / "ds")] == [row["images"] for row in theirs]


def test_paths_lead_to_pictures(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"cat": 3, "dog": 2})
    names = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.jpg"))
    columns = {"path": [*names, "lost.jpg"], "label": [*(name[:3] for name in names), "cat"]}
    file = write(tmp_path / "x.parquet", columns, row_group_size=2)
    given = {"image_column": ("path",), "root": str(folder)}
    (reject,) = rejected(file, tmp_path / "no", **given)
    assert (reject.source, reject.key) == (f"{file}, row 5", "lost.jpg")
    assert reject.reason == "column 'path': there is no file 'lost.jpg'"
    result = pack(PackJob(source=str(file), dataset=str(tmp_path / "ds"), missing=Missing.SKIP, **given))
    assert (result.samples, result.skipped["missing_files"]) == (5, 1)
    pack(PackJob(source=str(folder), dataset=str(tmp_path / "folder")))
    assert samples(tmp_path / "ds") == samples(tmp_path / "folder")
    assert toolkit.open(tmp_path / "ds").classes == ("cat", "dog")


def test_labels_stay_text_where_nothing_else_is_said(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", {"label": ["a", "b"], "path": ["1", "2"]})
    job = PackJob(source=str(file), dataset=str(tmp_path / "ds"))
    assert plan(job).columns == {"label": "text", "path": "text"}
    job = replace(job, image_column=("path",))
    assert plan(job).columns == {"label": "label", "image": "image"}
    assert plan(replace(job, label_mode=LabelMode.NONE)).columns == {"label": "text", "image": "image"}


def test_samples_without_a_picture_are_left_out_if_asked(tmp_path: Path) -> None:
    images = [FILES[0]["bytes"], None, FILES[1]["bytes"]]
    file = write(tmp_path / "x.parquet", {"image": pa.array(images, pa.binary())}, row_group_size=1)
    packed(file, tmp_path / "all")
    assert [sample["image"] for sample in samples(tmp_path / "all")] == images
    result = packed(file, tmp_path / "ds", missing=Missing.SKIP)
    assert result.skipped["missing_files"] == 1
    assert [sample["image"] for sample in samples(tmp_path / "ds")] == [images[0], images[2]]


def test_a_root_needs_a_field(tmp_path: Path) -> None:
    file = write(tmp_path / "x.parquet", {"path": ["a"]})
    with pytest.raises(UsageError, match="--root: no field holds paths"):
        packed(file, tmp_path / "ds", root=str(tmp_path / "photos"))


@pytest.mark.parametrize("at", [6, 8])
def test_a_killed_pack_goes_on(tmp_path: Path, at: int) -> None:
    names = [f"{i}.jpg" for i in range(24)]
    (tmp_path / "photos").mkdir()
    for i, name in enumerate(names):
        (tmp_path / "photos" / name).write_bytes(encode(picture(i, 160, 120), quality=95))
    file = write(tmp_path / "x.parquet", {"path": names})
    job = PackJob(
        source=str(file),
        dataset=str(tmp_path / "ds"),
        image_column=("path",),
        root=str(tmp_path / "photos"),
        shard_size=1 << 16,
        jobs=1,
    )
    assert killed("replace", at, job)
    result = pack(job)
    assert result.resumed > 0
    whole = pack(replace(job, dataset=str(tmp_path / "whole")))
    assert result.pin == whole.pin
    assert contents(tmp_path / "ds") == contents(tmp_path / "whole")
