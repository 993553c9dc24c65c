"""CSV files with paths of pictures: the same photographs as by folder, and Kaggle's folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pictures import encode, make_folder, picture

import toolkit
from toolkit.errors import RejectsError, SourceError, UsageError
from toolkit.format.kinds import Kind
from toolkit.pack.job import PackJob, PackResult
from toolkit.pack.run import pack
from toolkit.sources.detect import find_kind
from toolkit.sources.options import LabelMode, Missing


def packed(source: Path, dataset: Path, **options: Any) -> PackResult:
    return pack(PackJob(source=str(source), dataset=str(dataset), **options))


def samples(dataset: Path, split: str) -> list[dict[str, Any]]:
    ds = toolkit.open(dataset, split=split)
    return [ds[i] for i in range(len(ds))]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "photos", {"train/cat": 3, "train/dog": 4, "val/cat": 2, "val/eel": 1})


def write_tables(photos: Path, folder: Path) -> None:
    """Write a table for each split, in the order of a walk."""
    folder.mkdir()
    for split in ("train", "val"):
        rows = [
            f'{path.relative_to(photos)},"{path.parent.name}"'
            for path in sorted((photos / split).rglob("*.jpg"), key=lambda path: path.parts)
        ]
        (folder / f"{split}.csv").write_text("\n".join(["path,label", *rows]) + "\n")


def test_the_same_photographs_by_folder_and_by_table(folder: Path, tmp_path: Path) -> None:
    write_tables(folder, tmp_path / "tables")
    by_folder = packed(folder, tmp_path / "a")
    by_table = packed(tmp_path / "tables", tmp_path / "b", image_column=("path",), root=str(folder))
    assert by_table.splits == by_folder.splits
    for split in ("train", "val"):
        a, b = (toolkit.open(tmp_path / name, split=split) for name in "ab")
        assert a.classes == b.classes == ("cat", "dog", "eel")
        digests = (
            [ds.take(range(len(ds)), columns=["__key__", "__digest__", "label"]) for ds in (a, b)] if False else []
        )
        assert not digests
        assert samples(tmp_path / "a", split) == samples(tmp_path / "b", split)
    assert stored_digests(tmp_path / "a") == stored_digests(tmp_path / "b")


def stored_digests(dataset: Path) -> list[tuple[str, bytes]]:
    found = []
    for path in sorted((dataset / "shards").iterdir()):
        with pa.OSFile(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
        found += list(zip(table["__key__"].to_pylist(), table["__digest__"].to_pylist(), strict=True))
    return found


def test_a_plain_table(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text('n,x,text,label\n1,0.5,"a, b",cat\n2,,c,dog\n')
    result = packed(tmp_path / "x.csv", tmp_path / "ds")
    assert (result.source_kind, result.classes) == ("csv", 2)
    assert samples(tmp_path / "ds", "train") == [
        {"__key__": "x.csv#0", "n": 1, "x": 0.5, "text": "a, b", "label": 0},
        {"__key__": "x.csv#1", "n": 2, "x": None, "text": "c", "label": 1},
    ]


def test_numbers_may_be_kept_as_text(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("zip,n\n12345,1\n54321,2\n")
    packed(tmp_path / "x.csv", tmp_path / "ds", kind={"code": Kind.TEXT}, rename={"zip": "code"})
    assert [row["code"] for row in samples(tmp_path / "ds", "train")] == ["12345", "54321"]


def test_how_it_is_written_is_part_of_the_pin(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_bytes("a;b\n1;é\n".encode("latin-1"))
    with pytest.raises(SourceError, match="Give --delimiter ';'"):
        packed(tmp_path / "x.csv", tmp_path / "ds", encoding="latin-1")
    packed(tmp_path / "x.csv", tmp_path / "ds", encoding="latin-1", delimiter=";")
    assert samples(tmp_path / "ds", "train")[0]["b"] == "é"
    options = toolkit.open(tmp_path / "ds").manifest.options
    assert (options["delimiter"], options["encoding"]) == (";", "latin-1")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"delimiter": ";;"}, "--delimiter ';;': give one ASCII character"),
        ({"delimiter": '"'}, "--delimiter and --quote are both"),
        ({"encoding": "klingon"}, "--encoding 'klingon' is no encoding"),
        ({"encoding": "rot13"}, "is no encoding"),
        ({"quote": "é"}, "--quote 'é': give one ASCII character"),
    ],
)
def test_options_that_can_not_be(tmp_path: Path, options: dict[str, Any], told: str) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UsageError, match=told):
        packed(tmp_path / "x.csv", tmp_path / "ds", **options)


def test_ragged_rows_count_as_rejects(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n1,2,3\n4,5\n")
    with pytest.raises(RejectsError):
        packed(tmp_path / "x.csv", tmp_path / "ds")
    result = packed(tmp_path / "x.csv", tmp_path / "ds", max_rejects=1)
    assert result.samples == 2
    assert result.rejects[0].source == f"{tmp_path / 'x.csv'}, line 3"


# --- paths -----------------------------------------------------------------------------------------------------------


def test_paths_that_are_refused_and_files_that_are_missing(folder: Path, tmp_path: Path) -> None:
    good = sorted(path.relative_to(folder) for path in (folder / "train/cat").iterdir())
    os.symlink("/etc/hosts", folder / "out.jpg")
    bad = {
        "../x.jpg": "leaves its folder",
        "/etc/hosts": "absolute",
        "https://me:secret@example.com/a.jpg?key=1": "is a URL",
        "out.jpg": "leads out of the folder",
        "nothing.jpg": "no file",
    }
    (tmp_path / "x.csv").write_text("\n".join(["path", str(good[0]), *bad, str(good[1])]) + "\n")
    result = packed(tmp_path / "x.csv", tmp_path / "ds", image_column=("path",), root=str(folder), max_rejects=5)
    assert result.samples == 2
    for line, (reject, told) in enumerate(zip(result.rejects, bad.values(), strict=True), 3):
        assert told in reject.reason
        assert reject.source.endswith(f"x.csv, line {line}")
    everything = "".join(path.read_text(errors="replace") for path in (tmp_path / "ds").rglob("*.json*"))
    assert "secret" not in everything + repr(result)
    assert "key=1" not in everything + repr(result)
    skipped = packed(
        tmp_path / "x.csv",
        tmp_path / "ds2",
        image_column=("path",),
        root=str(folder),
        max_rejects=4,
        missing=Missing.SKIP,
    )
    assert skipped.skipped["missing_files"] == 1


def test_names_without_an_extension_are_completed(folder: Path, tmp_path: Path) -> None:
    names = sorted(path.stem for path in (folder / "train/cat").iterdir())
    (tmp_path / "x.csv").write_text("\n".join(["id", *names]) + "\n")
    root = folder / "train/cat"
    packed(tmp_path / "x.csv", tmp_path / "ds", image_column=("id",), root=str(root))
    assert [row["__key__"] for row in samples(tmp_path / "ds", "train")] == [f"{name}.jpg" for name in names]
    for name in names:
        (root / f"{name}.png").write_bytes(b"")
    with pytest.raises(SourceError, match=r"with \.jpg, \.png: move the others out"):
        packed(tmp_path / "x.csv", tmp_path / "ds2", image_column=("id",), root=str(root))


# --- Kaggle's folders ------------------------------------------------------------------------------------------------


@pytest.fixture
def kaggle(tmp_path: Path) -> Path:
    top = tmp_path / "kaggle"
    for name, count in {"train": 5, "test": 3}.items():
        (top / name).mkdir(parents=True)
        for i in range(count):
            (top / f"{name}/{name[1]}0{i}.jpg").write_bytes(encode(picture(i)))
    (top / "train.csv").write_text("id,label,age\n" + "".join(f"r0{i},{'ab'[i % 2]},{i}\n" for i in range(4)))
    (top / "test.csv").write_text("id,age\n" + "".join(f"e0{i},{i}\n" for i in range(3)))
    (top / "sample_submission.csv").write_text("id,label\ne00,a\n")
    (top / "labels_en.csv").write_text("label,name\na,ant\nb,bee\n")
    return top


def test_a_folder_of_kaggle(kaggle: Path, tmp_path: Path) -> None:
    assert find_kind([str(kaggle)]) == "csv"
    result = packed(kaggle, tmp_path / "ds")
    assert result.splits == {"train": 4, "test": 3}
    assert result.skipped_names["submissions"] == ("sample_submission.csv",)
    assert result.skipped_names["other_tables"] == ("labels_en.csv",)
    assert result.skipped_names["unlisted"] == ("train/r04.jpg",)
    assert any("test.csv' has no column 'label'" in text for text in result.warnings)
    train, test = (samples(tmp_path / "ds", split) for split in ("train", "test"))
    assert [(row["__key__"], row["id"], row["label"], row["age"]) for row in train][:2] == [
        ("train/r00.jpg", "r00", 0, 0),
        ("train/r01.jpg", "r01", 1, 1),
    ]
    assert [(row["__key__"], row["label"]) for row in test] == [(f"test/e0{i}.jpg", None) for i in range(3)]
    assert test[1]["image"] == (kaggle / "test/e01.jpg").read_bytes()


def test_rows_may_be_long(kaggle: Path, tmp_path: Path) -> None:
    table = kaggle / "train.csv"
    table.write_text(f"id,mask,age\nr00,{'1 2 ' * 100_000},0\n" + "".join(f"r0{i},{'1 ' * 70_000},0\n" for i in (1, 2)))
    assert find_kind([str(kaggle)]) == "csv"
    packed(kaggle, tmp_path / "ds")
    assert [row["__key__"] for row in samples(tmp_path / "ds", "train")] == [f"train/r0{i}.jpg" for i in range(3)]


def test_a_table_that_is_a_link_must_not_lead_out(kaggle: Path, tmp_path: Path) -> None:
    table = kaggle / "train.csv"
    table.rename(tmp_path / "x.csv")
    table.symlink_to("../x.csv")
    with pytest.raises(SourceError, match=r"train\.csv' is a link that leads out of .*--follow-links"):
        packed(kaggle, tmp_path / "ds")
    assert packed(kaggle, tmp_path / "ds", follow_links=True).splits == {"train": 4, "test": 3}
    assert packed(kaggle, tmp_path / "ds2", exclude=("train.csv", "train/*")).splits == {"test": 3}


def test_pictures_found_in_several_ways_are_an_error(kaggle: Path, tmp_path: Path) -> None:
    (kaggle / "small").mkdir()
    for i in range(5):
        (kaggle / f"small/r0{i}.jpg").write_bytes(encode(picture(i)))
    with pytest.raises(SourceError, match=r"in several ways: 'id' in 'small' with '\.jpg'; 'id' in 'train'.*--root"):
        packed(kaggle, tmp_path / "ds")
    packed(kaggle / "train.csv", tmp_path / "ds", image_column=("id",), root=str(kaggle / "small"))
    assert samples(tmp_path / "ds", "train")[0]["__key__"] == "r00.jpg"


def test_numbers_that_name_a_picture_by_chance(tmp_path: Path) -> None:
    top = tmp_path / "in"
    top.mkdir()
    for i in range(4):
        (top / f"{i}.jpg").write_bytes(encode(picture(i)))
    (top / "train.csv").write_text("id,kind\n0,1\n1,1\n2,0\n3,0\n")
    result = packed(top, tmp_path / "ds")
    assert [row["__key__"] for row in samples(tmp_path / "ds", "train")] == [f"{i}.jpg" for i in range(4)]
    assert any("no column called 'label'" in text and "--kind COLUMN=label" in text for text in result.warnings)
    assert not packed(top, tmp_path / "ds2", label_mode=LabelMode.NONE).warnings


def test_a_table_that_names_no_picture_leaves_an_image_folder(folder: Path, tmp_path: Path) -> None:
    (folder / "train/notes.csv").write_text("a,b\n1,2\n")
    assert find_kind([str(folder)]) == "imagefolder"
    result = packed(folder, tmp_path / "ds")
    assert any("'train/notes.csv'" in text and "--source-kind" in text for text in result.warnings)
