"""What a folder can hold besides good images: counted, rejected with a reason, or refused."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from command import unprivileged
from pictures import encode, picture

from toolkit._native.shards.files import stat_files
from toolkit.errors import SourceError, StorageError
from toolkit.sources.images import IMAGE_EXTENSIONS
from toolkit.sources.kinds.imagefolder import walk as module
from toolkit.sources.kinds.imagefolder.found import FoundFiles
from toolkit.sources.kinds.imagefolder.scan import (
    ImageFolderOptions,
    Scan,
    scan_imagefolder,
)
from toolkit.sources.kinds.imagefolder.walk import Met, walk_files, walk_images
from toolkit.sources.reject import Reject


def put(root: Path | str, name: str, content: bytes = b"x") -> None:
    path = f"{root}/{name}"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def keys(scan: Scan) -> list[str]:
    return [entry.key for entries in scan.splits.values() for entry in entries]


def reasons(scan: Scan) -> dict[str, str]:
    return {reject.key: reject.reason for reject in scan.rejects}


# --- passed over and counted --------------------------------------------------------------------------------


def test_hidden_names_are_counted(tmp_path: Path) -> None:
    for name in ("a/1.jpg", "a/.2.jpg", ".b/3.jpg", ".b/4.jpg", "a/__MACOSX/5.jpg", "a/.jpg", "..c/6.jpg"):
        put(tmp_path, name)
    scan = scan_imagefolder(tmp_path)
    assert keys(scan) == ["a/1.jpg"]
    assert scan.classes == ("a",)
    assert scan.skipped["hidden"] == 5


def test_other_extensions_are_counted(tmp_path: Path) -> None:
    images = [f"a/{i}{ext}" for i, ext in enumerate(IMAGE_EXTENSIONS)] + [
        "a/x.JPeG",
        "a/y.a.TIFF",
    ]
    others = ["a/Thumbs.db", "a/jpg", "a/x.jpg.txt", "a/x.jpgx", "a/desktop.ini", "a/x.svg", "a/x.jpg "]
    for name in images + others:
        put(tmp_path, name)
    scan = scan_imagefolder(tmp_path)
    assert sorted(keys(scan)) == sorted(images)
    assert scan.skipped["not_images"] + scan.skipped["annotations"] == len(others)


# --- rejects ------------------------------------------------------------------------------------------------


def test_rejects_name_file_and_reason(tmp_path: Path) -> None:
    put(tmp_path, "a/good.jpg", b"1234567")
    put(tmp_path, "a/empty.jpg", b"")
    put(tmp_path, "a/empty.txt", b"")
    os.mkfifo(tmp_path / "a/fifo.png")
    os.mkfifo(tmp_path / "a/fifo")
    os.symlink("/dev/null", tmp_path / "a/null.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "a/socket.jpg"))
        scan = scan_imagefolder(tmp_path)
    assert [(entry.key, entry.bytes) for entry in scan.splits["train"]] == [("a/good.jpg", 7)]
    assert scan.rejects[0] == Reject(f"{tmp_path}/a/empty.jpg", "a/empty.jpg", "empty file")
    assert reasons(scan) == {
        "a/empty.jpg": "empty file",
        "a/fifo.png": "not a regular file",
        "a/null.jpg": "not a regular file",
        "a/socket.jpg": "not a regular file",
    }
    assert scan.skipped["not_images"] + scan.skipped["annotations"] == 2


def test_only_rejects_are_left_to_the_caller(tmp_path: Path) -> None:
    put(tmp_path, "a/empty.jpg", b"")
    scan = scan_imagefolder(tmp_path)
    assert scan.splits == {"train": []}
    assert scan.classes == ("a",)
    assert reasons(scan) == {"a/empty.jpg": "empty file"}


def test_file_name_that_is_not_utf8(tmp_path: Path) -> None:
    put(tmp_path, "a/1.jpg")
    put(tmp_path, os.fsdecode(b"a/caf\xe9.jpg"))
    put(tmp_path, os.fsdecode(b"a/\xff/2.jpg"))
    put(tmp_path, os.fsdecode(b"a/\xff.txt"))
    scan = scan_imagefolder(tmp_path)
    assert keys(scan) == ["a/1.jpg"]
    assert scan.rejects == [
        Reject(f"{tmp_path}/a/caf\\xe9.jpg", "a/caf\\xe9.jpg", "name is not valid UTF-8"),
        Reject(f"{tmp_path}/a/\\xff/2.jpg", "a/\\xff/2.jpg", "name is not valid UTF-8"),
    ]
    assert scan.skipped["not_images"] + scan.skipped["annotations"] == 1


def test_source_path_that_is_not_utf8_is_no_reason_to_reject(tmp_path: Path) -> None:
    root = os.path.join(tmp_path, os.fsdecode(b"caf\xe9"))
    put(root, "a/1.jpg")
    put(root, "a/2.jpg", b"")
    scan = scan_imagefolder(root)
    assert os.path.exists(scan.splits["train"][0].path)
    assert scan.rejects == [Reject(f"{tmp_path}/caf\\xe9/a/2.jpg", "a/2.jpg", "empty file")]


def test_file_or_folder_that_vanishes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a/1.jpg", "a/2.jpg", "a/deep/3.jpg", "b/4.jpg", "bb.jpg", "c/5.jpg"):
        put(tmp_path, name)
    real = os.scandir

    @contextmanager
    def scandir(path: str) -> Iterator[list[os.DirEntry[str]]]:
        with real(path) as entries:
            listed = list(entries)
        if path == f"{tmp_path}/a":
            os.unlink(f"{path}/1.jpg")
            shutil.rmtree(f"{path}/deep")
            shutil.rmtree(f"{tmp_path}/b")
        yield listed

    monkeypatch.setattr(os, "scandir", scandir)
    scan = scan_imagefolder(tmp_path)
    assert scan.classes == ("a", "b", "c")
    assert [(entry.key, entry.label) for entry in scan.splits["train"]] == [
        *(("a/2.jpg", 0), ("bb.jpg", None), ("c/5.jpg", 2))
    ]
    assert reasons(scan) == dict.fromkeys(("a/1.jpg", "a/deep", "b"), "vanished while scanning")


# --- links --------------------------------------------------------------------------------------------------


def test_links_are_followed(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    put(root, "a/1.jpg")
    put(other, "2.jpg", b"xyz")
    put(other, "blob", b"xyz")
    os.symlink(other, root / "b")
    os.symlink(other / "blob", root / "a/3.png")
    scan = scan_imagefolder(root, ImageFolderOptions(follow_links=True))
    assert [(entry.key, entry.label, entry.bytes) for entry in scan.splits["train"]] == [
        *(("a/1.jpg", 0, 1), ("a/3.png", 0, 3), ("b/2.jpg", 1, 3)),
    ]
    assert scan.skipped["not_images"] + scan.skipped["annotations"] == 1


def test_links_out_of_the_source_are_rejects_by_name(tmp_path: Path) -> None:
    root, other = tmp_path / "root", tmp_path / "other"
    put(root, "a/1.jpg")
    put(other, "2.jpg", b"xyz")
    os.symlink(other, root / "b")
    os.symlink(other / "2.jpg", root / "a/3.png")
    os.symlink("1.jpg", root / "a/4.jpg")
    scan = scan_imagefolder(root)
    assert [entry.key for entry in scan.splits["train"]] == ["a/1.jpg", "a/4.jpg"]
    reason = "symbolic link that leads out of the source (--follow-links follows it)"
    assert [(reject.key, reject.reason) for reject in scan.rejects] == [("a/3.png", reason), ("b", reason)]
    assert scan.classes == ("a", "b")  # ids don't move when the link is followed
    put(tmp_path, "split/train/a/1.jpg")
    os.symlink(other, tmp_path / "split/val")
    with pytest.raises(SourceError, match=r"the split folder 'val' .* leads out of the source, to .*--follow-links"):
        scan_imagefolder(tmp_path / "split")
    os.symlink(root, tmp_path / "given")  # what is given may be a link itself
    assert len(scan_imagefolder(tmp_path / "given").splits["train"]) == 2


def test_what_lies_beside_images_is_named(tmp_path: Path) -> None:
    put(tmp_path, "a/1.jpg")
    for name in ("metadata.csv", "a/metadata.jsonl", "a/1.JSON", "README", "a/.x"):
        put(tmp_path, name)
    scan = scan_imagefolder(tmp_path)
    assert scan.skipped_names == {
        "annotations": ("a/1.JSON", "a/metadata.jsonl", "metadata.csv"),
        "hidden": ("a/.x",),
        "not_images": ("README",),
    }
    put(tmp_path / "splits", "train/a/1.jpg")
    put(tmp_path / "splits", "metadata.csv")
    assert scan_imagefolder(tmp_path / "splits").skipped_names == {"annotations": ("metadata.csv",)}
    scan = scan_imagefolder(tmp_path, ImageFolderOptions(exclude=("splits",)))
    assert scan.skipped_names["annotations"][-1] == "splits/metadata.csv"


def test_loops_are_left(tmp_path: Path) -> None:
    put(tmp_path, "a/x/1.jpg")
    put(tmp_path, "b/2.jpg")
    os.symlink(".", tmp_path / "self")
    os.symlink("..", tmp_path / "a/up")
    os.symlink(tmp_path, tmp_path / "a/x/root")
    os.symlink("../b", tmp_path / "a/to_b")
    os.symlink("../a", tmp_path / "b/to_a")
    scan = scan_imagefolder(tmp_path)
    assert scan.classes == ("a", "b")
    assert keys(scan) == [
        *("a/to_b/2.jpg", "a/x/1.jpg"),
        *("b/2.jpg", "b/to_a/x/1.jpg"),
    ]
    # self, a/up, a/x/root, a/to_b/to_a; and b/to_a/to_b, b/to_a/up, b/to_a/x/root
    assert scan.skipped["loops"] == 7


def test_loops_above_a_split_folder(tmp_path: Path) -> None:
    put(tmp_path, "train/a/1.jpg")
    put(tmp_path, "val/a/2.jpg")
    os.symlink("..", tmp_path / "train/root")
    os.symlink(".", tmp_path / "extra")
    scan = scan_imagefolder(tmp_path)
    assert keys(scan) == ["train/a/1.jpg", "val/a/2.jpg"]
    assert scan.classes == ("a",)
    assert scan.skipped["loops"] == 2
    assert scan_imagefolder(tmp_path, ImageFolderOptions(split="val")).classes == ("a",)


def test_broken_links(tmp_path: Path) -> None:
    put(tmp_path, "a/1.jpg")
    put(tmp_path, "a/file")
    targets = {
        "2.jpg": "gone",
        "3.jpg": "3.jpg",
        "4.jpg": "file/x",
        "5.jpg": "y" * 300,
        "6.txt": "gone",
        "7": "gone",
    }
    for name, target in targets.items():
        os.symlink(target, tmp_path / "a" / name)
    os.symlink("/nowhere/disk/cats", tmp_path / "cats")
    scan = scan_imagefolder(tmp_path)
    assert keys(scan) == ["a/1.jpg"]
    # A broken link without an extension may have been a folder of images.
    broken = ("a/2.jpg", "a/3.jpg", "a/4.jpg", "a/5.jpg", "a/7", "cats")
    assert reasons(scan) == dict.fromkeys(broken, "broken symbolic link")
    assert scan.skipped["not_images"] + scan.skipped["annotations"] == 2


def test_broken_link_to_a_split_folder(tmp_path: Path) -> None:
    put(tmp_path, "train/a/1.jpg")
    os.symlink("/nowhere/disk/val", tmp_path / "val")
    scan = scan_imagefolder(tmp_path)
    assert list(scan.splits) == ["train"]
    assert scan.rejects == [Reject(f"{tmp_path}/val", "val", "broken symbolic link")]
    assert scan_imagefolder(tmp_path, ImageFolderOptions(split="train")).rejects == []
    os.unlink(tmp_path / "train/a/1.jpg")
    assert reasons(scan_imagefolder(tmp_path)) == {"val": "broken symbolic link"}


# --- size, permission ---------------------------------------------------------------------------------------


def test_deep_nesting(tmp_path: Path) -> None:
    deep = "/".join(["d"] * 1800)
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(1800):
        os.mkdir("d", dir_fd=folder)
        below = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(os.open("1.jpg", os.O_WRONLY | os.O_CREAT, dir_fd=folder))
    os.close(folder)
    try:
        assert reasons(scan_imagefolder(tmp_path)) == {f"{deep}/1.jpg": "empty file"}
    finally:
        # Python 3.11's rmtree, which pytest cleans up with, is recursive.
        for depth in range(1800, 0, -1):
            path = os.path.join(tmp_path, *["d"] * depth)
            if depth == 1800:
                os.unlink(f"{path}/1.jpg")
            os.rmdir(path)


def test_path_too_long_for_the_system(tmp_path: Path) -> None:
    name = "n" * 200
    folder = os.open(tmp_path, os.O_RDONLY)
    for _ in range(25):
        os.mkdir(name, dir_fd=folder)
        below = os.open(name, os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = below
    os.close(folder)
    with pytest.raises(StorageError, match="name too long"):
        scan_imagefolder(tmp_path)


@pytest.mark.parametrize(
    ("mode", "named"),
    [(0o000, "a/locked"), (0o300, "a/locked"), (0o600, "a/locked/1.jpg")],
)
def test_unreadable_folder(mode: int, named: str) -> None:
    with unprivileged() as root:
        put(root, "a/0.jpg")
        put(root, "a/locked/1.jpg")
        os.chmod(f"{root}/a/locked", mode)
        with pytest.raises(StorageError, match=r"Permission denied.*need both r and x") as caught:
            scan_imagefolder(root)
        assert repr(f"{root}/{named}") in str(caught.value)


def test_unreadable_root_and_parent() -> None:
    with unprivileged() as root:
        put(root, "parent/images/a/1.jpg")
        os.chmod(f"{root}/parent/images", 0o000)
        with pytest.raises(StorageError, match=f"Can't read '{root}/parent/images'"):
            scan_imagefolder(f"{root}/parent/images")
        os.chmod(f"{root}/parent", 0o000)
        with pytest.raises(StorageError, match=f"Can't read '{root}/parent/images'"):
            scan_imagefolder(f"{root}/parent/images")


def test_unreadable_folder_behind_a_link() -> None:
    with unprivileged() as root:
        put(root, "images/a/1.jpg")
        put(root, "locked/b/2.jpg")
        os.symlink("../locked/b", f"{root}/images/b")
        os.chmod(f"{root}/locked", 0o000)
        with pytest.raises(StorageError, match=f"Can't read '{root}/images/b'"):
            scan_imagefolder(f"{root}/images", ImageFolderOptions(follow_links=True))


def test_images_are_found_by_content_too(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    jpeg, tiff = encode(picture(1)), encode(picture(1), "TIFF")
    for name, data in {
        "x.jpe": jpeg,
        "no-extension": jpeg,
        "x.avif": b"\0\0\0\x1cftypavif\0\0\0\0mif1miaf",
        "x.PBM": encode(picture(1).convert("1"), "PPM"),
        "raw.NEF": tiff,  # a camera's, whose thumbnail is no sample
        "notes.txt": b"BMW, P1 and other words",
        "empty": b"",
        "y.jpg": b"not looked at",
    }.items():
        (folder / name).write_bytes(data)
    os.mkfifo(folder / "pipe")
    met = Met()
    found = [each.key for each in walk_images(str(tmp_path), met)]
    assert found == ["a/no-extension", "a/x.PBM", "a/x.avif", "a/x.jpe", "a/y.jpg"]
    assert met.skips.counts["not_images"] == 4


def test_images_listed_together_are_those_listed_one_by_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a.jpg", "b.jpg", "c.jpg", "d", "e.txt", "é.jpg", "f.PNG", "g.jpg", "h/a.jpg", "h/b.jpg", "i.jpg", "j.jpg"]
    for name in names:
        put(tmp_path, f"x/{name}", b"" if name == "b.jpg" else name.encode())
    os.symlink("a.jpg", tmp_path / "x/bb.jpg")
    put(tmp_path, os.fsdecode(b"y/\xff.jpg"))
    put(tmp_path, "y/a.jpg")
    put(tmp_path, os.fsdecode(b"\xfe/b.jpg"))
    together = list(walk_images(str(tmp_path), met := Met()))
    assert any(isinstance(one, FoundFiles) for one in walk_files(str(tmp_path), Met()))
    monkeypatch.setattr(module, "_is_plain", lambda _: False)
    assert list(walk_images(str(tmp_path), other := Met())) == together
    assert other == met or other.skips.counts == met.skips.counts
    assert len(together) == len(names) + 2


def test_a_file_that_goes_while_its_folder_is_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a.jpg", "b.jpg", "c.jpg", "d.jpg"):
        put(tmp_path, f"x/{name}")

    def late(*given: Any) -> None:
        (tmp_path / "x/b.jpg").unlink(missing_ok=True)
        (tmp_path / "x/c.jpg").unlink(missing_ok=True)
        (tmp_path / "x/c.jpg").mkdir(exist_ok=True)
        stat_files(*given)

    monkeypatch.setattr(module, "stat_files", late)
    scan = scan_imagefolder(tmp_path)
    assert keys(scan) == ["x/a.jpg", "x/d.jpg"]
    assert reasons(scan) == {"x/b.jpg": "vanished while scanning", "x/c.jpg": "not a regular file"}
