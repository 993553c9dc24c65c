"""YOLO datasets: rows as their files have them, read here once more, and what becomes of the rest."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import encode, picture

import toolkit
from toolkit.errors import NotFoundError, SourceError, UsageError
from toolkit.format.schema import KEY
from toolkit.sources.base import Survey
from toolkit.sources.detect import find_kind
from toolkit.sources.kinds.yolo.places import label_of
from toolkit.sources.make import make_source
from toolkit.sources.options import Missing, SourceOptions
from toolkit.sources.reject import Reject

PHOTO = encode(picture(1))
YAML = "train: images/train\nval: images/val\nnames: [cat, dog, emu]\n"


def rows_of(path: Path, **options: Any) -> tuple[dict[str, list[dict[str, Any]]], list[Reject], Survey]:
    kind, one = make_source("yolo", SourceOptions(**{"paths": (str(path),), "slice_bytes": 1 << 30, **options}))
    assert kind == "yolo"
    survey = one.survey()
    rows: dict[str, list[dict[str, Any]]] = {split: [] for split in survey.splits}
    rejects = list(survey.rejects)
    for part in survey.slices:
        for some in one.read(survey, part):
            rows[part.split] += some.batch.to_pylist()
            rejects += some.rejects
    return rows, rejects, survey


def keys(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    return {split: [row[KEY] for row in of] for split, of in rows.items()}


def make(root: Path, labels: Mapping[str, str | None], text: str | None = YAML, photos: str = "images") -> Path:
    """Write pictures by their names below images/ (without .jpg), with label files, and a data.yaml."""
    for i, (name, said) in enumerate(labels.items()):
        path = root / f"{photos}/{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode(picture(i)))
        label = root / label_of(path.relative_to(root).as_posix())
        label.parent.mkdir(parents=True, exist_ok=True)
        if said is not None:
            label.write_text(said)
    if text is not None:
        (root / "data.yaml").write_text(text)
    return root


def lines_of(root: Path, key: str) -> list[list[float]]:
    """An independent reading of a label file, as Ultralytics documents where it lies and what it holds."""
    parts = Path("/" + key).parts
    at = len(parts) - 1 - parts[::-1].index("images")
    path = root.joinpath(*parts[1:at], "labels", *parts[at + 1 :]).with_suffix(".txt")
    if not path.exists():
        return []
    return [np.array(line.split(), np.float64).tolist() for line in path.read_text().split("\n") if line.strip()]


def test_rows_are_what_the_files_say(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    labels: dict[str, str | None] = {}
    for i in range(40):
        count = int(rng.integers(0, 5))
        lines = [f"{rng.integers(0, 3)} {' '.join(f'{v:.6f}' for v in rng.uniform(0.4, 0.6, 4))}" for _ in range(count)]
        labels[f"{'train' if i < 30 else 'val'}/{i:02d}"] = "\n".join(lines) if i % 7 else None
    root = make(tmp_path / "in", labels)
    assert find_kind([str(root)]) == "yolo"
    rows, rejects, survey = rows_of(root)
    assert rejects == []
    assert survey.classes == {"labels": ("cat", "dog", "emu")}
    assert survey.options["boxes"] == "cxcywh normalised"
    assert survey.skipped["backgrounds"] == 6
    assert survey.warnings == ()
    assert [len(of) for of in rows.values()] == [30, 10]
    for split, of in rows.items():
        assert [row[KEY] for row in of] == [f"images/{name}.jpg" for name in labels if name.startswith(split)]
        for row in of:
            lines = lines_of(root, row[KEY])
            assert row["labels"] == [int(line[0]) for line in lines]
            assert row["boxes"] == [line[1:] for line in lines]
            assert row["image"] == {"bytes": (root / row[KEY]).read_bytes(), "path": Path(row[KEY]).name}
    assert rows == rows_of(root / "data.yaml")[0]
    assert find_kind([str(root / "data.yaml")]) == "yolo"


def test_a_pack_has_columns_and_classes(tmp_path: Path) -> None:
    root = make(tmp_path / "in", {"train/a": "2 .5 .5 1 1\n0 .5 .5 .5 .25", "val/b": ""})
    toolkit.pack(root, tmp_path / "ds")
    ds = toolkit.open(tmp_path / "ds", split="train")
    assert ds[0]["boxes"] == [[0.5, 0.5, 1.0, 1.0], [0.5, 0.5, 0.5, 0.25]]
    assert ds[0]["labels"] == [2, 0]
    assert json.loads((tmp_path / "ds/manifest.json").read_text())["options"]["boxes"] == "cxcywh normalised"


def test_polygons(tmp_path: Path) -> None:
    root = make(tmp_path, {"train/a": "1 .1 .1 .9 .1 .5 .9\n0 0 0 0 1 1 1 1 0", "train/b": "", "val/c": None})
    rows, _, survey = rows_of(root)
    assert [column.name for column in survey.columns] == ["image", "polygons", "labels"]
    assert survey.options["polygons"] == "xy normalised"
    assert [row["polygons"] for row in rows["train"]] == [
        [[0.1, 0.1, 0.9, 0.1, 0.5, 0.9], [0, 0, 0, 1, 1, 1, 1, 0]],
        [],
    ]
    assert [row["labels"] for row in rows["train"]] == [[1, 0], []]


def test_keypoints(tmp_path: Path) -> None:
    text = YAML + "kpt_shape: [2, 3]\n"
    root = make(tmp_path, {"train/a": "1 .5 .5 1 1 .1 .2 2 .3 .4 0", "train/b": "1 .5 .5 1 1", "val/c": ""}, text)
    rows, (reject,), survey = rows_of(root)
    assert [column.name for column in survey.columns] == ["image", "boxes", "keypoints", "labels"]
    assert rows["train"][0]["boxes"] == [[0.5, 0.5, 1, 1]]
    assert rows["train"][0]["keypoints"] == [[0.1, 0.2, 2, 0.3, 0.4, 0]]
    assert survey.options["kpt_shape"] == [2, 3]
    assert reject.reason == "line 1: 5 values, and a class, a box and 2 keypoints are 11"


def test_boxes_beside_polygons_are_what_most_files_have(tmp_path: Path) -> None:
    box, polygon = "0 .5 .5 1 1", "0 .1 .1 .9 .1 .5 .9"
    root = make(tmp_path, {"train/a": box, "train/b": polygon, "train/c": box, "val/d": f"{box}\n{polygon}"})
    rows, rejects, survey = rows_of(root)
    assert keys(rows) == {"train": ["images/train/a.jpg", "images/train/c.jpg"], "val": []}
    assert [(one.key, one.reason) for one in rejects] == [
        (
            "images/train/b.jpg",
            "its lines are each a polygon, and most files of the dataset have a box: write all alike",
        ),
        ("images/val/d.jpg", "line 2 is a polygon and line 1 a box"),
    ]
    assert survey.skipped.get("unlisted", 0) == 0


def test_bad_lines_are_rejects(tmp_path: Path) -> None:
    labels = {"train/a": "0 .5 .5 1 1", "train/b": "3 .5 .5 1 1", "train/c": "0 .5 .5 1 1\n0 320 200 64 48"}
    rows, rejects, survey = rows_of(make(tmp_path, {**labels, "val/d": ""}))
    assert [row[KEY] for row in rows["train"]] == ["images/train/a.jpg"]
    assert [(one.source, one.key, one.reason) for one in rejects] == [
        (
            f"{tmp_path}/labels/train/b.txt",
            "images/train/b.jpg",
            "line 1: the class '3' is none of the ids 0 to 2",
        ),
        (
            f"{tmp_path}/labels/train/c.txt",
            "images/train/c.jpg",
            "line 2: '320' isn't from 0 to 1; values are shares of the picture's sides",
        ),
    ]
    assert survey.skipped.get("unlisted", 0) == 0


def test_what_is_counted(tmp_path: Path) -> None:
    root = make(tmp_path, {"train/a": "0 .5 .5 1 1\n0 .5 .5 1 1", "train/b": "0 .9 .5 1 .5", "val/c": None})
    (root / "labels/train/lost.txt").write_text("0 .5 .5 1 1")
    (root / "labels/train/classes.txt").write_text("cat\n")
    (root / "images/train/a.txt").write_text("0 .5 .5 1 1")  # not where label files are
    (root / "images/other").mkdir()
    (root / "images/other/x.jpg").write_bytes(PHOTO)
    rows, rejects, survey = rows_of(root)
    assert rejects == []
    assert [row["boxes"] for row in rows["train"]] == [[[0.5, 0.5, 1, 1]], [[0.9, 0.5, 1, 0.5]]]
    assert rows["val"][0]["boxes"] == []
    assert {name: number for name, number in survey.skipped.items() if number} == {
        "repeated_lines": 1,
        "other_kinds": 1,
        "no_image": 1,
        "backgrounds": 1,
        "unlisted": 1,
    }
    assert survey.skipped_names["no_image"] == ("labels/train/lost.txt",)
    assert survey.skipped_names["backgrounds"] == ("images/val/c.jpg",)
    assert survey.skipped_names["unlisted"] == ("images/other/x.jpg",)
    assert any("boxes that reach beyond their picture: 1" in warning for warning in survey.warnings)
    _, _, survey = rows_of(root, split="train")
    assert survey.skipped.get("unlisted", 0) == 0


def test_no_label_file_at_all(tmp_path: Path) -> None:
    root = make(tmp_path, {"train/a": None, "val/b": None})
    with pytest.raises(SourceError, match="no label file for any picture"):
        rows_of(root)


def test_lists_of_pictures(tmp_path: Path) -> None:
    root = make(tmp_path / "in", {"train/a": "0 .5 .5 1 1", "train/b": "1 .5 .5 1 1", "val/c": ""}, None)
    (root / "data.yaml").write_text("train: [train.txt, lists/more.txt]\nval: images/val\nnames: [a, b]\n")
    (root / "train.txt").write_text("./images/train/b.jpg\n\nimages//train/../train/a.jpg\r\n/etc/x.jpg\n../y.jpg\n")
    (root / "lists").mkdir()
    (root / "lists/more.txt").write_text("./z.jpg\nimages/val/c.jpg\nhttps://user:secret@host/a.jpg?token=1\n")
    (root / "lists/z.jpg").write_bytes(PHOTO)
    rows, rejects, _ = rows_of(root)
    assert keys(rows) == {
        "train": ["images/train/b.jpg", "images/train/a.jpg", "lists/z.jpg", "images/val/c.jpg"],
        "val": ["images/val/c.jpg"],
    }
    assert [one.source for one in rejects] == [
        f"{root}/train.txt, line 4",
        f"{root}/train.txt, line 5",
        f"{root}/lists/more.txt, line 3",
    ]
    assert ["absolute" in rejects[0].reason, "leaves" in rejects[1].reason] == [True, True]
    assert "secret" not in repr(rejects)
    assert "token" not in repr(rejects)


def test_pictures_that_are_not_there(tmp_path: Path) -> None:
    root = make(tmp_path, {"train/a": "0 .5 .5 1 1"}, "train: train.txt\nnames: [a]\n")
    (root / "train.txt").write_text("images/train/a.jpg\nimages/train/b.jpg\n")
    rows, (reject,), _ = rows_of(root)
    assert keys(rows) == {"train": ["images/train/a.jpg"]}
    assert (reject.source, reject.key) == (f"{root}/train.txt, line 2", "images/train/b.jpg")
    assert reject.reason == "column 'image': there is no file 'images/train/b.jpg'"
    rows, rejects, survey = rows_of(root, missing=Missing.SKIP)
    assert (len(rows["train"]), rejects, survey.skipped["missing_files"]) == (1, [], 1)
    rows, rejects, _ = rows_of(root, missing=Missing.NULL)
    assert [row["image"] is None for row in rows["train"]] == [False, True]


@pytest.mark.parametrize(
    ("picture", "label"),
    [
        ("images/train/a.jpg", "labels/train/a.txt"),
        ("images/a.b.png", "labels/a.b.txt"),
        ("x/images/y/images/a.jpg", "x/images/y/labels/a.txt"),
        ("train/images/a.jpg", "train/labels/a.txt"),
        ("obj/a.jpg", "obj/a.txt"),
        ("images.jpg", "images.txt"),
        ("myimages/a.jpg", "myimages/a.txt"),
    ],
)
def test_where_label_files_are(picture: str, label: str) -> None:
    assert label_of(picture) == label


def test_folders_without_yaml(tmp_path: Path) -> None:
    labels = {"train/a": "0 .5 .5 1 1", "val/b": "1 .5 .5 1 1"}
    root = make(tmp_path / "above", labels, None)
    assert find_kind([str(root)]) == "yolo"
    with pytest.raises(UsageError, match="give --classes FILE"):
        rows_of(root)
    rows, _, survey = rows_of(root, classes=("x", "y"))
    assert survey.classes == {"labels": ("x", "y")}
    assert keys(rows) == {"train": ["images/train/a.jpg"], "val": ["images/val/b.jpg"]}
    (root / "classes.txt").write_text("cat\ndog\n")
    assert rows_of(root)[2].classes == {"labels": ("cat", "dog")}
    rows, _, survey = rows_of(root, classes=("dog", "cat"))  # by their names
    assert [row["labels"] for row in rows["train"] + rows["val"]] == [[1], [0]]
    assert keys(rows_of(root, split="val")[0]) == {"val": ["images/val/b.jpg"]}
    with pytest.raises(NotFoundError, match="has the splits train, val, not 'test'"):
        rows_of(root, split="test")
    (root / "images/c.jpg").write_bytes(PHOTO)
    with pytest.raises(SourceError, match=r"holds 'c\.jpg' beside the split 'train'"):
        rows_of(root)

    root = make(tmp_path / "flat", {"a": "0 .5 .5 1 1"}, None)
    (root / "labels/classes.txt").write_text("cat\n")
    assert keys(rows_of(root)[0]) == {"train": ["images/a.jpg"]}
    assert keys(rows_of(root, split="test")[0]) == {"test": ["images/a.jpg"]}

    root = tmp_path / "below"
    for split in ("valid", "train"):
        make(root, {"a": "0 .5 .5 1 1"}, None, f"{split}/images")
    (root / "obj.names").write_text("cat\n")
    assert find_kind([str(root)]) == "yolo"
    assert keys(rows_of(root)[0]) == {"train": ["train/images/a.jpg"], "valid": ["valid/images/a.jpg"]}


def test_what_roboflow_exports(tmp_path: Path) -> None:
    text = "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n\nnc: 1\nnames: ['0']\n"
    make(tmp_path, {"a": "0 .5 .5 1 1"}, text, "train/images")
    make(tmp_path, {"b": "0 .5 .5 1 1"}, text, "valid/images")
    rows, rejects, survey = rows_of(tmp_path)
    assert (keys(rows), rejects) == ({"train": ["train/images/a.jpg"], "val": ["valid/images/b.jpg"]}, [])
    assert "the split test that aren't there: the split is left out" in survey.warnings[0]


def test_a_folder_of_another_root(tmp_path: Path) -> None:
    make(tmp_path / "photos", {"train/a": "0 .5 .5 1 1", "val/b": ""}, None)
    (tmp_path / "in").mkdir()
    (tmp_path / "in/data.yaml").write_text("path: ../photos\n" + YAML)
    with pytest.raises(SourceError, match="--root FOLDER"):
        rows_of(tmp_path / "in")
    rows, _, _ = rows_of(tmp_path / "in", root=str(tmp_path / "photos"))
    assert keys(rows) == {"train": ["images/train/a.jpg"], "val": ["images/val/b.jpg"]}


def test_several_yaml_files(tmp_path: Path) -> None:
    root = make(tmp_path, {"train/a": "0 .5 .5 1 1", "val/b": ""})
    (root / "few.yaml").write_text("train: images/val\nnames: [cat]\n")
    with pytest.raises(SourceError, match=r"several YAML files of datasets: data\.yaml, few\.yaml"):
        rows_of(root)
    rows, _, _ = rows_of(root / "data.yaml")
    assert len(rows["train"]) == 1


def test_links_that_leave_the_folder(tmp_path: Path) -> None:
    root = make(tmp_path / "in", {"train/a": "0 .5 .5 1 1", "val/b": None})
    (tmp_path / "b.txt").write_text("1 .5 .5 1 1")
    (root / "labels/val/b.txt").symlink_to(tmp_path / "b.txt")
    rows, (reject,), _ = rows_of(root)
    assert rows["val"] == []
    assert "is a link that leads out of the folder; --follow-links allows it" in reject.reason
    assert rows_of(root, follow_links=True)[0]["val"][0]["labels"] == [1]
    (root / "images/val/c.jpg").symlink_to(root / "data.yaml")
    (root / "images/val/d.jpg").symlink_to("/etc/passwd")
    with pytest.raises(SourceError, match=r"d\.jpg' is a link that leads out"):
        rows_of(root)


@pytest.mark.parametrize("name", ["data.yaml", "train.txt", "classes.txt"])
def test_what_says_the_samples_must_not_lie_outside(tmp_path: Path, name: str) -> None:
    has_yaml = name != "classes.txt"
    root = make(tmp_path / "in", {"train/a": "0 .5 .5 1 1"}, "train: train.txt\nnames: [a]\n" if has_yaml else None)
    (root / "train.txt").write_text("images/train/a.jpg\n")
    (root / "classes.txt").write_text("a\n")
    (root / name).rename(tmp_path / name)
    (root / name).symlink_to(tmp_path / name)
    with pytest.raises(SourceError, match=rf"{name}' is a link that leads out of .*--follow-links"):
        rows_of(root)
    assert keys(rows_of(root, follow_links=True)[0]) == {"train": ["images/train/a.jpg"]}


def test_names_that_are_no_text(tmp_path: Path) -> None:
    root = make(tmp_path, {"train/a": "0 .5 .5 1 1", "val/b": ""})
    with open(os.path.join(os.fsencode(root / "images/val"), b"\xff.jpg"), "wb") as file:
        file.write(PHOTO)
    _, (reject,), _ = rows_of(root)
    assert (reject.key, reject.reason) == ("images/val/\\xff.jpg", "the file's name is not valid UTF-8")


def test_patterns(tmp_path: Path) -> None:
    root = make(tmp_path, {"train/a": "0 .5 .5 1 1", "train/b": "9", "val/c": ""})
    rows, rejects, survey = rows_of(root, exclude=("*/b.jpg",))
    assert (keys(rows), rejects) == ({"train": ["images/train/a.jpg"], "val": ["images/val/c.jpg"]}, [])
    assert survey.skipped_names["excluded"] == ("images/train/b.jpg",)


def test_folders_that_are_none(tmp_path: Path) -> None:
    """Pictures beside masks, and texts that hold words."""
    make(tmp_path / "masks", {"a": None}, None)
    (tmp_path / "masks/labels/a.png").write_bytes(encode(picture(1), "PNG"))
    make(tmp_path / "texts", {"a": "a cat on a mat"}, None)
    for name in ("masks", "texts"):
        assert find_kind([str(tmp_path / name)]) == "imagefolder"
