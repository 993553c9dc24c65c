"""Folders of Pascal VOC: rows as torchvision has them, and what becomes of the rest."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import encode, picture
from PIL import Image

import toolkit
from toolkit.errors import NotFoundError, SourceError, UsageError
from toolkit.format.schema import KEY
from toolkit.sources.base import Survey
from toolkit.sources.detect import find_kind
from toolkit.sources.kinds.voc.annotations import VOC_CLASSES
from toolkit.sources.make import make_source
from toolkit.sources.options import Missing, SourceOptions
from toolkit.sources.reject import Reject

GOLDEN = Path(__file__).parents[3] / "golden/voc"
PHOTO = encode(picture(1))


def rows_of(path: Path, **options: Any) -> tuple[dict[str, list[dict[str, Any]]], list[Reject], Survey]:
    kind, one = make_source("voc", SourceOptions(**{"paths": (str(path),), "slice_bytes": 1 << 30, **options}))
    assert kind == "voc"
    survey = one.survey()
    rows: dict[str, list[dict[str, Any]]] = {split: [] for split in survey.splits}
    rejects = list(survey.rejects)
    for part in survey.slices:
        for some in one.read(survey, part):
            rows[part.split] += some.batch.to_pylist()
            rejects += some.rejects
    return rows, rejects, survey


def keys(rows: dict[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    return {split: [row[KEY].rpartition("/")[2] for row in of] for split, of in rows.items()}


def xml(*names: str, filename: str | None = None, box: Sequence[float] = (1, 2, 30, 20)) -> str:
    corners = "".join(f"<{tag}>{at}</{tag}>" for tag, at in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True))
    things = "".join(f"<object><name>{name}</name><bndbox>{corners}</bndbox></object>" for name in names)
    said = f"<filename>{filename}</filename>" if filename is not None else ""
    return f"<annotation>{said}<size><width>64</width><height>48</height></size>{things}</annotation>"


def make(root: Path, annotations: dict[str, str], pictures: Sequence[str] = (), **lists: Sequence[str]) -> Path:
    """Write a year: annotations by name, pictures (those of the annotations, if not given), and lists in Main."""
    for folder in ("JPEGImages", "Annotations"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, text in annotations.items():
        (root / f"Annotations/{name}.xml").write_text(text)
    for name in pictures or [f"{name}.jpg" for name in annotations]:
        (root / f"JPEGImages/{name}").write_bytes(PHOTO)
    for name, ids in lists.items():
        (root / "ImageSets/Main").mkdir(parents=True, exist_ok=True)
        (root / f"ImageSets/Main/{name}.txt").write_text("".join(f"{one}\n" for one in ids))
    return root


def test_rows_are_those_of_torchvision() -> None:
    told = json.loads((GOLDEN / "torchvision.json").read_text())
    assert find_kind([str(GOLDEN / "VOCdevkit")]) == "voc"
    rows, rejects, survey = rows_of(GOLDEN / "VOCdevkit")
    assert rejects == []
    assert survey.classes == {"labels": VOC_CLASSES}
    assert survey.options["boxes"] == "xyxy 1-based"
    assert survey.warnings == ()
    assert survey.skipped["parts"] == 2
    assert {name for name, number in survey.skipped.items() if number} == {"parts"}
    found = {row[KEY]: (split, row) for split, of in rows.items() for row in of}
    assert found.keys() == told["detection"].keys()
    for key, wanted in told["detection"].items():
        split, row = found[key]
        assert split == wanted["split"]
        assert row["image"] == {"bytes": (GOLDEN / "VOCdevkit" / key).read_bytes(), "path": key.rpartition("/")[2]}
        things = wanted["annotation"]["object"]
        corners = ("xmin", "ymin", "xmax", "ymax")
        assert row["boxes"] == [[float(one["bndbox"][at]) for at in corners] for one in things]
        assert [VOC_CLASSES[label] for label in row["labels"]] == [one["name"] for one in things]
        for flag in ("difficult", "truncated", "occluded"):
            assert row[flag] == [int(one[flag]) if flag in one else None for one in things]
        assert row["pose"] == [one["pose"] for one in things]
        for column in ("mask", "object_mask"):
            assert (row[column] is not None) == (key in told["masks"])
        if key in told["masks"]:
            mask = np.asarray(Image.open(io.BytesIO(row["mask"]["bytes"])))
            assert hashlib.sha256(mask.tobytes()).hexdigest() == told["masks"][key]
            folder = (GOLDEN / "VOCdevkit" / key).parents[1]
            name = row["object_mask"]["path"]
            assert row["object_mask"]["bytes"] == (folder / "SegmentationObject" / name).read_bytes()


def test_a_pack_has_columns_classes_and_the_form_of_boxes(tmp_path: Path) -> None:
    toolkit.pack(GOLDEN / "VOCdevkit", tmp_path / "ds")
    ds = toolkit.open(tmp_path / "ds", split="val")
    named = ("image", "boxes", "labels", "difficult", "truncated", "occluded", "pose", "mask", "object_mask")
    assert set(named) <= set(ds.schema.names)
    assert ds[1]["boxes"] == [[2.0, 1.0, 39.0, 30.0], [1.0, 1.5, 12.0, 30.0]]
    assert [VOC_CLASSES[label] for label in ds[1]["labels"]] == ["person", "train"]
    manifest = json.loads((tmp_path / "ds/manifest.json").read_text())
    assert manifest["options"]["boxes"] == "xyxy 1-based"


def test_what_a_folder_may_be() -> None:
    for path in (GOLDEN, GOLDEN / "VOCdevkit", GOLDEN / "VOCdevkit/VOC2007"):
        assert find_kind([str(path)]) == "voc"
        rows, _, _ = rows_of(path)
        first = rows["train"][0][KEY]
        assert (path / first).is_file()
        assert first.endswith("JPEGImages/000005.jpg")
    with pytest.raises(SourceError, match="no folder JPEGImages beside Annotations"):
        rows_of(GOLDEN / "VOCdevkit/VOC2007/JPEGImages")


def test_splits_by_lists(tmp_path: Path) -> None:
    good = {name: xml("dog") for name in "abcd"}
    root = make(tmp_path, good, train=["b"], val=["a"], trainval=["b", "a"], test=["d", "c"])
    rows, _, survey = rows_of(root)
    assert keys(rows) == {"train": ["b.jpg"], "val": ["a.jpg"], "test": ["d.jpg", "c.jpg"]}
    assert survey.warnings == ()
    assert keys(rows_of(root, split="trainval")[0]) == {"trainval": ["b.jpg", "a.jpg"]}
    rows, _, survey = rows_of(root, splits={"train": ("trainval",), "rest": ("Main/test",)})
    assert keys(rows) == {"train": ["b.jpg", "a.jpg"], "rest": ["d.jpg", "c.jpg"]}
    assert survey.options["splits"] == {"train": ["trainval"], "rest": ["Main/test"]}
    (root / "ImageSets/Segmentation").mkdir()
    (root / "ImageSets/Segmentation/few.txt").write_text("\ufeffc\r\n\n  a  \r\n")
    rows, _, survey = rows_of(root, splits={"train": ("Segmentation/few",)})
    assert keys(rows) == {"train": ["c.jpg", "a.jpg"]}
    assert survey.skipped_names["unlisted"] == ("JPEGImages/b.jpg", "JPEGImages/d.jpg")
    assert survey.warnings == ()
    assert keys(rows_of(root, splits={"train": ("few",)})[0]) == {"train": ["c.jpg", "a.jpg"]}
    with pytest.raises(NotFoundError, match=r"no split 'tests'; there are train, val, trainval, test\. Did you mean"):
        rows_of(root, split="tests")
    for name in ("tran", "../../secret", "/etc/passwd", "Main/../../JPEGImages/a"):
        with pytest.raises(NotFoundError, match="--splits: there is no list"):
            rows_of(root, splits={"train": (name,)})
    with pytest.raises(UsageError, match="can't name a split"):
        rows_of(root, splits={"a b": ("train",)})


def test_trainval_alone_and_trainval_of_more(tmp_path: Path) -> None:
    good = {name: xml("dog") for name in "abc"}
    root = make(tmp_path / "alone", good, trainval=["b", "a"], test=["c"])
    assert keys(rows_of(root)[0]) == {"trainval": ["b.jpg", "a.jpg"], "test": ["c.jpg"]}
    root = make(tmp_path / "more", good, trainval=["b", "a"], train=["b"])
    with pytest.raises(SourceError, match=r"trainval .* names pictures that neither train nor val does"):
        rows_of(root)
    assert keys(rows_of(root, split="trainval")[0]) == {"trainval": ["b.jpg", "a.jpg"]}


def test_without_lists(tmp_path: Path) -> None:
    root = make(tmp_path, {name: xml("dog") for name in "ba"})
    assert keys(rows_of(root)[0]) == {"train": ["a.jpg", "b.jpg"]}
    assert keys(rows_of(root, split="val")[0]) == {"val": ["a.jpg", "b.jpg"]}
    with pytest.raises(NotFoundError, match="no such folder"):
        rows_of(root, splits={"train": ("train",)})
    (root / "ImageSets").mkdir()
    with pytest.raises(SourceError, match=r"none of the lists Main/train\.txt"):
        rows_of(root)


def test_names_of_pictures(tmp_path: Path) -> None:
    """In folders, with other endings, with blanks; a list may give the ending."""
    root = make(tmp_path, {}, ["a b.png", "c.JPEG", "d.jpg", "twice.jpg", "twice.png"])
    for name in ("a b", "c", "d", "deep/e", "twice"):
        (root / "Annotations/deep").mkdir(exist_ok=True)
        (root / f"Annotations/{name}.xml").write_text(xml("cat", filename=name))
    (root / "JPEGImages/deep").mkdir()
    (root / "JPEGImages/deep/e.jpg").write_bytes(PHOTO)
    make(root, {}, ["d.jpg"], train=["deep/e", "c.JPEG", "a b", "d", "twice"])
    rows, (reject,), survey = rows_of(root)
    assert [row[KEY] for row in rows["train"]] == [
        f"JPEGImages/{name}" for name in ("deep/e.jpg", "c.JPEG", "a b.png", "d.jpg")
    ]
    assert [len(row["boxes"]) for row in rows["train"]] == [1, 1, 1, 1]
    assert reject.reason == "2 pictures have its name: 'twice.jpg', 'twice.png'"
    assert survey.skipped["unlisted"] == 0


def test_classes(tmp_path: Path) -> None:
    root = make(tmp_path, {"a": xml("zebra", "dog"), "b": xml("ant")}, train=["a"])
    rows, _, survey = rows_of(root)
    assert survey.classes == {"labels": ("ant", "dog", "zebra")}  # of all annotations, whatever is packed
    assert rows["train"][0]["labels"] == [2, 1]
    rows, _, survey = rows_of(root, classes=("dog", "emu", "zebra"))
    assert survey.classes == {"labels": ("dog", "emu", "zebra")}
    assert rows["train"][0]["labels"] == [2, 0]
    rows, (reject,), _ = rows_of(root, classes=("dog", "zebras"))
    assert rows["train"] == []
    assert "label 'zebra' is none of the 2 classes" in reject.reason
    assert "did you mean" in reject.reason.lower()


def test_bad_annotations_are_rejects(tmp_path: Path) -> None:
    bad = {"b": "<annotation>", "c": "<!DOCTYPE x><annotation/>", "d": xml("dog", box=(9, 1, 5, 2)), "e": " " * 100}
    root = make(tmp_path, {"a": xml("dog"), **bad}, train=list("abcde"))
    os.truncate(root / "Annotations/e.xml", 9 << 20)
    rows, rejects, _ = rows_of(root)
    assert keys(rows) == {"train": ["a.jpg"]}
    assert [reject.key for reject in rejects] == [f"JPEGImages/{name}.jpg" for name in "bcde"]
    assert [reject.source for reject in rejects] == [str(root / f"Annotations/{name}.xml") for name in "bcde"]
    assert [reject.reason.partition(":")[0] for reject in rejects] == [
        "no well-formed XML",
        "<!DOCTYPE in it",
        "object 1 ('dog')",
        "it has more than 8388608 bytes, which no such file needs",
    ]


def test_pictures_without_annotations(tmp_path: Path) -> None:
    root = make(tmp_path, {"a": xml("dog")}, ["a.jpg", "b.jpg"], train=["a", "b"])
    rows, (reject,), _ = rows_of(root)
    assert keys(rows) == {"train": ["a.jpg"]}
    assert reject.key == "JPEGImages/b.jpg"
    assert reject.source == f"{root}/ImageSets/Main/train.txt, line 2"
    assert reject.reason == "no annotation b.xml; --missing null keeps such pictures, without boxes"
    rows, rejects, survey = rows_of(root, missing=Missing.SKIP)
    assert (keys(rows), rejects) == ({"train": ["a.jpg"]}, [])
    assert survey.skipped_names == {"no_annotation": ("b",)}
    rows, rejects, survey = rows_of(root, missing=Missing.NULL)
    assert (keys(rows), rejects) == ({"train": ["a.jpg", "b.jpg"]}, [])
    assert rows["train"][1]["boxes"] is None
    assert rows["train"][1]["labels"] is None
    assert "pictures without an annotation: 1" in survey.warnings[0]
    (root / "ImageSets/Main/train.txt").unlink()
    (root / "ImageSets/Main").rmdir()
    (root / "ImageSets").rmdir()
    _, (reject,), _ = rows_of(root)
    assert reject.source == f"{root}/JPEGImages/b.jpg"


def test_a_set_of_masks_alone(tmp_path: Path) -> None:
    root = make(tmp_path, {}, ["a.jpg", "b.jpg"])
    (root / "Annotations").rmdir()
    (root / "SegmentationClass").mkdir()
    (root / "SegmentationClass/a.png").write_bytes(encode(picture(2).quantize(8), "PNG"))
    assert find_kind([str(root)]) == "voc"
    rows, rejects, survey = rows_of(root)
    assert rejects == []
    assert [column.name for column in survey.columns] == ["image", "mask"]
    assert [row["mask"] is None for row in rows["train"]] == [False, True]
    assert rows_of(root, missing=Missing.SKIP)[0] == rows
    assert survey.classes == {}


def test_annotations_without_pictures(tmp_path: Path) -> None:
    root = make(tmp_path, {"a": xml("dog"), "b": xml("dog"), "c": xml("dog")}, ["a.jpg"], train=["a", "b"])
    rows, (reject,), survey = rows_of(root)
    assert keys(rows) == {"train": ["a.jpg"]}
    assert reject.reason == "column 'image': there is no file 'JPEGImages/b.jpg'"
    assert reject.source == f"{root}/ImageSets/Main/train.txt, line 2"
    assert survey.skipped_names["no_picture"] == ("Annotations/c.xml",)
    _, rejects, survey = rows_of(root, missing=Missing.SKIP)
    assert rejects == []
    assert survey.skipped["missing_files"] == 1
    rows, rejects, _ = rows_of(root, missing=Missing.NULL)
    assert [(row["image"] is None, row["labels"]) for row in rows["train"]] == [(False, [11]), (True, [11])]


def test_lists_that_leave_the_folder(tmp_path: Path) -> None:
    root = make(tmp_path / "in", {"a": xml("dog")}, train=["a", "../../secret", "/etc/passwd"])
    (tmp_path / "secret.jpg").write_bytes(PHOTO)
    rows, rejects, _ = rows_of(root, missing=Missing.NULL)
    # What is absolute is looked for inside the folder, as every name of a list is.
    assert keys(rows) == {"train": ["a.jpg", "passwd.jpg"]}
    assert [row["image"] is None for row in rows["train"]] == [False, True]
    (reject,) = rejects
    assert "leaves its folder by '..'" in reject.reason
    make(root, {}, ["a.jpg"], train=["a", "https://user:secret@host/b?token=1"])
    _, (reject,), _ = rows_of(root)
    assert (reject.source, reject.key) == (f"{root}/ImageSets/Main/train.txt, line 2", "ImageSets/Main/train.txt#2")
    assert "is a URL" in reject.reason
    assert "secret" not in reject.reason
    assert "token" not in reject.reason


def test_links_that_leave_the_folder(tmp_path: Path) -> None:
    root = make(tmp_path / "in", {"a": xml("dog")})
    (tmp_path / "b.xml").write_text(xml("cat"))
    (tmp_path / "b.jpg").write_bytes(PHOTO)
    for folder, name in (("Annotations", "b.xml"), ("JPEGImages", "b.jpg")):
        (root / folder / name).symlink_to(tmp_path / name)
    with pytest.raises(SourceError, match=r"is a link that leads out of .*--follow-links"):
        rows_of(root)
    assert keys(rows_of(root, follow_links=True)[0]) == {"train": ["a.jpg", "b.jpg"]}


def test_names_that_are_no_text(tmp_path: Path) -> None:
    root = make(tmp_path, {"a": xml("dog")})
    for folder, ending in (("Annotations", b"xml"), ("JPEGImages", b"jpg")):
        with open(os.path.join(os.fsencode(root / folder), b"\xff." + ending), "wb") as file:
            file.write(PHOTO if ending == b"jpg" else xml("dog").encode())
    rows, (reject,), _ = rows_of(root)
    assert keys(rows) == {"train": ["a.jpg"]}
    assert (reject.key, reject.reason) == ("JPEGImages/\\xff.jpg", "the file's name is not valid UTF-8")


def test_what_is_odd_is_told(tmp_path: Path) -> None:
    odd = {
        "a": xml("dog", "dog", box=(0, 1, 5, 5)),
        "b": xml("dog", box=(1, 1, 65, 48)),
        "c": xml("dog", filename="../x.jpg"),
        "d": xml("dog", filename="d.png"),
    }
    rows, rejects, survey = rows_of(make(tmp_path, odd))
    assert rejects == []
    assert [row["boxes"][0] for row in rows["train"][:2]] == [[0, 1, 5, 5], [1, 1, 65, 48]]
    assert [warning.partition(".")[0] for warning in survey.warnings] == [
        "boxes that reach beyond the <size> of their picture: 1",
        "boxes that begin at 0: 2",
        "annotations whose <filename> is of another picture: 1, as in 'Annotations/c",
    ]


def test_patterns(tmp_path: Path) -> None:
    root = make(tmp_path, {name: xml("dog") for name in "abc"}, train=["c", "a"], val=["b"])
    rows, rejects, survey = rows_of(root, exclude=("JPEGImages/a*",))
    assert (keys(rows), rejects) == ({"train": ["c.jpg"], "val": ["b.jpg"]}, [])
    assert survey.skipped_names["excluded"] == ("JPEGImages/a.jpg",)
    assert survey.skipped["no_picture"] == 0
    assert keys(rows_of(root, include=("*/a.jpg",))[0]) == {"train": ["a.jpg"], "val": []}
    (root / "JPEGImages/a.jpg").rename(root / "JPEGImages/a.png")
    (root / "JPEGImages/b.png").write_bytes(PHOTO)
    rows, rejects, _ = rows_of(root, exclude=("*.png",))
    assert (keys(rows), rejects) == ({"train": ["c.jpg"], "val": ["b.jpg"]}, [])


def test_years_with_and_without_lists(tmp_path: Path) -> None:
    make(tmp_path / "VOC2007", {"a": xml("dog")}, train=["a"])
    make(tmp_path / "VOC2012", {"b": xml("dog")})
    with pytest.raises(SourceError, match="has no folder ImageSets"):
        rows_of(tmp_path)
