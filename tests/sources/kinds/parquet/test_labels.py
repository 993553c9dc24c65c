"""Label columns of Parquet files: where class names come from, and what is no label."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from parquet_inputs import packed, rejected, values, write
from pictures import encode, picture

import toolkit
from toolkit.errors import SourceError, UsageError
from toolkit.format.schema import Kind
from toolkit.sources.options import LabelMode

JPEG = encode(picture(1))
PNG = encode(picture(2), "PNG")


def classes_metadata(column: str, names: list[str], table: pa.Table) -> pa.Table:
    features = {column: {"names": names, "_type": "ClassLabel"}}
    return table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})


@pytest.mark.parametrize("dtype", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())])
def test_labels_from_text_are_the_sorted_values_of_all_files(tmp_path: Path, dtype: pa.DataType) -> None:
    write(tmp_path / "src/train.parquet", {"y": pa.array(["dog", None, "cat", "dog"], dtype)}, row_group_size=2)
    write(tmp_path / "src/test.parquet", {"y": pa.array(["ant"], dtype)})
    packed(tmp_path / "src", tmp_path / "ds", kind={"y": Kind.LABEL})
    assert toolkit.open(tmp_path / "ds", split="train").classes == ("ant", "cat", "dog")
    assert values(tmp_path / "ds", "y", "train") == [2, None, 1, 2]
    assert values(tmp_path / "ds", "y", "test") == [0]
    packed(tmp_path / "src", tmp_path / "one", kind={"y": Kind.LABEL}, split="train")
    assert values(tmp_path / "one", "y") == [2, None, 1, 2]


def test_text_labels_must_be_among_the_classes_given(tmp_path: Path) -> None:
    source = write(tmp_path / "x.parquet", {"y": ["dog", "caat", None, "cat"]})
    options: dict[str, Any] = {"kind": {"y": Kind.LABEL}, "classes": ("dog", "cat")}
    found = rejected(source, tmp_path / "ds", **options)
    assert [r.reason for r in found] == ["column 'y': label 'caat' is none of the 2 classes. Did you mean 'cat'?"]
    assert values(tmp_path / "ds", "y") == [0, None, 1]
    found = rejected(source, tmp_path / "must", require_labels=True, **options)
    assert [(r.key, r.reason[:19]) for r in found] == [
        ("x.parquet#1", "column 'y': label '"),
        ("x.parquet#2", "column 'y' is null,"),
    ]


@pytest.mark.parametrize("dtype", [pa.int8(), pa.uint64(), pa.int64(), pa.float64(), pa.float16()])
def test_labels_from_numbers_need_classes_and_fit_them(tmp_path: Path, dtype: pa.DataType) -> None:
    items: list[Any] = [0, 1, None, 2]
    bad = ["2"]
    if pa.types.is_floating(dtype):
        items, bad = [0.0, 1.0, None, 2.0, 0.5, float("nan"), float("inf")], ["2.0", "0.5", "nan", "inf"]
    else:
        odd = 2**64 - 1 if pa.types.is_unsigned_integer(dtype) else -1
        items, bad = [*items, odd], ["2", str(odd)]
    source = write(tmp_path / "x.parquet", {"y": pa.array(items, dtype)})
    with pytest.raises(UsageError, match="--classes"):
        packed(source, tmp_path / "ds", kind={"y": Kind.LABEL})
    found = rejected(source, tmp_path / "ds", kind={"y": Kind.LABEL}, classes=("a", "b"))
    assert [r.reason for r in found] == [f"column 'y': label {value} is none of the ids 0 to 1" for value in bad]
    assert values(tmp_path / "ds", "y") == [0, 1, None]
    found = rejected(source, tmp_path / "must", kind={"y": Kind.LABEL}, classes=("a", "b"), require_labels=True)
    assert len(found) == len(bad) + 1


def test_labels_from_booleans(tmp_path: Path) -> None:
    packed(
        write(tmp_path / "x.parquet", {"y": [True, None, False]}),
        tmp_path / "ds",
        kind={"y": Kind.LABEL},
        classes=("no", "yes"),
    )
    assert values(tmp_path / "ds", "y") == [1, None, 0]


def test_ids_of_the_file_are_turned_into_those_given(tmp_path: Path) -> None:
    table = classes_metadata("y", ["cat", "dog", "bee"], pa.table({"y": [0, 1, 2, -1, 3]}))
    pq.write_table(table, tmp_path / "x.parquet")
    found = rejected(tmp_path / "x.parquet", tmp_path / "ds", classes=("ant", "dog", "cat"))
    assert [r.reason for r in found] == [
        "column 'y': label 'bee' is none of the 3 classes",
        "column 'y': label 3 is none of the ids 0 to 2",
    ]
    assert values(tmp_path / "ds", "y") == [2, 1, None]
    assert toolkit.open(tmp_path / "ds").classes == ("ant", "dog", "cat")


def test_class_names_of_the_files_must_agree(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name, classes in (("a", ["x", "y"]), ("b", ["y", "x"])):
        pq.write_table(classes_metadata("y", classes, pa.table({"y": [0]})), tmp_path / f"src/{name}.parquet")
    with pytest.raises(
        SourceError, match=r"class names of column 'y' in '.*b\.parquet' are not those in '.*a\.parquet'"
    ):
        packed(tmp_path / "src", tmp_path / "ds")


def test_options_about_labels_need_one(tmp_path: Path) -> None:
    source = write(tmp_path / "x.parquet", {"y": [0], "z": ["a"]})
    with pytest.raises(UsageError, match="--classes: no column is a label"):
        packed(source, tmp_path / "ds", classes=("a",))
    with pytest.raises(UsageError, match="--require-labels: no column is a label"):
        packed(source, tmp_path / "ds", require_labels=True)
    with pytest.raises(UsageError, match="leave one out"):
        packed(source, tmp_path / "ds", label_mode=LabelMode.NONE, kind={"z": Kind.LABEL})
    with pytest.raises(UsageError, match="--label-mode imagefolder"):
        packed(source, tmp_path / "ds", label_mode=LabelMode.IMAGEFOLDER)
    with pytest.raises(UsageError, match="label columns y, z"):
        packed(source, tmp_path / "ds", classes=("a",), kind={"y": Kind.LABEL, "z": Kind.LABEL})


def test_blank_and_absent_texts_are_no_classes(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="blank"):
        packed(write(tmp_path / "x.parquet", {"y": ["", "a"]}), tmp_path / "ds", kind={"y": Kind.LABEL})
    with pytest.raises(SourceError, match="holds no value"):
        packed(write(tmp_path / "y.parquet", {"y": pa.nulls(2, pa.string())}), tmp_path / "ds", kind={"y": Kind.LABEL})
