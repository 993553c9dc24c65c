"""Roots: what the caller names, and what this user's own index wrote, is followed; nothing else is."""

from __future__ import annotations

import gc
import hashlib
import hmac
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from toolkit.errors import NotFoundError, StorageError, UsageError
from toolkit.storage.local import LocalStore
from toolkit.storage.roots import Roots, check_roots
from toolkit.storage.roots_file import write_roots

PIN = "0" * 64


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def store(home: Path) -> LocalStore:
    (home / "ds").mkdir()
    (home / "photos/sub").mkdir(parents=True)
    (home / "photos/sub/a.jpg").write_bytes(b"picture")
    return LocalStore(str(home / "ds"))


def key_of(home: Path) -> Path:
    return home / "state/toolkit/key"


def said(store: LocalStore, roots: Any, **more: Any) -> None:
    Path(store.root, "roots.json").write_text(json.dumps({"roots": roots, **more}))


def test_what_this_users_index_wrote_is_followed(store: LocalStore, home: Path) -> None:
    assert write_roots(store, {"source": str(home / "photos")}, PIN)
    roots = Roots(store, version=PIN)
    assert roots.folder("source") == str(home / "photos")
    assert os.listdir(f"/proc/self/fd/{roots.descriptor('source')}") == ["sub"]
    assert roots.descriptor("source") == roots.descriptor("source")
    assert roots.path("source", "sub/a.jpg") == str(home / "photos/sub/a.jpg")
    assert key_of(home).stat().st_mode & 0o777 == 0o600
    assert os.listdir(key_of(home).parent) == ["key"]


def test_the_key_is_made_once_and_kept(store: LocalStore, home: Path) -> None:
    write_roots(store, {"source": str(home)}, PIN)
    first, key = Path(store.root, "roots.json").read_bytes(), key_of(home).read_bytes()
    write_roots(store, {"source": str(home)}, PIN)
    assert (Path(store.root, "roots.json").read_bytes(), key_of(home).read_bytes()) == (first, key)
    mac = json.loads(first)["mac"]
    said_so = json.dumps([{"source": str(home)}, {}, [PIN]], separators=(",", ":")).encode()
    assert mac == hmac.new(key, b"toolkit roots 1\0" + said_so, hashlib.sha256).hexdigest()


def test_without_a_state_folder_of_its_own_the_key_lies_in_the_home(
    store: LocalStore, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "relative")  # which the XDG specification says to ignore
    monkeypatch.setenv("HOME", str(home / "me"))
    write_roots(store, {"source": str(home)}, PIN)
    assert (home / "me/.local/state/toolkit/key").stat().st_size == 32


def test_descriptors_are_closed_with_their_roots(store: LocalStore, home: Path) -> None:
    roots = Roots(store, check_roots(home / "photos", store))
    gc.collect()  # what other tests left
    before = len(os.listdir("/proc/self/fd"))
    roots.descriptor("source")
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del roots
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_inside_of_the_dataset_needs_no_proof(store: LocalStore, home: Path) -> None:
    Path(store.root, "mine").mkdir()
    said(store, {"a": "mine", "b": str(Path(store.root, "mine"))})
    assert [Roots(store, version=PIN).folder(name) for name in "ab"] == [str(Path(store.root, "mine"))] * 2
    Path(store.root, "out").symlink_to(home / "photos")
    said(store, {"a": "out"})
    with pytest.raises(UsageError, match="outside of the dataset"):
        Roots(store, version=PIN).folder("a")


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc", "nothing shows that you wrote it"),
        ("/", "nothing shows that you wrote it"),
        ("~/.ssh", "only plain paths"),
        ("~root", "only plain paths"),
        ("..", "leads out"),
        ("../photos", "leads out"),
        ("/home/../etc", "leads out"),
        ("//host/share", "only plain paths"),
        ("s3://bucket/x", "only local folders"),
        ("file:///etc", "only local folders"),
        ("/etc\0/x", "no path"),
        ("", "no path"),
        (7, "no root with the path"),
        (None, "no root with the path"),
    ],
)
def test_a_strangers_roots_are_refused(store: LocalStore, path: object, why: str) -> None:
    said(store, {"source": path})
    with pytest.raises(UsageError, match=f"(?s)roots.json isn't followed: .*{why}.*roots={{'source': '/path'}}"):
        Roots(store, version=PIN).folder("source")


