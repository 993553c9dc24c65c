"""Random trees of odd names against torchvision's rule."""

from __future__ import annotations

import os
import random
import shutil
import tempfile

from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolkit.sources.images import IMAGE_EXTENSIONS
from toolkit.sources.kinds.imagefolder.scan import (
    ImageFolderOptions,
    scan_imagefolder,
)
from toolkit.sources.options import LabelMode


def put(folder: str, name: str) -> None:
    os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)
    with open(f"{folder}/{name}", "wb") as file:
        file.write(name.encode())


def torchvision_samples(root: str) -> tuple[list[str], list[tuple[str, int]]]:
    """`find_classes` and `make_dataset` of torchvision's folder dataset, with this tool's extensions."""
    classes = sorted(entry.name for entry in os.scandir(root) if entry.is_dir())
    ids = {name: number for number, name in enumerate(classes)}
    samples = []
    for name in sorted(ids):
        for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True)):
            for file in sorted(files):
                if file.lower().endswith(IMAGE_EXTENSIONS):
                    samples.append((os.path.join(folder, file), ids[name]))
    return classes, samples


ODD = [
    "a",
    "b",
    "A",
    " ",
    "-x",
    "é",
    "e\u0301",
    "日",
    "\U0001f600",
    "\uff21",
    "a b",
    "a-b",
    "a\nb",
    "shards",
    "x.jpg",
]
folder_names = st.sampled_from(ODD) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=8
).filter(lambda name: not name.startswith(".") and name not in ("__MACOSX", "train", "val", "test", "valid"))
file_names = st.builds(str.__add__, folder_names, st.sampled_from([".jpg", ".PNG", ".tiff", ".txt", ""]))
trees = st.lists(st.tuples(st.lists(folder_names, max_size=3), file_names | st.none()), min_size=1, max_size=12)


@settings(deadline=None, max_examples=150)
@given(trees, st.randoms(use_true_random=False))
@example([(["b"], "1.jpg"), (["a"], None), (["b", "c"], "0.jpg"), ([], "0.jpg")], random.Random(0))
def test_random_trees(tree: list[tuple[list[str], str | None]], rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as top:
        root = os.path.join(top, "r")
        os.mkdir(root)
        rng.shuffle(tree)  # the order of creation must not matter
        for folders, file in tree:
            folder = os.path.join(root, *folders)
            try:
                os.makedirs(folder, exist_ok=True)
                if file is not None:
                    put(folder, file)
            except (FileExistsError, IsADirectoryError, NotADirectoryError):
                continue  # the same name as a file and as a folder
        put(root, "zz top/1.jpg")  # one labelled image, so that there is something to pack
        classes, samples = torchvision_samples(root)
        scan = scan_imagefolder(root)

        assert scan.classes == tuple(classes)
        entries = scan.splits["train"]
        labelled = [(entry.path, entry.label) for entry in entries if entry.label is not None]
        assert sorted(labelled) == sorted(samples)
        assert [entry.path for entry in entries] == [os.path.join(root, entry.key) for entry in entries]
        parts = [entry.key.split("/") for entry in entries]
        assert parts == sorted(parts)
        assert len({entry.key for entry in entries}) == len(entries)
        assert all(len(entry.key.split("/")) == 1 for entry in entries if entry.label is None)
        assert all(entry.bytes == os.path.getsize(entry.path) for entry in entries)
        files = sum(len(files) for _, _, files in os.walk(root))
        assert files == len(entries) + scan.skipped["not_images"] + scan.skipped["annotations"]
        assert (scan.rejects, scan.skipped["hidden"], scan.skipped["loops"]) == ([], 0, 0)
        unlabelled = scan_imagefolder(root, ImageFolderOptions(label_mode=LabelMode.NONE))
        assert [entry.key for entry in unlabelled.splits["train"]] == [entry.key for entry in entries]

        # The same tree as two splits: the same ids, the same keys behind the split's name.
        os.makedirs(f"{top}/s/val")
        shutil.move(root, f"{top}/s/train")
        put(f"{top}/s/val", "b/1.jpg")
        both = scan_imagefolder(f"{top}/s")
        assert both.classes == tuple(sorted({*classes, "b"}))
        train = [(entry.key, entry.label) for entry in both.splits["train"]]
        assert train == [
            (f"train/{entry.key}", None if entry.label is None else both.classes.index(classes[entry.label]))
            for entry in entries
        ]
