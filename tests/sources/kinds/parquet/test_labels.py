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


LISTED = {"List": pa.list_(pa.int64()), "LargeList": pa.large_list(pa.int16()), "Sequence": pa.list_(pa.uint64())}


def listed(path: Path, array: pa.Array, feature: object, **more: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"labels": array, **more})
    features = {"info": {"features": {"labels": feature}}}
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), path, row_group_size=2)
    return path


def class_list(kind: str, names: list[str]) -> dict[str, object]:
    return {"_type": kind, "feature": {"_type": "ClassLabel", "names": names}}


@pytest.mark.parametrize("kind", LISTED)
def test_lists_of_class_labels_keep_their_names(tmp_path: Path, kind: str) -> None:
    rows = [[1, 0, 1], [], None, [2]]
    listed(tmp_path / "x/train.parquet", pa.array(rows, LISTED[kind]), class_list(kind, ["cat", "dog", "owl"]))
    packed(tmp_path / "x", tmp_path / "ds")
    ds = toolkit.open(tmp_path / "ds", split="train")
    assert ds.class_names == {"labels": ("cat", "dog", "owl")}
    large = "large_" if kind == "LargeList" else ""
    assert (ds.columns[0].kind, ds.columns[0].arrow_type) == (Kind.VALUE, f"{large}list<item: int64>")
    assert values(tmp_path / "ds", "labels") == rows
    packed(tmp_path / "x", tmp_path / "given", classes=("owl", "dog", "cat"))
    assert values(tmp_path / "given", "labels") == [[1, 2, 1], [], None, [0]]


def test_lists_of_one_length_and_lists_as_older_files_describe_them_have_names(tmp_path: Path) -> None:
    names = ["cat", "dog"]
    fixed = pa.array([[1, 0], None, [0, 0]], pa.list_(pa.int32(), 2))
    listed(tmp_path / "a.parquet", fixed, {**class_list("List", names), "length": 2})
    listed(tmp_path / "b.parquet", pa.array([[1, 0], None, [0, 0]]), [{"_type": "ClassLabel", "names": names}])
    for name in ("a", "b"):
        packed(tmp_path / f"{name}.parquet", tmp_path / name)
        assert toolkit.open(tmp_path / name).class_names == {"labels": ("cat", "dog")}
        assert values(tmp_path / name, "labels") == [[1, 0], None, [0, 0]]


def test_ids_in_lists_that_no_class_has_are_rejected(tmp_path: Path) -> None:
    rows = [[0], [-1, 0], [1, None], [2], [1]]
    source = listed(tmp_path / "x.parquet", pa.array(rows, pa.list_(pa.int8())), class_list("List", ["cat", "dog"]))
    assert [(one.key, one.reason) for one in rejected(source, tmp_path / "ds")] == [
        ("x.parquet#1", "column 'labels': -1 is none of the ids 0 to 1"),
        ("x.parquet#2", "column 'labels': its list holds a null, which is none of the ids"),
        ("x.parquet#3", "column 'labels': 2 is none of the ids 0 to 1"),
    ]
    assert values(tmp_path / "ds", "labels") == [[0], [1]]
    huge = pa.array([[2**64 - 1], [0]], pa.list_(pa.uint64()))
    rejected(listed(tmp_path / "y.parquet", huge, class_list("List", ["cat"])), tmp_path / "huge")
    assert values(tmp_path / "huge", "labels") == [[0]]


def test_lists_without_names_stay_as_they_are(tmp_path: Path) -> None:
    array = pa.array([[5, -1, None]], pa.list_(pa.int8()))
    for number, feature in enumerate(({"_type": "List", "feature": {"_type": "Value"}}, [], class_list("List", []), 3)):
        packed(listed(tmp_path / f"{number}.parquet", array, feature), tmp_path / f"ds{number}")
        assert values(tmp_path / f"ds{number}", "labels") == [[5, -1, None]]
        assert toolkit.open(tmp_path / f"ds{number}").columns[0].arrow_type == "list<item: int8>"


def test_files_must_agree_on_the_names_of_ids_in_lists(tmp_path: Path) -> None:
    array = pa.array([[0]], pa.list_(pa.int32()))
    listed(tmp_path / "x/a.parquet", array, class_list("List", ["cat", "dog"]))
    listed(tmp_path / "x/b.parquet", array, class_list("List", ["dog", "cat"]))
    with pytest.raises(SourceError, match="an id would mean two classes"):
        packed(tmp_path / "x", tmp_path / "ds")