@pytest.mark.parametrize("mac", ["", "0" * 64, "ä" * 64, 5, None])
def test_a_sum_that_is_not_of_this_key_proves_nothing(store: LocalStore, home: Path, mac: object) -> None:
    write_roots(store, {"source": str(home / "photos")}, PIN)
    said(store, {"source": str(home / "photos")}, mac=mac)
    with pytest.raises(UsageError, match="isn't followed"):
        Roots(store, version=PIN).folder("source")


def test_a_sum_is_of_all_roots_with_their_names(store: LocalStore, home: Path) -> None:
    write_roots(store, {"source": str(home / "photos")}, PIN)
    mac = json.loads(Path(store.root, "roots.json").read_text())["mac"]
    for roots in ({"source": "/etc"}, {"other": str(home / "photos")}, {"source": str(home / "photos"), "x": "/etc"}):
        said(store, roots, mac=mac)
        with pytest.raises(UsageError, match="or was changed since"):
            Roots(store, version=PIN).folder(next(iter(roots)))


def test_a_sum_is_for_the_versions_that_it_names(store: LocalStore, home: Path) -> None:
    """So a copy of the file proves nothing beside a dataset from somebody else."""
    assert write_roots(store, {"source": str(home / "photos")}, PIN)
    with pytest.raises(UsageError, match="it was written for another dataset"):
        Roots(store, version="1" * 64).folder("source")
    file = Path(store.root, "roots.json")
    whole = json.loads(file.read_text())
    file.write_text(json.dumps({**whole, "versions": [PIN, "1" * 64]}))
    with pytest.raises(UsageError, match="or was changed since"):
        Roots(store, version="1" * 64).folder("source")
    file.write_text(json.dumps({**whole, "versions": "all"}))
    with pytest.raises(UsageError, match="its versions are no list of pins"):
        Roots(store, version=PIN).folder("source")
    file.write_text(json.dumps(whole))
    assert write_roots(store, {"source": str(home)}, "1" * 64, others=[PIN, "2" * 64])
    assert Roots(store, version=PIN).folder("source") == str(home / "photos")
    assert Roots(store, version="1" * 64).folder("source") == str(home)
    with pytest.raises(UsageError, match="it was written for another dataset"):
        Roots(store, version="2" * 64).folder("source")  # which nobody had written


def test_another_users_sum_proves_nothing(store: LocalStore, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_roots(store, {"source": str(home / "photos")}, PIN)
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "another"))
    with pytest.raises(UsageError, match="you have no key"):
        Roots(store, version=PIN).folder("source")
    write_roots(LocalStore(str(home)), {"source": "/"}, PIN)  # now there is one
    with pytest.raises(UsageError, match="wasn't written by you"):
        Roots(store, version=PIN).folder("source")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no JSON"),
        (b"[", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "no roots"),
        (b"{}", "no roots"),
        (b'{"roots": []}', "no roots"),
        (b'{"roots": {"../x": "/a"}}', "no root with"),
        (b'{"roots": {"": "/a"}}', "no root with"),
        (b'{"roots": {"source": "/\\ud800"}}', "no path"),
        (b" " * (1 << 20) + b"{}", "more than"),
    ],
)
def test_what_is_no_list_of_roots_is_refused(store: LocalStore, content: bytes, why: str) -> None:
    Path(store.root, "roots.json").write_bytes(content)
    with pytest.raises(UsageError, match=f"isn't followed: .*{why}"):
        Roots(store, version=PIN).folder("source")
    assert Roots(store, version=PIN).names() == []


def test_a_pipe_in_its_place_is_not_waited_for(store: LocalStore) -> None:
    os.mkfifo(Path(store.root, "roots.json"))
    with pytest.raises(UsageError, match="isn't followed"):
        Roots(store, version=PIN).folder("source")


