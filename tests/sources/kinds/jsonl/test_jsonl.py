"""Tables of JSON lines: which files they are, and what is packed of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pictures import make_folder

import toolkit
from toolkit.errors import SourceError
from toolkit.format.kinds import Kind
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.run import pack
from toolkit.sources.detect import find_kind


def packed(source: Path, dataset: Path, **options: Any) -> PackResult:
    return pack(PackJob(source=str(source), dataset=str(dataset), **options))


def put(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("row", "kind"),
    [
        ({"text": "a"}, "text"),
        ({"text": "a", "n": 1}, "jsonl"),
        ({"n": 1}, "jsonl"),
        ({"text": "a" * 100_000}, "text"),
        ({"id": 1, "text": "a" * 100_000}, "jsonl"),
    ],
)
def test_a_table_has_more_than_a_text(tmp_path: Path, row: dict[str, Any], kind: str) -> None:
    assert find_kind([str(put(tmp_path / "x.jsonl", row))]) == kind
    assert find_kind([str(tmp_path)]) == kind


def test_with_a_tokenizer_it_is_texts(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", {"id": 1, "body": "ab"}, {"id": 2, "body": "c"})
    result = packed(path, tmp_path / "ds", tokenizer="bytes", text_column="body")
    assert (result.source_kind, result.samples) == ("text", 2)


def test_files_are_one_table(tmp_path: Path) -> None:
    put(tmp_path / "in/train.jsonl", {"a": 1}, {"b": "x"})
    put(tmp_path / "in/val.jsonl", {"a": 1.5, "c": [1]})
    result = packed(tmp_path / "in", tmp_path / "ds")
    assert result.splits == {"train": 2, "val": 1}
    ds = toolkit.open(tmp_path / "ds", split="train")
    assert [ds[0][name] for name in ("a", "b", "c")] == [1.0, None, None]
    assert toolkit.open(tmp_path / "ds", split="val")[0]["c"] == "[1]"
    assert {column.name: column.kind for column in ds.manifest.columns}["c"] is Kind.JSON


def test_a_field_that_is_left_out_needs_no_type(tmp_path: Path) -> None:
    path = put(tmp_path / "x.jsonl", {"a": 1, "b": 2}, {"a": "x", "b": 3})
    with pytest.raises(SourceError, match="--kind a=json"):
        packed(path, tmp_path / "ds")
    packed(path, tmp_path / "ds", columns=("b",))
    packed(path, tmp_path / "ds2", kind={"a": Kind.JSON})
    assert [toolkit.open(tmp_path / "ds2")[i]["a"] for i in range(2)] == ["1", '"x"']


def test_pictures_by_their_paths(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "photos", {"cat": 2, "dog": 1})
    paths = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.jpg"))
    table = put(tmp_path / "x.jsonl", *({"path": path, "label": path.split("/")[0]} for path in paths))
    packed(table, tmp_path / "a", image_column=("path",), root=str(folder))
    packed(folder, tmp_path / "b")
    a, b = (toolkit.open(tmp_path / name) for name in "ab")
    assert [a[i] for i in range(3)] == [b[i] for i in range(3)]
    assert a.classes == b.classes
