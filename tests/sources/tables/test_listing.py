from __future__ import annotations

import os
from pathlib import Path

import pytest

from toolkit.errors import SourceError, StorageError
from toolkit.sources.contents import UnfitError
from toolkit.sources.skips import Skips
from toolkit.sources.tables.listing import files_below, read_small


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")


def below(root: Path, folder: str, *, follow_links: bool = False) -> tuple[list[str], dict[str, tuple[str, ...]]]:
    skips = Skips()
    return files_below(str(root), folder, follow_links=follow_links, skips=skips), dict(skips.names)


def test_files_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b/2", "b/1", "b/c/3", "b/.x", "b/.d/4", "a", "e/5"):
        put(tmp_path / name)
    assert below(tmp_path, "b") == (["b/1", "b/2", "b/c/3"], {"hidden": ("b/.d", "b/.x")})
    assert below(tmp_path, "")[0] == ["a", "b/1", "b/2", "b/c/3", "e/5"]


def test_links(tmp_path: Path) -> None:
    put(tmp_path / "in/a/1")
    put(tmp_path / "in/b/2")
    put(tmp_path / "out/3")
    (tmp_path / "in/a/inside").symlink_to(tmp_path / "in/b/2")
    (tmp_path / "in/a/folder").symlink_to(tmp_path / "in/b")
    (tmp_path / "in/a/up").symlink_to(tmp_path / "in/a")
    (tmp_path / "in/a/nowhere").symlink_to(tmp_path / "nothing")
    found, names = below(tmp_path / "in", "a")
    assert found == ["a/1", "a/inside", "a/folder/2"]
    assert names == {"broken_links": ("a/nowhere",), "loops": ("a/up",)}
    for link, target in (("file", "3"), ("folder", "")):
        (tmp_path / f"in/{link}").mkdir()
        (tmp_path / f"in/{link}/x").symlink_to(tmp_path / "out" / target)
        with pytest.raises(SourceError, match="leads out of"):
            below(tmp_path / "in", link)
        assert below(tmp_path / "in", link, follow_links=True)[0] in ([f"{link}/x"], [f"{link}/x/3"])
    with pytest.raises(SourceError, match="leads out of"):  # the folder itself
        below(tmp_path / "in", "folder/x")


def test_small_files(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abcd")
    assert read_small(str(tmp_path / "x"), 4) == b"abcd"
    with pytest.raises(UnfitError, match="more than 3 bytes"):
        read_small(str(tmp_path / "x"), 3)
    (tmp_path / "x").write_bytes(b"")
    assert read_small(str(tmp_path / "x"), 0) == b""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SourceError, match="named pipe"):
        read_small(str(tmp_path / "pipe"), 4)
    with pytest.raises(StorageError):
        read_small(str(tmp_path / "nothing"), 4)