@pytest.mark.parametrize("how", ["mode", "size", "link", "folder"])
def test_a_key_that_others_could_know_is_refused(store: LocalStore, home: Path, how: str) -> None:
    write_roots(store, {"source": str(home / "photos")}, PIN)
    key = key_of(home)
    if how == "mode":
        key.chmod(0o640)
    elif how == "size":
        key.write_bytes(b"")
    else:
        key.rename(home / "moved")
        key.symlink_to(home / "moved") if how == "link" else key.mkdir()
    with pytest.raises(StorageError, match=r"toolkit/key' (can't be your key|is a symbolic link)"):
        Roots(store, version=PIN).folder("source")
    assert Roots(store, check_roots(home / "photos", store)).folder("source") == str(home / "photos")
    assert not write_roots(store, {"source": str(home / "photos")}, PIN)
    assert "mac" not in json.loads(Path(store.root, "roots.json").read_text())


def test_a_root_that_is_not_there_names_itself_and_another_way(store: LocalStore, home: Path) -> None:
    write_roots(store, {"source": str(home / "gone")}, PIN)
    with pytest.raises(
        NotFoundError, match=r"root 'source' of .*/gone', which isn't there. Say where it is: .*--roots"
    ):
        Roots(store, version=PIN).descriptor("source")
    (home / "gone").write_bytes(b"")
    with pytest.raises(NotFoundError, match="which is no folder"):
        Roots(store, version=PIN).descriptor("source")


def test_nothing_says_where_a_root_is(store: LocalStore, home: Path) -> None:
    with pytest.raises(UsageError, match=r"root 'source', and nothing says where .* --roots source=/path"):
        Roots(store, version=PIN).folder("source")
    write_roots(store, {"source": str(home)}, PIN)
    with pytest.raises(UsageError, match=r"root 'source-2', .*knows source\."):
        Roots(store, version=PIN).folder("source-2")


def test_callers_name_one_root_or_each(store: LocalStore, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = str(home / "photos")
    monkeypatch.chdir(home)
    monkeypatch.setenv("HOME", str(home))
    for given in ("photos", Path("photos"), "~/photos", {"source": "photos"}):
        roots = Roots(store, check_roots(given, store))
        assert roots.folder("source") == photos
        assert pickle.loads(pickle.dumps(roots.given)) == roots.given
    assert check_roots(None, store) is None


def test_one_path_is_for_the_only_root(store: LocalStore, home: Path) -> None:
    write_roots(store, {"mine": "/nowhere"}, PIN)
    assert Roots(store, check_roots(home, store), PIN).folder("mine") == str(home)
    write_roots(store, {"mine": "/nowhere", "other": "/nowhere"}, PIN)
    with pytest.raises(UsageError, match="has the roots mine, other: say which"):
        Roots(store, check_roots(home, store), PIN).folder("mine")
    with pytest.raises(UsageError, match="has the roots mine, other, third: say which"):
        Roots(store, check_roots(home, store), PIN).folder("third")


def test_what_callers_name_is_checked_at_once(store: LocalStore, home: Path) -> None:
    write_roots(store, {"source": "/nowhere", "source-2": "/nowhere"}, PIN)
    for given, error, why in (
        ({"sorce": home}, UsageError, "no root 'sorce'; it has source, source-2. Did you mean 'source'"),
        ({"": home}, UsageError, "no name of a root"),
        ({3: home}, UsageError, "no name of a root"),
        ({"source": 3}, UsageError, "the path of a folder, got 3"),
        (3, UsageError, "the path of a folder, got 3"),
        ("", UsageError, "the path of a folder"),
        ("s3://bucket", UsageError, "only local files"),
        ("a\0b", UsageError, "NUL"),
        (home / "gone", NotFoundError, "gone', which isn't there"),
        (home / "photos/sub/a.jpg", NotFoundError, "which is no folder"),
    ):
        with pytest.raises(error, match=why):
            check_roots(given, store)  # type: ignore[arg-type]


def test_what_callers_name_counts_before_what_the_dataset_says(store: LocalStore, home: Path) -> None:
    write_roots(store, {"source": "/nowhere", "source-2": str(home)}, PIN)
    roots = Roots(store, check_roots({"source": home / "photos"}, store), PIN)
    assert roots.folder("source") == str(home / "photos")
    assert roots.folder("source-2") == str(home)
    said(store, {"source": "/etc", "source-2": "/etc"})
    assert roots.folder("source") == str(home / "photos")
    with pytest.raises(UsageError, match="isn't followed"):
        Roots(store, roots.given).folder("source-2")
