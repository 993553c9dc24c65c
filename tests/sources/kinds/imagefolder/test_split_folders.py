"""Which folders of an image folder are splits, which are left out, and what is refused because it would be classes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import NotFoundError, SourceError, UsageError
from toolkit.sources.kinds.imagefolder.scan import ImageFolderOptions, Scan, scan_imagefolder
from toolkit.sources.options import LabelMode


def grow(root: Path, *names: str) -> Path:
    """Write a one-byte file per name; a name that ends in "/" is an empty folder."""
    for name in names:
        path = root / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(b"x")
    return root


def scanned(root: Path, **options: Any) -> Scan:
    return scan_imagefolder(root, ImageFolderOptions(**options))


def held(scan: Scan) -> dict[str, list[str]]:
    return {split: [entry.key for entry in entries] for split, entries in scan.splits.items()}


@pytest.mark.parametrize(
    ("names", "cause", "advice"),
    [
        (["train/a/1.jpg", "val/a/2.jpg", "annotations/"], "beside 'annotations'", "--splits train=train,val=val"),
        (
            ["Train/a/1.jpg", "Test/a/2.jpg"],
            "called train, val, valid, validation, test, in lower",
            "--splits train=Train,test=Test",
        ),
        (["train/1.jpg", "dev/2.jpg"], "are called train, val", "--splits train=train,dev=dev"),
        (["train/1.jpg", "TEST/2.jpg", "x/3.jpg"], "beside 'x'", "--splits train=train,test=TEST"),
        (["train2017/1.jpg", "val2017/2.jpg", "other/"], "beside 'other'", "train=train2017,val=val2017"),
        (["photos/train/a/1.jpg", "photos/val/a/2.jpg"], "lie in the folder 'photos'", "train=photos/train,val=photos"),
        (
            ["images/Train/1.jpg", "images/Dev/2.jpg", "masks/Train/1.jpg"],
            "in the folder 'images'",
            "images' as SOURCE",
        ),
        (["train/1.jpg", "valid/2.jpg", "test/3.jpg", "test2/4.jpg"], "are called", "test=test,test2"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"label_mode": LabelMode.NONE}, {"split": "train"}, {"split": "VAL"}])
def test_what_would_mix_splits_is_refused(
    tmp_path: Path, names: list[str], cause: str, advice: str, options: dict[str, Any]
) -> None:
    grow(tmp_path, *names)
    with pytest.raises(SourceError, match="look like splits") as caught:
        scanned(tmp_path, **options)
    assert cause in str(caught.value)
    assert advice in str(caught.value)


def test_the_advice_of_a_refusal_can_be_followed(tmp_path: Path) -> None:
    grow(tmp_path, "Train/cat/1.jpg", "Test/cat/2.jpg", "dev/dog/3.jpg", "annotations/x.json", "read.me", ".git/x")
    scan = scanned(tmp_path, splits={"train": ("Train",), "val": ("dev", "Test")})
    assert held(scan) == {"train": ["Train/cat/1.jpg"], "val": ["Test/cat/2.jpg", "dev/dog/3.jpg"]}
    assert scan.classes == ("cat", "dog")
    assert scan.left_out == ("annotations/", "read.me")
    assert scan.doubts == ()
    scan = scanned(tmp_path, splits={"train": ("Train",)})
    assert scan.left_out == ("Test/", "annotations/", "dev/", "read.me")

    whole = scanned(tmp_path, split="all")
    assert list(whole.splits) == ["all"]
    assert whole.classes == ("Test", "Train", "annotations", "dev")
    assert "'Test', 'Train', 'dev' became class names" in whole.doubts[0]
    named = scanned(tmp_path, classes=("Test", "Train", "annotations", "dev"))
    assert named.classes == ("Test", "Train", "annotations", "dev")


def test_folders_that_lie_deeper_and_what_lies_beside_them(tmp_path: Path) -> None:
    grow(tmp_path, "images/train/a/1.jpg", "images/val/b/2.jpg", "images/extra/c/3.jpg", "images/x.jpg", "labels/1.txt")
    scan = scanned(tmp_path, splits={"train": ("images/train",), "val": ("images/val",)})
    assert held(scan) == {"train": ["images/train/a/1.jpg"], "val": ["images/val/b/2.jpg"]}
    assert scan.classes == ("a", "b")
    assert scan.left_out == ("labels/", "images/extra/", "images/x.jpg")
    assert scanned(tmp_path, splits={"train": ("images/train",), "val": ("images/val",)}, split="val").classes == (
        "a",
        "b",
    )


def test_folders_of_one_split_are_in_the_order_of_their_names(tmp_path: Path) -> None:
    grow(tmp_path, "b/k/1.jpg", "a/k/2.jpg", "a b/k/3.jpg")
    one = scanned(tmp_path, splits={"train": ("b", "a", "a b")})
    assert held(one) == held(scanned(tmp_path, splits={"train": ("a", "a b", "b")}))
    assert held(one) == {"train": ["a/k/2.jpg", "a b/k/3.jpg", "b/k/1.jpg"]}


@pytest.mark.parametrize(
    ("splits", "error", "says"),
    [
        ({"train": ("Trian",)}, NotFoundError, "no folder 'Trian'.*Did you mean 'Train'"),
        ({"train": ("read.me",)}, NotFoundError, "no folder 'read.me'.*Folders there: 'Train', 'dev'"),
        ({"train": ("nowhere/train",)}, NotFoundError, "no folder 'nowhere/train'"),
        ({"train": ("..",)}, UsageError, "no folder below the source"),
        ({"train": ("/etc",)}, UsageError, "no folder below the source"),
        ({"train": ("",)}, UsageError, "no folder below the source"),
        ({"train": ()}, UsageError, "has no folder"),
        ({"a b": ("Train",)}, UsageError, "can't name a split"),
        ({"train": ("Train",), "val": ("Train/cat",)}, UsageError, "belongs to one split"),
        ({"train": ("Train", "Train")}, UsageError, "belongs to one split"),
    ],
)
def test_mappings_that_can_not_be_taken(
    tmp_path: Path, splits: dict[str, tuple[str, ...]], error: type[Exception], says: str
) -> None:
    grow(tmp_path, "Train/cat/1.jpg", "dev/cat/2.jpg", "read.me")
    with pytest.raises(error, match=says):
        scanned(tmp_path, splits=splits)


def test_a_split_that_is_not_mapped(tmp_path: Path) -> None:
    grow(tmp_path, "Train/cat/1.jpg")
    with pytest.raises(NotFoundError, match=r"gives no split 'Train', only train\. Did you mean 'train'"):
        scanned(tmp_path, splits={"train": ("Train",)}, split="Train")


def test_a_link_from_a_mapped_folder_back_above_it_is_not_followed(tmp_path: Path) -> None:
    grow(tmp_path, "a/b/train/1.jpg")
    os.symlink("../..", tmp_path / "a/b/train/loop")
    assert held(scanned(tmp_path, splits={"train": ("a/b/train",)})) == {"train": ["a/b/train/1.jpg"]}


# --- include and exclude ----------------------------------------------------------------------------------------


def test_patterns_choose_images_and_classes_follow(tmp_path: Path) -> None:
    grow(tmp_path, "images/1.jpg", "images/2.png", "masks/1.png", "empty/")
    scan = scanned(tmp_path, exclude=("masks/*",))
    assert held(scan) == {"train": ["images/1.jpg", "images/2.png"]}
    assert (scan.classes, scan.excluded) == (("empty", "images"), 1)
    assert scanned(tmp_path, exclude=("masks",)).classes == ("empty", "images")
    assert scanned(tmp_path, exclude=("masks/",)).classes == ("empty", "images")
    scan = scanned(tmp_path, include=("*.png",))
    assert held(scan) == {"train": ["images/2.png", "masks/1.png"]}
    assert (scan.classes, scan.excluded) == (("empty", "images", "masks"), 1)
    scan = scanned(tmp_path, include=("images/*",), exclude=("*/2.*",))
    assert held(scan) == {"train": ["images/1.jpg"]}
    assert scan.classes == ("empty", "images")
    with pytest.raises(SourceError, match="--include and --exclude leave out all 3 images"):
        scanned(tmp_path, include=("*.gif",))


@pytest.mark.parametrize(
    "options",
    [
        {"exclude": ("annotations/*",)},
        {"exclude": ("annotations",)},
        {"include": ("train/*", "val/*")},
        {"exclude": ("anno*",), "include": ("*/cat/*",)},
    ],
)
def test_what_patterns_leave_out_is_not_beside_split_folders(tmp_path: Path, options: dict[str, Any]) -> None:
    grow(tmp_path, "train/cat/1.jpg", "val/cat/2.jpg", "annotations/1.png")
    scan = scanned(tmp_path, **options)
    assert held(scan) == {"train": ["train/cat/1.jpg"], "val": ["val/cat/2.jpg"]}
    assert scan.classes == ("cat",)
    assert (scan.excluded, scan.skipped_names) == (1, {"excluded": ("annotations",)})


def test_an_image_beside_split_folders_that_is_left_out(tmp_path: Path) -> None:
    grow(tmp_path, "train/cat/1.jpg", "val/cat/2.jpg", "preview.jpg")
    assert list(scanned(tmp_path, exclude=("preview.jpg",)).splits) == ["train", "val"]


# --- doubtful classes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["images/1.jpg", "masks/1.png"], "'images', 'masks' became class names"),
        (["Images/1.jpg", "labels/1.txt"], "'Images', 'labels' became class names"),
        (["images/1.jpg"], "'images' became class names"),
        (["train/images/1.jpg", "train/labels/1.txt", "val/images/2.jpg"], "'images', 'labels' became class names"),
        (["train/1.jpg", "extra/2.jpg"], "'train' became class names, not splits: beside 'extra'"),
        (["Val/1.jpg"], "'Val' became class names, not splits: split folders are written in lower case"),
    ],
)
def test_class_names_that_are_doubtful(tmp_path: Path, names: list[str], says: str) -> None:
    grow(tmp_path, *names)
    (doubt,) = scanned(tmp_path).doubts
    assert says in doubt
    assert scanned(tmp_path, label_mode=LabelMode.NONE).doubts == ()


@pytest.mark.parametrize("names", [["cat/1.jpg", "dog/2.jpg"], ["mask/1.jpg", "no_mask/2.jpg"], ["1.jpg"]])
def test_class_names_that_are_not(tmp_path: Path, names: list[str]) -> None:
    assert scanned(grow(tmp_path, *names)).doubts == ()
