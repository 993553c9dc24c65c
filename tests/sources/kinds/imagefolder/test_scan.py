"""Splits, classes, labels, keys and messages of an image folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pictures import encode, picture

from toolkit.errors import NotFoundError, SourceError, UsageError
from toolkit.sources.kinds.imagefolder.scan import (
    Entry,
    ImageFolderOptions,
    Scan,
    scan_imagefolder,
)
from toolkit.sources.options import LabelMode


def grow(root: Path, *names: str) -> Path:
    """Write a one-byte file per name; a name that ends in "/" is an empty folder."""
    root.mkdir(exist_ok=True)
    for name in names:
        path = f"{root}/{name}"
        os.makedirs(path if name.endswith("/") else os.path.dirname(path), exist_ok=True)
        if not name.endswith("/"):
            with open(path, "wb") as file:
                file.write(b"x")
    return root


def labels(scan: Scan, split: str = "train") -> dict[str, int | None]:
    return {entry.key: entry.label for entry in scan.splits[split]}


# --- classes and labels -------------------------------------------------------------------------------------


def test_class_ids_follow_torchvision(tmp_path: Path) -> None:
    grow(tmp_path, "dog/1.jpg", "cat/2.PNG", "Zebra/3.jpeg", "cat/deep/er/0.webp", "éclair/4.tif")
    scan = scan_imagefolder(tmp_path)
    assert scan.classes == ("Zebra", "cat", "dog", "éclair")
    assert scan.splits == {
        "train": [
            Entry("Zebra/3.jpeg", f"{tmp_path}/Zebra/3.jpeg", 0, 1),
            Entry("cat/2.PNG", f"{tmp_path}/cat/2.PNG", 1, 1),
            Entry("cat/deep/er/0.webp", f"{tmp_path}/cat/deep/er/0.webp", 1, 1),
            Entry("dog/1.jpg", f"{tmp_path}/dog/1.jpg", 2, 1),
            Entry("éclair/4.tif", f"{tmp_path}/éclair/4.tif", 3, 1),
        ]
    }
    assert (
        scan.skipped["hidden"],
        scan.skipped["not_images"] + scan.skipped["annotations"],
        scan.skipped["loops"],
        scan.rejects,
    ) == (0, 0, 0, [])


def test_order_is_by_path_parts(tmp_path: Path) -> None:
    # As whole strings "a b/..." < "a/..." and "a.jpg" < "a/..."; as parts "a" comes first.
    grow(tmp_path, "a b/1.jpg", "a/2.jpg", "a-c/3.jpg", "a.jpg", "B/4.jpg", "\U0001f600/5.jpg", "\uff21/6.jpg")
    keys = list(labels(scan_imagefolder(tmp_path)))
    assert keys == sorted(keys, key=lambda key: key.split("/"))
    assert keys == [
        *("B/4.jpg", "a/2.jpg", "a b/1.jpg", "a-c/3.jpg", "a.jpg"),
        *("\uff21/6.jpg", "\U0001f600/5.jpg"),
    ]


def test_empty_class_folder_is_a_class(tmp_path: Path) -> None:
    grow(tmp_path, "a/", "b/1.jpg", "c/readme.txt")
    scan = scan_imagefolder(tmp_path)
    assert scan.classes == ("a", "b", "c")
    assert labels(scan) == {"b/1.jpg": 1}


def test_image_outside_class_folders_has_no_label(tmp_path: Path) -> None:
    grow(tmp_path, "b/1.jpg", "0.jpg", "z.jpg")
    assert labels(scan_imagefolder(tmp_path)) == {"0.jpg": None, "b/1.jpg": 0, "z.jpg": None}
    with pytest.raises(SourceError, match=r"^2 images in .* the first is '0\.jpg'"):
        scan_imagefolder(tmp_path, ImageFolderOptions(require_labels=True))
    for name in ("0.jpg", "z.jpg"):
        (tmp_path / name).write_bytes(b"")  # a reject needs no label
    assert len(scan_imagefolder(tmp_path, ImageFolderOptions(require_labels=True)).rejects) == 2


def test_flat_folder_has_no_labels(tmp_path: Path) -> None:
    grow(tmp_path, "2.jpg", "1.jpg", "empty/")
    scan = scan_imagefolder(tmp_path)
    assert scan.classes is None
    assert labels(scan) == {"1.jpg": None, "2.jpg": None}
    with pytest.raises(SourceError, match=r"2 images .* without a label"):
        scan_imagefolder(tmp_path, ImageFolderOptions(require_labels=True))


def test_mode_imagefolder_needs_a_class_folder(tmp_path: Path) -> None:
    options = ImageFolderOptions(label_mode=LabelMode.IMAGEFOLDER)
    grow(tmp_path, "1.jpg")
    with pytest.raises(SourceError, match="no class folder"):
        scan_imagefolder(tmp_path, options)
    grow(tmp_path, "a/2.jpg")
    assert labels(scan_imagefolder(tmp_path, options)) == {"1.jpg": None, "a/2.jpg": 0}


def test_mode_none_takes_any_nesting(tmp_path: Path) -> None:
    grow(tmp_path, "a/b/c/1.jpg", "a/2.jpg", "3.jpg")
    scan = scan_imagefolder(tmp_path, ImageFolderOptions(label_mode=LabelMode.NONE))
    assert scan.classes is None
    assert labels(scan) == {"3.jpg": None, "a/2.jpg": None, "a/b/c/1.jpg": None}


def test_given_classes_set_the_ids(tmp_path: Path) -> None:
    grow(tmp_path, "cat/1.jpg", "dog/2.jpg")
    scan = scan_imagefolder(tmp_path, ImageFolderOptions(classes=("dog", "bird", "cat")))
    assert scan.classes == ("dog", "bird", "cat")
    assert labels(scan) == {"cat/1.jpg": 2, "dog/2.jpg": 0}


def test_class_folder_that_is_not_given(tmp_path: Path) -> None:
    grow(tmp_path, "cat/1.jpg", "dogs/2.jpg", "dogs/3.jpg")
    with pytest.raises(SourceError, match=r"'dogs' \(2 images\) .* 2 names .* Did you mean 'dog'\?"):
        scan_imagefolder(tmp_path, ImageFolderOptions(classes=("cat", "dog")))


def test_given_classes_without_class_folders(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no class folder"):
        scan_imagefolder(grow(tmp_path, "1.jpg"), ImageFolderOptions(classes=("cat",)))


def test_normalisation_forms_are_different_classes(tmp_path: Path) -> None:
    nfc, nfd = "caf\u00e9", "cafe\u0301"
    grow(tmp_path, f"{nfc}/1.jpg", f"{nfd}/1.jpg")
    if len(os.listdir(tmp_path)) < 2:
        pytest.skip("this file system normalises names")
    scan = scan_imagefolder(tmp_path)
    assert scan.classes == (nfd, nfc)
    assert labels(scan) == {f"{nfd}/1.jpg": 0, f"{nfc}/1.jpg": 1}
    with pytest.raises(SourceError, match=r"'caf\\xe9' is the same text as 'cafe\\u0301' in another Unicode"):
        scan_imagefolder(tmp_path, ImageFolderOptions(classes=(nfc,)))


@pytest.mark.parametrize(
    "name",
    [
        "shards",
        "labels",
        "train",
        "-rf",
        "a b",
        " ",
        "tab\there",
        "line\nbreak",
        "x.jpg",
        "日本",
        "~",
        "NUL",
        "\\",
    ],
)
def test_odd_class_and_file_names(tmp_path: Path, name: str) -> None:
    grow(tmp_path, f"{name}/{name}.jpg", "zz/1.jpg")
    scan = scan_imagefolder(tmp_path)
    assert scan.classes == tuple(sorted([name, "zz"]))
    assert labels(scan)[f"{name}/{name}.jpg"] == scan.classes.index(name)


@pytest.mark.parametrize("name", [b"caf\xe9", b"\xff"])
def test_class_name_that_is_not_utf8(tmp_path: Path, name: bytes) -> None:
    folder = os.path.join(os.fsencode(tmp_path), name)
    os.mkdir(folder)
    with open(os.path.join(folder, b"1.jpg"), "wb") as file:
        file.write(b"x")
    with pytest.raises(SourceError, match="not valid UTF-8") as caught:
        scan_imagefolder(tmp_path)
    assert repr(name) in str(caught.value)
    # Without labels the folder is no class, only part of names that can't be kept.
    scan = scan_imagefolder(tmp_path, ImageFolderOptions(label_mode=LabelMode.NONE))
    assert scan.splits == {"train": []}
    assert [reject.reason for reject in scan.rejects] == ["name is not valid UTF-8"]


# --- splits -------------------------------------------------------------------------------------------------


def test_one_class_map_for_all_splits(tmp_path: Path) -> None:
    grow(tmp_path, "val/dog/1.jpg", "val/eel/2.jpg", "train/ant/3.jpg", "train/dog/4.jpg", "test/5.jpg")
    scan = scan_imagefolder(tmp_path)
    assert list(scan.splits) == ["train", "val", "test"]
    assert scan.classes == ("ant", "dog", "eel")
    assert labels(scan, "train") == {"train/ant/3.jpg": 0, "train/dog/4.jpg": 1}
    assert labels(scan, "val") == {"val/dog/1.jpg": 1, "val/eel/2.jpg": 2}
    assert labels(scan, "test") == {"test/5.jpg": None}


def test_split_order_and_an_empty_split(tmp_path: Path) -> None:
    grow(tmp_path, "test/a/1.jpg", "validation/a/1.jpg", "valid/a/1.jpg", "val/", "train/a/1.jpg", "notes.txt")
    scan = scan_imagefolder(tmp_path)
    assert list(scan.splits) == ["train", "val", "valid", "validation", "test"]
    assert scan.splits["val"] == []
    assert scan.skipped["not_images"] + scan.skipped["annotations"] == 1


@pytest.mark.parametrize("other", ["Train", "extra", "training"])
def test_no_split_level_beside_other_folders(tmp_path: Path, other: str) -> None:
    grow(tmp_path, "train/1.jpg", f"{other}/2.jpg")
    scan = scan_imagefolder(tmp_path)
    assert scan.classes == tuple(sorted(["train", other]))
    assert list(scan.splits) == ["train"]
    assert list(scan_imagefolder(tmp_path, ImageFolderOptions(split="all-1.0_b")).splits) == ["all-1.0_b"]


def test_hidden_folders_do_not_hide_the_split_level(tmp_path: Path) -> None:
    grow(tmp_path, "train/a/1.jpg", ".git/x.jpg", "__MACOSX/y.jpg", ".DS_Store")
    scan = scan_imagefolder(tmp_path)
    assert labels(scan) == {"train/a/1.jpg": 0}
    assert scan.skipped["hidden"] == 3


def test_split_level_without_labels(tmp_path: Path) -> None:
    grow(tmp_path, "train/a/1.jpg", "val/2.jpg")
    scan = scan_imagefolder(tmp_path, ImageFolderOptions(label_mode=LabelMode.NONE))
    assert scan.classes is None
    assert labels(scan, "train") == {"train/a/1.jpg": None}
    assert labels(scan, "val") == {"val/2.jpg": None}


def test_image_beside_split_folders(tmp_path: Path) -> None:
    grow(tmp_path, "train/a/1.jpg", "val/a/2.jpg", "y.jpg", "x.jpg")
    with pytest.raises(SourceError, match=r"'x\.jpg' lies beside them \(2 images in all\)"):
        scan_imagefolder(tmp_path)
    scan = scan_imagefolder(tmp_path, ImageFolderOptions(split="val"))
    assert {split: len(entries) for split, entries in scan.splits.items()} == {"val": 1}


def test_image_of_another_name_beside_split_folders(tmp_path: Path) -> None:
    grow(tmp_path, "train/a/1.jpg", "val/a/2.jpg")
    (tmp_path / "x.img").write_bytes(encode(picture(1)))
    with pytest.raises(SourceError, match=r"'x\.img' lies beside them \(1 image in all\)"):
        scan_imagefolder(tmp_path)


def test_one_split_keeps_the_ids_of_all(tmp_path: Path) -> None:
    grow(tmp_path, "train/ant/1.jpg", "train/dog/2.jpg", "val/dog/3.jpg", ".hidden", "val/.hidden")
    scan = scan_imagefolder(tmp_path, ImageFolderOptions(split="val"))
    assert scan.classes == ("ant", "dog")
    assert scan.splits == {"val": [Entry("val/dog/3.jpg", f"{tmp_path}/val/dog/3.jpg", 1, 1)]}
    assert scan.skipped["hidden"] == 1
    flat = scan_imagefolder(grow(tmp_path, "test/4.jpg"), ImageFolderOptions(split="test"))
    assert flat.classes is None


def test_split_that_is_not_there(tmp_path: Path) -> None:
    grow(tmp_path, "train/a/1.jpg", "valid/a/2.jpg")
    with pytest.raises(NotFoundError, match=r"only train, valid\. Did you mean 'valid'\?"):
        scan_imagefolder(tmp_path, ImageFolderOptions(split="val"))


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_limit_is_per_split(tmp_path: Path, limit: int) -> None:
    grow(
        tmp_path,
        *(f"{split}/{name}/{i}.jpg" for split in ("train", "val") for name in "ab" for i in range(2)),
    )
    (tmp_path / "train/a/00.jpg").touch()
    (tmp_path / "train/b/9.jpg").touch()
    scan = scan_imagefolder(tmp_path, ImageFolderOptions(limit=limit))
    everything = scan_imagefolder(tmp_path)
    assert scan.classes == everything.classes == ("a", "b")
    assert scan.splits == {split: entries[:limit] for split, entries in everything.splits.items()}
    # 00.jpg lies between 0.jpg and 1.jpg, 9.jpg behind all others: only what the limit reaches is reported.
    seen = [reject.key for reject in scan.rejects]
    assert seen == {1: [], 2: ["train/a/00.jpg"], 100: ["train/a/00.jpg", "train/b/9.jpg"]}[limit]


# --- options, paths, messages -------------------------------------------------------------------------------


@pytest.mark.parametrize("split", ["", ".hidden", "-x", "_a", "a b", "a/b", "été", "a\n", ".."])
def test_bad_split_names(split: str) -> None:
    with pytest.raises(UsageError, match="can't name a split"):
        ImageFolderOptions(split=split)


def test_options_that_contradict() -> None:
    with pytest.raises(UsageError, match="require_labels asks"):
        ImageFolderOptions(label_mode=LabelMode.NONE, require_labels=True)
    with pytest.raises(UsageError, match="classes asks"):
        ImageFolderOptions(label_mode=LabelMode.NONE, classes=("a",))
    with pytest.raises(UsageError, match="at least 1"):
        ImageFolderOptions(limit=0)
    with pytest.raises(UsageError, match="both id 0 and id 2"):
        ImageFolderOptions(classes=("a", "b", "a"))
    with pytest.raises(UsageError, match="no class names"):
        ImageFolderOptions(classes=())


def test_root_that_is_missing_or_a_file(tmp_path: Path) -> None:
    grow(tmp_path, "images/a/1.jpg")
    with pytest.raises(NotFoundError, match=r"Did you mean 'images'\?"):
        scan_imagefolder(tmp_path / "image")
    with pytest.raises(NotFoundError, match="There is no folder"):
        scan_imagefolder(tmp_path / "nowhere/near/this")
    with pytest.raises(UsageError, match="is a file; an image folder is expected"):
        scan_imagefolder(tmp_path / "images/a/1.jpg")
    os.symlink("gone", tmp_path / "link")
    with pytest.raises(NotFoundError, match="broken symbolic link"):
        scan_imagefolder(tmp_path / "link")
    for root in ("", "a\0b"):
        with pytest.raises(UsageError, match="not a path"):
            scan_imagefolder(root)


def test_no_images(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No images below"):
        scan_imagefolder(tmp_path)
    grow(tmp_path, "a/1.txt", "a/2.JPG.gz", ".cache/3.jpg")
    with pytest.raises(SourceError, match=r"1 hidden name, 2 files with other .*\.jpg \.jpeg .*Give the folder"):
        scan_imagefolder(tmp_path)
    grow(tmp_path / "b", "train/", "val/a/1.jpg")
    with pytest.raises(SourceError, match=r"No images below '.*/train'"):
        scan_imagefolder(tmp_path / "b", ImageFolderOptions(split="train"))


def test_relative_and_linked_roots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(tmp_path / "real", "a/1.jpg")
    os.symlink("real", tmp_path / "link")
    monkeypatch.chdir(tmp_path)
    assert scan_imagefolder("link").splits["train"] == [Entry("a/1.jpg", f"{tmp_path}/link/a/1.jpg", 0, 1)]
    assert scan_imagefolder("real/").splits["train"] == [Entry("a/1.jpg", f"{tmp_path}/real/a/1.jpg", 0, 1)]
