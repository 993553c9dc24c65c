"""COCO annotations: what pycocotools reads of them, how folders lie, and what is wrong with files and samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from command import program
from pictures import encode, make_folder, picture
from sources.cocos import CATEGORIES, HEIGHT, WIDTH, box, document, image, photos, write
from sources.web import Web, plain

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import NotFoundError, RejectsError, SourceError, UsageError
from toolkit.format.schema import KEY
from toolkit.pack.job import OnExisting, PackJob, PackResult
from toolkit.pack.run import pack, plan
from toolkit.sources.detect import find_kind
from toolkit.sources.kinds.coco.rle import run_lengths
from toolkit.sources.make import make_source
from toolkit.sources.options import LabelMode, Missing, SourceOptions

GOLDEN = Path(__file__).parents[3] / "golden"


def packed(source: Path, to: Path, **options: Any) -> PackResult:
    return pack(PackJob(source=str(source), dataset=str(to / "ds"), on_existing=OnExisting.OVERWRITE, **options))


def samples(root: Path, split: str = "train") -> dict[str, dict[str, Any]]:
    return {one[KEY]: one for one in toolkit.open(root / "ds", split=split)}


def rejects(source: Path, **options: Any) -> dict[str, str]:
    """What is rejected, by its key; the other samples are read."""
    _, made = make_source("coco", SourceOptions(paths=(str(source),), slice_bytes=1 << 30, **options))
    survey = made.survey()
    found = {one.key: one.reason for one in survey.rejects}
    assert all(str(source) in one.source for one in survey.rejects)
    for part in survey.slices:
        for rows in made.read(survey, part):
            found |= {one.key: one.reason for one in rows.rejects}
    return found


# --- what pycocotools says ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("coco")
    packed(GOLDEN / "coco", root)
    return root


@pytest.mark.parametrize("split", ["train", "val"])
def test_values_are_those_of_pycocotools(golden: Path, split: str) -> None:
    expected = json.loads((GOLDEN / "coco.json").read_text())[f"{split}2017"]
    found = samples(golden, split)
    classes = toolkit.open(golden / "ds", split=split).classes
    assert classes == ("person", "car", "dog", "toothbrush")
    assert list(found) == sorted(expected)
    seen = 0
    for key, one in expected.items():
        sample, annotations = found[key], one["annotations"]
        assert sample["image"] == (GOLDEN / "coco" / key).read_bytes()
        assert sample["image_id"] == one["image_id"]
        assert [classes[i] for i in sample["labels"]] == one["names"]
        for column, field in (
            ("boxes", "bbox"),
            ("areas", "area"),
            ("iscrowd", "iscrowd"),
            ("annotation_ids", "id"),
        ):
            assert sample[column] == [each[field] for each in annotations]
        masks = json.loads(sample["segmentation"])
        assert masks == [each["segmentation"] for each in annotations]
        for mask, theirs in zip(masks, one["masks"], strict=True):
            assert run_lengths(theirs["counts"]) == theirs["runs"]
            if isinstance(mask, dict):
                runs = mask["counts"]
                assert (run_lengths(runs) if isinstance(runs, str) else runs) == theirs["runs"]
                seen += 1
        points = [one["keypoints"].get(str(each["id"]), [None, None]) for each in annotations]
        assert [sample["keypoints"], sample["num_keypoints"]] == [list(each) for each in zip(*points, strict=True)] or (
            not points and sample["keypoints"] == []
        )
        assert sample["captions"] == one["captions"]
    assert seen > 0


def test_options_say_what_values_mean(golden: Path) -> None:
    options = toolkit.open(golden / "ds", split="train").manifest.options
    assert options["boxes"] == "xywh"
    assert options["category_ids"] == [1, 3, 18, 90]
    joints = {"names": ["nose", "left_eye", "right_eye"], "skeleton": [[1, 2], [1, 3]]}
    assert options["keypoints"] == {"person": joints}
    assert verify(golden / "ds", full=True, decode=True).findings == ()


def test_what_is_left_out_is_counted_and_no_url_is_written(golden: Path, tmp_path: Path) -> None:
    result = packed(GOLDEN / "coco", tmp_path)
    assert result.warnings == ()
    names = result.skipped_names["left_out_fields"]
    assert result.skipped["left_out_fields"] == len(names) == 24  # four fields of images in six files
    assert names[0] == "annotations/captions_train2017.json: images.coco_url"
    written = b"".join(path.read_bytes() for path in sorted((tmp_path / "ds").rglob("*")) if path.is_file())
    assert b"example.org" not in written


def test_pictures_are_those_of_the_folder(golden: Path, tmp_path: Path) -> None:
    """Keys, bytes and facts, if the folders are packed as pictures."""
    splits = {"train": ("train2017",), "val": ("val2017",)}
    job = PackJob(source=str(GOLDEN / "coco"), dataset=str(tmp_path / "ds"), source_kind="imagefolder", splits=splits)
    pack(job)
    for split in splits:
        mine, theirs = samples(golden, split), samples(tmp_path, split)
        assert {key: one["image"] for key, one in mine.items()} == {key: one["image"] for key, one in theirs.items()}
        assert list(mine) == list(theirs)
    pack(replace(job, dataset=str(tmp_path / "plain"), label_mode=LabelMode.NONE))
    packed(GOLDEN / "coco", tmp_path / "boxed", columns=("image",))
    for split in splits:
        opened = [toolkit.open(tmp_path / name, split=split) for name in ("plain", "boxed/ds")]
        one, other = [[pa.ipc.open_file(path).read_all() for path in each.files] for each in opened]
        assert [table.to_pylist() for table in one] == [table.to_pylist() for table in other]  # with digests


def test_one_split_has_the_ids_of_all(golden: Path, tmp_path: Path) -> None:
    shown = packed(GOLDEN / "coco", tmp_path, split="val")
    assert shown.splits == {"val": 3}
    assert shown.warnings == ()  # pictures of the other split are named there
    assert samples(tmp_path, "val") == samples(golden, "val")
    assert toolkit.open(tmp_path / "ds", split="val").classes == toolkit.open(golden / "ds", split="val").classes
    with pytest.raises(NotFoundError, match="the splits train, val, not 'test'"):
        packed(GOLDEN / "coco", tmp_path, split="test")


def test_a_class_that_only_another_split_has_moves_no_id(tmp_path: Path) -> None:
    photos(tmp_path / "in", "train/1.jpg", "val/1.jpg")
    write(tmp_path / "in/annotations/a_train.json", document([image(1)], [box(1, 1, 2)], CATEGORIES[1:]))
    write(tmp_path / "in/annotations/a_val.json", document([image(1)], [box(1, 1, 7)], CATEGORIES[:1]))
    for split in (None, "val"):
        packed(tmp_path / "in", tmp_path, split=split)
        assert samples(tmp_path, "val")["val/1.jpg"]["labels"] == [1]
        assert toolkit.open(tmp_path / "ds", split="val").classes == ("dog", "cat")


# --- where files lie ------------------------------------------------------------------------------------------------


def roboflow(root: Path) -> dict[str, list[str]]:
    for split in ("train", "valid"):
        photos(root / split, "1.jpg")
        write(root / split / "_annotations.coco.json", document([image(1)], [box(1, 1)]))
    return {"train": ["train/1.jpg"], "valid": ["valid/1.jpg"]}


def fiftyone(root: Path) -> dict[str, list[str]]:
    photos(root / "data", "1.jpg", "sub/2.jpg")
    write(root / "labels.json", document([image(1), image(2, "sub/2.jpg")], [box(1, 1)]))
    return {"train": ["data/1.jpg", "data/sub/2.jpg"]}


def cvat(root: Path) -> dict[str, list[str]]:
    photos(root / "images/default", "1.jpg")
    write(root / "annotations/instances_default.json", document([image(1)], [box(1, 1)]))
    return {"train": ["images/default/1.jpg"]}


def in_images(root: Path) -> dict[str, list[str]]:
    photos(root / "images", "train2014/1.jpg", "val2014/1.jpg")
    for split in ("train2014", "val2014"):
        write(root / f"annotations/instances_{split}.json", document([image(1)], [box(1, 1)]))
    return {"train": ["images/train2014/1.jpg"], "val": ["images/val2014/1.jpg"]}


def whole_names(root: Path) -> dict[str, list[str]]:
    photos(root, "images/train/1.jpg")
    write(root / "annotations/instances_train.json", document([image(1, "images/train/1.jpg")], [box(1, 1)]))
    return {"train": ["images/train/1.jpg"]}


@pytest.mark.parametrize("lay", [roboflow, fiftyone, cvat, in_images, whole_names])
def test_folders_as_tools_write_them(tmp_path: Path, lay: Callable[[Path], dict[str, list[str]]]) -> None:
    expected = lay(tmp_path / "in")
    assert find_kind([str(tmp_path / "in")]) == "coco"
    result = packed(tmp_path / "in", tmp_path)
    assert {split: list(samples(tmp_path, split)) for split in result.splits} == expected
    assert result.warnings == ()
    first = next(iter(expected))
    sample = samples(tmp_path, first)[expected[first][0]]
    assert (sample["boxes"], sample["labels"]) == ([[1, 2, 3.5, 4]], [0])


def test_one_file_with_a_root(tmp_path: Path) -> None:
    photos(tmp_path / "photos", "a/1.jpg", "a/2.jpg")
    file = write(tmp_path / "my.json", document([image(1, "a/1.jpg")], [box(1, 1)]))
    assert find_kind([str(file)]) == "coco"
    result = packed(file, tmp_path, root=str(tmp_path / "photos"), split="mine")
    assert result.splits == {"mine": 1}
    assert list(samples(tmp_path, "mine")) == ["a/1.jpg"]
    assert result.skipped_names["unlisted"] == ("a/2.jpg",)
    with pytest.raises(SourceError, match=r"none of its images is there, 'a/1.jpg' for one.*--root"):
        packed(file, tmp_path)
    line = program("pack", file, tmp_path / "cli", "--root", tmp_path / "photos")
    assert line.code == 0, line.err


def test_other_folders_are_none(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", {"train/cat": 2})
    write(tmp_path / "in/metadata.json", {"info": {"images": []}})
    write(tmp_path / "in/more.json", '{"annotations": {"a": []}}')
    assert find_kind([str(tmp_path / "in")]) == "imagefolder"


def test_unlisted_and_panoptic_files_and_annotations_of_no_image_are_told(tmp_path: Path) -> None:
    photos(tmp_path / "in/train2017", "1.jpg", "2.jpg")
    write(
        tmp_path / "in/annotations/instances_train2017.json", document([image(1)], [box(1, 1), box(5, 99), box(6, 99)])
    )
    write(tmp_path / "in/annotations/panoptic_train2017.json", document([image(1)]))
    result = packed(tmp_path / "in", tmp_path)
    assert result.skipped["no_picture"] == 2
    assert result.skipped_names["no_picture"][0] == "annotations/instances_train2017.json: annotation 5 of image 99"
    assert result.skipped_names["unlisted"] == ("train2017/2.jpg",)
    assert result.skipped_names["panoptic"] == ("annotations/panoptic_train2017.json",)
    assert len(result.warnings) == 1
    assert samples(tmp_path)["train2017/1.jpg"]["annotation_ids"] == [1]


@pytest.mark.parametrize("missing", Missing)
def test_a_picture_that_is_not_there(tmp_path: Path, missing: Missing) -> None:
    photos(tmp_path / "in/train", "1.jpg")
    write(tmp_path / "in/annotations/a_train.json", document([image(1), image(2)], [box(1, 1), box(2, 2)]))
    if missing is Missing.ERROR:
        with pytest.raises(RejectsError):
            packed(tmp_path / "in", tmp_path)
        assert rejects(tmp_path / "in") == {"train/2.jpg": "column 'image': there is no file 'train/2.jpg'"}
        return
    result = packed(tmp_path / "in", tmp_path, missing=missing)
    assert result.samples == (2 if missing is Missing.NULL else 1)
    if missing is Missing.NULL:
        assert samples(tmp_path)["train/2.jpg"]["image"] is None
    else:
        assert result.skipped["missing_files"] == 1


# --- several files of a split ---------------------------------------------------------------------------------------


def test_what_a_split_knows_nothing_of_is_null(tmp_path: Path) -> None:
    photos(tmp_path / "in", "train/1.jpg", "train/2.jpg", "val/1.jpg", "test/1.jpg")
    write(tmp_path / "in/annotations/instances_train.json", document([image(1), image(2)], [box(1, 1)]))
    captions = [{"id": 1, "image_id": 1, "caption": "a cat"}, {"id": 2, "image_id": 1, "caption": ""}]
    write(tmp_path / "in/annotations/captions_val.json", document([image(1)], captions, ()))
    write(tmp_path / "in/annotations/image_info_test.json", {"images": [image(1)], "categories": list(CATEGORIES)})
    packed(tmp_path / "in", tmp_path)
    train = samples(tmp_path)
    assert [train[f"train/{i}.jpg"]["labels"] for i in (1, 2)] == [[0], []]
    assert [train[f"train/{i}.jpg"]["captions"] for i in (1, 2)] == [None, None]
    val = samples(tmp_path, "val")["val/1.jpg"]
    assert (val["labels"], val["boxes"], val["captions"]) == (None, None, ["a cat", ""])
    test = samples(tmp_path, "test")["test/1.jpg"]
    assert (test["labels"], test["boxes"], test["captions"]) == (None, None, None)
    assert verify(tmp_path / "ds", full=True).findings == ()


def test_files_of_one_split_that_count_their_annotations_each_are_not_merged(tmp_path: Path) -> None:
    photos(tmp_path / "in/train", "1.jpg", "2.jpg")
    one, other = [box(1, 1), box(2, 2)], [box(1, 1, bbox=[0, 0, 1, 1]), box(2, 1)]
    write(tmp_path / "in/annotations/a_train.json", document([image(1), image(2)], one))
    write(tmp_path / "in/annotations/b_train.json", document([image(1), image(2)], other))
    packed(tmp_path / "in", tmp_path)
    assert [one["annotation_ids"] for one in samples(tmp_path).values()] == [[1, 1, 2], [2]]


def test_files_of_one_split_that_mean_other_images_are_refused(tmp_path: Path) -> None:
    photos(tmp_path / "in/train", "1.jpg", "2.jpg")
    write(tmp_path / "in/annotations/a_train.json", document([image(1)]))
    write(tmp_path / "in/annotations/b_train.json", document([image(1, "2.jpg")]))
    with pytest.raises(SourceError, match=r"b_train.json': image 1 is '2.jpg', and in .*a_train.json' '1.jpg'"):
        packed(tmp_path / "in", tmp_path)


# --- classes --------------------------------------------------------------------------------------------------------


def test_given_classes_and_appends_keep_ids(tmp_path: Path) -> None:
    for name, categories in (("one", CATEGORIES), ("two", [{"id": 1, "name": "dog"}, {"id": 7, "name": "emu"}])):
        photos(tmp_path / name / "train", f"{name}.jpg")
        made = document([image(1, f"{name}.jpg")], [box(1, 1), box(2, 1, categories[0]["id"])], categories)
        write(tmp_path / name / "annotations/a_train.json", made)
    packed(tmp_path / "one", tmp_path, classes=("dog", "cat"))
    assert samples(tmp_path)["train/one.jpg"]["labels"] == [1, 1]
    assert toolkit.open(tmp_path / "ds", split="train").classes == ("dog", "cat")
    assert toolkit.open(tmp_path / "ds", split="train").manifest.options["category_ids"] == [2, 7]
    packed(tmp_path / "one", tmp_path)
    job = PackJob(source=str(tmp_path / "two"), dataset=str(tmp_path / "ds"), on_existing=OnExisting.APPEND)
    with pytest.raises(SourceError, match="1 classes of 'labels' are not in the dataset, 'emu' the first"):
        pack(job)
    pack(PackJob(**{**vars(job), "extend_classes": True}))
    assert toolkit.open(tmp_path / "ds", split="train").classes == ("cat", "dog", "emu")
    assert samples(tmp_path)["train/two.jpg"]["labels"] == [2, 1]
    assert verify(tmp_path / "ds", full=True).findings == ()


# --- samples that can't be right -------------------------------------------------------------------------------------


def masks(counts: object, height: int = HEIGHT, width: int = WIDTH) -> dict[str, Any]:
    return {"segmentation": {"counts": counts, "size": [height, width]}}


BAD = {
    "there is no category 5": {"category_id": 5},
    "it has no category_id": {"category_id": None},
    "its box has 3 numbers, not 4": {"bbox": [1, 2, 3]},
    "its box has the size -1 x 3": {"bbox": [1, 2, -1, 3]},
    "Expected `float`, got `str` - at `$.bbox[1]`": {"bbox": [1, "2", 3, 4]},
    "Number out of range - at `$.bbox[0]`": {"bbox": "[1e999, 2, 3, 4]"},
    "a polygon of 5 numbers, which are no pairs": {"segmentation": [[1, 2, 3, 4, 5]]},
    "neither polygons nor run lengths: Expected `float`": {"segmentation": [["a"]]},
    "its run lengths add up to 383 pixels of 16 x 24": masks([383]),
    "its run lengths add up to 385 pixels of 16 x 24": masks([0, 1, 384]),
    "neither polygons nor run lengths: Expected `int` >= 0": masks([385, -1]),
    "1099511627776 x 1099511627776 pixels, which no picture": masks([0], 2**40, 2**40),
    "16777216 x 1 pixels, the picture has 16 x 24": masks([1 << 24], 1 << 24, 1),
    "end within a number": masks("o"),
    "hold the character '\\x7f', which they can't": masks("\x7f"),
    "a number of too many characters": masks("o" * 50),
    "hold the length -1": masks("O"),
    "it has 1 keypoints, its category 2": {"keypoints": [1, 2, 3]},
    "are 2 numbers, which are no triples": {"keypoints": [1, 2]},
    "Expected `int` <= 1 - at `$.iscrowd`": {"iscrowd": 2},
}


@pytest.mark.parametrize("says", BAD)
def test_a_sample_that_can_not_be_right_is_rejected(tmp_path: Path, says: str) -> None:
    photos(tmp_path / "in/train", "1.jpg", "2.jpg")
    joints = [{**CATEGORIES[0], "keypoints": ["a", "b"]}, CATEGORIES[1]]
    made = json.dumps(document([image(1), image(2)], [box(4, 1), {**box(5, 2), **BAD[says]}], joints))
    write(tmp_path / "in/annotations/a_train.json", made.replace('"[1e999', "[1e999").replace('4]"', "4]"))
    ((key, reason),) = rejects(tmp_path / "in").items()
    assert key == "train/2.jpg"
    assert reason.startswith(("annotation 5: ", "annotations[1]: "))
    assert says in reason


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("../1.jpg", "the path '../1.jpg' leaves its folder by '..'"),
        ("/etc/hostname", "the path '/etc/hostname' is absolute"),
        ("http://me:secret@example.org/x.jpg?key=secret", "http://example.org is a URL; only files are read"),
        ("", "there is no path"),
        ("a\0.jpg", "the path holds the character NUL"),
    ],
)
def test_names_that_leave_the_root_are_rejected(tmp_path: Path, name: str, says: str) -> None:
    photos(tmp_path / "in", "1.jpg", "train/2.jpg")
    made = document([image(2), image(1)])
    made["images"][1]["file_name"] = name
    write(tmp_path / "in/annotations/a_train.json", made)
    ((key, reason),) = rejects(tmp_path / "in").items()
    assert says in reason
    assert "secret" not in key + reason


def test_names_that_are_urls_are_fetched_if_that_is_asked_for(tmp_path: Path) -> None:
    data = encode(picture(1, WIDTH, HEIGHT))
    with Web({"/a.jpg?key=hidden": plain(data)}) as web:
        photos(tmp_path / "in", "train/1.jpg")
        images = [image(1), image(2, web.url("/a.jpg?key=hidden"))]
        write(tmp_path / "in/annotations/a_train.json", document(images, [box(1, 1), box(2, 2, 2)]))
        ((key, reason),) = rejects(tmp_path / "in").items()
        assert "--fetch-urls" in reason
        packed(tmp_path / "in", tmp_path, fetch_urls=True, fetch_hosts=("localhost",))
        found = samples(tmp_path)
        assert list(found) == [web.url("/a.jpg"), "train/1.jpg"]
        assert (found[web.url("/a.jpg")]["image"], found[web.url("/a.jpg")]["labels"]) == (data, [1])
        assert "hidden" not in key + reason


def test_no_url_is_told(tmp_path: Path) -> None:
    secret = "http://me:secret@example.org/x.jpg?key=secret"
    photos(tmp_path / "in", "1.jpg", "train/2.jpg")
    file = tmp_path / "in/annotations/a_train.json"
    write(file, document([image(2), image(1, secret)], [box(5, 1, 99), box(6, 1, bbox=[0, 0, 0, 1])]))
    assert rejects(tmp_path / "in") == {"annotations/a_train.json#1": "annotation 5: there is no category 99"}
    write(file, document([image(2), image(1, secret)], [box(6, 1, bbox=[0, 0, 0, 1])]))
    result = packed(tmp_path / "in", tmp_path, max_rejects=1)
    assert result.warnings[0] == "boxes without area: 1, a name that is no path here for one"
    written = b"".join(path.read_bytes() for path in sorted((tmp_path / "ds").rglob("*")) if path.is_file())
    assert b"secret" not in written
    for images in ([image(1, secret), image(1, secret)], [image(1, secret)]):
        write(file, document(images))
        write(file.with_name("b_train.json"), document([image(1, "1.jpg")]))
        with pytest.raises(SourceError, match="a name that is no path here") as caught:
            rejects(tmp_path / "in")
        assert "secret" not in str(caught.value)


def test_what_is_odd_is_packed_and_told(tmp_path: Path) -> None:
    photos(tmp_path / "in/train", "1.jpg")
    photos(tmp_path / "in/train", "2.jpg", width=50, height=40)
    boxes = [[0, 0, 0, 5], [20, 0, 10, 5], [-3, 0, 4, 4], [0, 0, WIDTH + 0.5, HEIGHT]]
    annotations = [box(i, 1, bbox=one) for i, one in enumerate(boxes)]
    annotations += [box(9, 2, segmentation=[[1, 2, 3, 4]]), box(10, 2, segmentation=[])]
    write(tmp_path / "in/annotations/a_train.json", document([image(1), image(2)], annotations))
    result = packed(tmp_path / "in", tmp_path)
    assert sorted(result.warnings) == [
        "boxes that reach beyond their pictures: 2, 'train/1.jpg' for one",
        "boxes without area: 1, 'train/1.jpg' for one",
        "pictures of another size than their annotations say, of 2 that were looked at: 1, "
        "'train/2.jpg' (50 x 40, not 24 x 16) for one",
        "segmentations with polygons of fewer than three points: 1, 'train/2.jpg' for one",
    ]
    assert samples(tmp_path)["train/1.jpg"]["boxes"] == boxes


def test_a_plan_reads_the_files_and_writes_nothing(tmp_path: Path) -> None:
    found = plan(PackJob(source=str(GOLDEN / "coco"), dataset=str(tmp_path / "ds")))
    assert {name: split.samples for name, split in found.splits.items()} == {"train": 6, "val": 3}
    assert found.classes == ("person", "car", "dog", "toothbrush")
    assert not (tmp_path / "ds").exists()


# --- files that can't be understood -----------------------------------------------------------------------------------


GOOD = json.dumps(document([image(1), image(2)], [box(1, 1)]))
FILES: dict[str, str | bytes | dict[str, Any]] = {
    "JSON is malformed: invalid character|Input data was truncated": GOOD[:-20],
    "JSON is malformed: invalid character": GOOD.replace("3.5", "NaN"),
    "it is nested too deeply": GOOD.replace("3.5", "[" * 100_000 + "]" * 100_000),
    'it has no "images"': '{"annotations": [], "info": {}}',
    "its images are no list": '{"images": {}, "annotations": []}',
    r"images\[1\]: Object missing required field `id`": GOOD.replace('"id": 2, "file', '"no": 2, "file'),
    r"images\[1\]: Expected `int`, got `str` - at `\$.id`": GOOD.replace('"id": 2, "file', '"id": "2", "file'),
    "the image id 1 comes twice, for '1.jpg' and 'b.jpg'": document([image(1), image(1, "b.jpg")]),
    "the category id 7 comes twice, for 'cat' and 'emu'": document([], [], [*CATEGORIES, {"id": 7, "name": "emu"}]),
    "the categories 7 and 9 are both called 'cat'": document([], [], [*CATEGORIES, {"id": 9, "name": "cat"}]),
    "an object has 2 fields called 'images'": GOOD.replace('"categories"', '"images": [], "categories"'),
    "an object has 2 fields called 'bbox'": GOOD.replace('"bbox"', '"bbox": [1, 2, 3, 4], "bbox"'),
    "an object has 2 fields called 'file_name'": GOOD.replace('"file_name": "2', '"file_name": "x", "file_name": "2'),
    r"annotations\[0\]: Object missing required field `image_id`": GOOD.replace('"image_id"', '"image"'),
    "its annotations are panoptic ones": document([image(1)], [{"image_id": 1, "segments_info": []}]),
    "has no images: nothing would be packed": document([]),
    "invalid utf-8|invalid start byte|utf-8": GOOD.encode().replace(b"1.jpg", b"\xff.jpg"),
}


@pytest.mark.parametrize("says", FILES)
def test_a_file_that_can_not_be_understood_is_an_error(tmp_path: Path, says: str) -> None:
    photos(tmp_path / "in/train", "1.jpg", "2.jpg")
    write(tmp_path / "in/annotations/a_train.json", FILES[says])
    with pytest.raises(SourceError, match=f"(?i)a_train.json'.*({says})"):
        rejects(tmp_path / "in")


def test_names_within_names_are_no_repeats(tmp_path: Path) -> None:
    photos(tmp_path / "in/train", "1.jpg", "bbox")
    odd = {"id": [1], "bbox": {"id": 2}}
    made = document([image(1), image(2, "bbox")], [box(1, 1, attributes=odd), box(2, 2)])
    write(tmp_path / "in/annotations/a_train.json", {"info": {"description": "images"}, **made})
    result = packed(tmp_path / "in", tmp_path)
    assert result.samples == 2
    assert result.skipped_names["left_out_fields"] == ("annotations/a_train.json: annotations.attributes",)


def test_options_that_fit_no_annotations(tmp_path: Path) -> None:
    photos(tmp_path / "in/train", "1.jpg")
    write(tmp_path / "in/annotations/a_train.json", document([image(1)], [box(1, 1)]))
    with pytest.raises(UsageError, match="--image-column means nothing for a source of kind coco"):
        packed(tmp_path / "in", tmp_path, image_column=("image",))
    packed(tmp_path / "in", tmp_path, columns=("image", "boxes"), rename={"boxes": "xywh"}, limit=1)
    assert list(samples(tmp_path)["train/1.jpg"]) == [KEY, "image", "xywh"]
