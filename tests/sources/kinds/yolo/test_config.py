"""The YAML file of a YOLO dataset: what it names, and what isn't followed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import NotFoundError, SourceError
from toolkit.sources.kinds.yolo.config import Config, looks_like_config, read_config

GOOD = "train: images/train\nval: images/val\nnames: [cat, dog]\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("images/train", "images/val", "train/images"):
        (tmp_path / "ds" / name).mkdir(parents=True)
    return tmp_path / "ds"


def config(folder: Path, text: str | bytes, **options: Any) -> Config:
    path = folder / "data.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_config(str(path), **{"root": None, "split": None, **options})


def fault(root: Path, text: str | bytes, **options: Any) -> str:
    with pytest.raises((SourceError, NotFoundError)) as error:
        config(root, text, **options)
    return str(error.value).replace(str(root), "ROOT")


def test_what_it_says(root: Path) -> None:
    said = config(root, GOOD)
    assert said.root == str(root)
    assert said.splits == {"train": ["images/train"], "val": ["images/val"]}
    assert said.classes == ("cat", "dog")
    assert said.keypoints is None
    said = config(root, "names: {1: dog, 0: cat}\nnc: 2\nkpt_shape: [17, 3]\ntrain: [./images/train, images/val/]\n")
    assert said.splits == {"train": ["images/train", "images/val"]}
    assert said.classes == ("cat", "dog")
    assert said.keypoints == (17, 3)
    assert config(root, "train: images/train\nnames: [0, 1]\n").classes == ("0", "1")
    assert config(root, "train: images/train\nnc: 2\n").classes is None
    said = config(root, "train: images/train\nvalidation: images/val\nnames: [a]\n")
    assert said.splits == {"train": ["images/train"], "val": ["images/val"]}
    assert config(root, GOOD, split="val").splits == {"val": ["images/val"]}
    assert config(root, "﻿" + GOOD).classes == ("cat", "dog")


def test_what_it_asks_to_run_is_not(root: Path) -> None:
    text = GOOD + "download: |\n  import os\n  os.system('touch ran')\nyolo: !x 1\n"
    assert "the tag !x: tags are not read" in fault(root, text)
    config(root, text.replace("yolo: !x 1\n", ""))
    assert sorted(path.name for path in root.iterdir()) == ["data.yaml", "images", "train"]


def test_places_below_its_path(root: Path) -> None:
    said = config(root, "path: images\ntrain: train\nval: .\nnames: [a]\n")
    assert said.root == str(root / "images")
    assert said.splits == {"train": ["train"], "val": ["."]}
    said = config(root, f"path: {root}\ntrain: {root}/images/train\nnames: [a]\n")
    assert (said.root, said.splits) == (str(root), {"train": ["images/train"]})
    said = config(root, "path: ../elsewhere\ntrain: train\nnames: [a]\n", root=str(root / "images"))
    assert (said.root, said.splits) == (str(root / "images"), {"train": ["train"]})


def test_what_roboflow_writes(root: Path) -> None:
    """Its ../train/images is what lies beside the file; but not where there is such a folder."""
    text = "train: ../train/images\nval: ../train/images\ntest: ../test/images\nnames: [a]\n"
    said = config(root, text)
    assert said.splits == {"train": ["train/images"], "val": ["train/images"]}
    assert said.absent == ["test"]
    (root.parent / "train/images").mkdir(parents=True)
    assert "train: '../train/images' leads out of 'ROOT'" in fault(root, text)


@pytest.mark.parametrize("path", ["..", "../other", "/etc", "~/datasets", "a/../../b"])
def test_paths_outside(root: Path, path: str) -> None:
    said = fault(root, f"path: {path}\n" + GOOD)
    assert said.startswith(f"ROOT/data.yaml:1: path: {path!r} leads out of the file's folder")
    assert "--root" in said
    if path not in ("..", "../other"):  # the second reads as "other" in the folder, which isn't there
        assert f"train: {path!r} leads out of 'ROOT'" in fault(root, f"train: {path}\nnames: [a]\n")


def test_urls_are_not_followed_nor_told(root: Path) -> None:
    for text in (
        "path: https://me:secret@host/x\n" + GOOD,
        "train: https://me:secret@host/x.zip?token=1\nnames: [a]\n",
    ):
        said = fault(root, text)
        assert "a URL; only files are read" in said
        assert "secret" not in said
        assert "token" not in said


def test_a_path_that_is_a_link_outside(root: Path) -> None:
    (root.parent / "other/train").mkdir(parents=True)
    (root / "link").symlink_to(root.parent / "other")
    assert "leads out" in fault(root, "path: link\ntrain: train\nnames: [a]\n")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no names: and train: at its top"),
        ("- a\n", "has no names: and train: at its top"),
        ("names: [a]\n", "names no split: train, val, test are looked for"),
        ("train: images/tran\nnames: [a]\n", "data.yaml:1: train: there is no 'images/tran' in 'ROOT'"),
        ("names: [a]\ntrain: [images/train, 3]\n", "data.yaml:2: train: 3 is neither a folder nor a list"),
        ("train: []\nnames: [a]\n", "data.yaml:1: train: an empty list"),
        ("train: {a: b}\nnames: [a]\n", "is neither a folder nor a list"),
        ("path: 3\n" + GOOD, "data.yaml:1: path: 3 is no path"),
        ("path: nothing\n" + GOOD, "data.yaml:1: path: there is no folder 'nothing'"),
        ("train: images/train\nnames: a\n", "data.yaml:2: names: it must be a list of names"),
        ("train: images/train\nnames: [yes, no]\n", "names: True is no text to YAML: put the name in quotes"),
        ("train: images/train\nnames: [[a]]\n", "names: ['a'] is no text"),
        ("train: images/train\nnames: [a, a]\n", "'a' is both id 0 and id 1"),
        ("train: images/train\nnames: []\n", "no class names"),
        ("train: images/train\nnames: {0: a, 2: b}\n", "its keys must be the ids 0, 1, 2 and so on"),
        ("train: images/train\nnames: {a: 0}\n", "its keys must be the ids"),
        ("train: images/train\nnames: {0: a, true: b}\n", "its keys must be the ids"),
        (GOOD + "nc: 3\n", "data.yaml:4: nc: 3, and there are 2 names"),
        (GOOD + "kpt_shape: 3\n", "kpt_shape: 3 isn't [keypoints, 2] or [keypoints, 3]"),
        (GOOD + "kpt_shape: [17, 4]\n", "kpt_shape: [17, 4] isn't"),
        (GOOD + "kpt_shape: [1000000000, 3]\n", "isn't [keypoints, 2]"),
        ("a: [\n", "data.yaml:2: not YAML"),
        ("names: !!python/object:os.system x\n", "tags are not read"),
        ("a: &x [1]\nb: [*x, *x]\n", "alias *x"),
        (b"\xff\xfe", "not UTF-8 text at byte 0"),
        ("#" * ((1 << 18) + 1), "it has more than 262144 bytes"),
        ("[" * 1500, "nested too deeply"),
    ],
)
def test_what_is_refused(root: Path, text: str | bytes, told: str) -> None:
    assert told in fault(root, text)


def test_splits_that_are_asked_for(root: Path) -> None:
    assert "names the splits train, val, not 'test'" in fault(root, GOOD, split="test")
    assert "test: there is no 'nothing'" in fault(root, GOOD + "test: nothing\n", split="test")


def test_which_files_look_like_one(root: Path) -> None:
    for name, text, is_one in (
        ("a.yaml", GOOD, True),
        ("b.YML", GOOD, True),
        ("c.yaml", "names: [a]\n", False),
        ("d.yaml", "model:\n  train: 1\n  names: 2\n", False),
        ("e.txt", GOOD, False),
        ("f.yaml", "", False),
    ):
        (root / name).write_text(text)
        assert looks_like_config(str(root / name)) == is_one
