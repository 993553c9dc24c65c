"""The local store: the contract, and what only files can be: links, pipes, folders, relative paths."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from contracts.store import StoreContract

from toolkit.errors import NotFoundError, StorageError, UsageError
from toolkit.storage.local import LocalStore, find_local
from toolkit.storage.store import NoObjectError
from toolkit.storage.stores import open_store


class TestLocalStore(StoreContract):
    def make(self, tmp_path: Path) -> LocalStore:
        (tmp_path / "place").mkdir()
        return LocalStore(str(tmp_path / "place"))

    def make_at(self, tmp_path: Path, name: str) -> LocalStore:
        return LocalStore(f"{tmp_path}/{name}")


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(str(tmp_path))


def test_its_root_need_not_be_there(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "a/b"))
    assert store.entries() == []
    assert store.info("manifest.json") is None
    with pytest.raises(StorageError, match="can't lock"):
        store.lock(".lock")
    lock = store.lock(".lock", make=True)
    assert store.entries() != []
    lock.sync_root()
    lock.release(undo=True)
    assert not (tmp_path / "a").exists()
    (tmp_path / "a").mkdir()
    lock = store.lock(".lock", make=True)
    store.write("manifest.json", b"x")
    lock.release(undo=True)
    assert [one.name for one in store.entries()] == ["manifest.json"]


def test_a_file_is_no_root(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(UsageError, match="is a file: give a folder"):
        LocalStore(str(tmp_path / "file")).entries()


def test_readers_follow_links_and_writers_do_not(tmp_path: Path) -> None:
    store, blobs = LocalStore(str(tmp_path / "ds")), tmp_path / "blobs"
    blobs.mkdir()
    (blobs / "b").write_bytes(b"data")
    (tmp_path / "ds").mkdir()
    os.symlink(blobs, tmp_path / "ds/tables")
    os.symlink(blobs / "b", tmp_path / "ds/a")
    os.symlink("nowhere", tmp_path / "ds/lost")
    os.symlink("round", tmp_path / "ds/round")
    assert (store.read("a"), store.read_range("tables/b", 1, 2)) == (b"data", b"at")
    info = store.info("a")
    assert info is not None
    assert (info.bytes, info.is_link) == (4, True)
    assert store.info("lost") is store.info("round") is None
    assert [one.name for one in store.entries("tables", follow=True)] == ["b"]
    assert [(one.name, one.bytes, one.is_folder) for one in store.entries()] == [
        (name, None, False) for name in ("a", "lost", "round", "tables")
    ]
    for act in (
        lambda: store.entries("tables"),
        lambda: store.delete(["tables/b"]),
        lambda: store.make_folder("tables"),
        lambda: store.lock("a"),
    ):
        with pytest.raises(UsageError, match="is a symbolic link"):
            act()
    assert not store.create("lost", b"x")
    store.write("a", b"mine")
    store.delete(["lost", "round"])
    assert (blobs / "b").read_bytes() == b"data"
    assert [one.name for one in store.entries()] == ["a", "tables"]


def test_a_link_may_name_the_root(tmp_path: Path) -> None:
    (tmp_path / "ds").mkdir()
    os.symlink(tmp_path / "ds", tmp_path / "named")
    store = LocalStore(str(tmp_path / "named"))
    store.write("a", b"x")
    assert [one.name for one in store.entries()] == ["a"]
    store.delete(["a"], durable=True)
    assert os.listdir(tmp_path / "ds") == []


@pytest.mark.parametrize("become", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, store: LocalStore, become: Callable[[Path], None]) -> None:
    become(tmp_path / "a")
    for read in (lambda: store.read("a"), lambda: store.read_range("a", 0, 1)):
        with pytest.raises(NoObjectError, match="isn't a regular file"):
            read()
    seen = store.info("a")
    assert seen is not None
    assert seen.bytes is None
    if become is os.mkfifo:
        store.swap("a", b"x", seen)
        assert store.read("a") == b"x"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_permission_denied_says_so(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / "a").write_bytes(b"x")
    (tmp_path / "a").chmod(0)
    with pytest.raises(StorageError, match=r"can't read .*a': permission denied"):
        store.read("a")


def test_paths_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "flowers").mkdir()
    (tmp_path / "flowers/manifest.json").write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    root = LocalStore(str(tmp_path / "flowers"))
    assert find_local("flowers") == (root, "")
    assert find_local("flowers/") == (LocalStore(str(tmp_path / "flowers")), "")
    assert find_local("flowers/manifest.json") == (root, "manifest.json")
    assert find_local("flower") is find_local("") is find_local("a\0b") is None
    with pytest.raises(NotFoundError, match=r"no dataset at 'flower'\. Did you mean 'flowers'\?"):
        open_store("flower")
    with pytest.raises(UsageError, match="is a URL, and only local files are read"):
        open_store("s3://bucket/flowers")
