"""A user's own cache: whole files or none, nobody else's, and never too many."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toolkit.errors import StorageError, UsageError
from toolkit.storage.user_cache import UserCache


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


def cache(most_files: int = 10, most_bytes: int = 10_000) -> UserCache:
    return UserCache("things", most_files, most_bytes)


def test_what_was_written_is_read(home: Path) -> None:
    assert cache().read("a") is None
    assert not home.exists()
    assert cache().write("a", b"first")
    assert cache().write("a", b"second")
    assert cache().write("b", b"")
    assert (cache().read("a"), cache().read("b"), cache().read("c")) == (b"second", b"", None)
    folder = home / "toolkit" / "things"
    assert cache().folder == str(folder)
    assert [oct(path.stat().st_mode & 0o777) for path in (home / "toolkit", folder, folder / "a")] == [
        "0o700",
        "0o700",
        "0o600",
    ]


def test_the_folder_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for said in ("", "relative/path"):  # the specification has relative ones ignored
        monkeypatch.setenv("XDG_CACHE_HOME", said)
        assert cache().folder == str(tmp_path / ".cache/toolkit/things")


@pytest.mark.parametrize("damage", ["cut", "flip", "longer", "empty"])
def test_damaged_files_count_as_not_there(home: Path, damage: str) -> None:
    cache().write("a", bytes(range(200)))
    path = home / "toolkit/things/a"
    data = path.read_bytes()
    flipped = bytes([data[0] ^ 1]) + data[1:]
    path.write_bytes({"cut": data[:-1], "flip": flipped, "longer": data + b"x", "empty": b""}[damage])
    assert cache().read("a") is None
    cache().write("a", b"again")
    assert cache().read("a") == b"again"


def test_a_folder_in_a_files_place_counts_as_not_there(home: Path) -> None:
    (home / "toolkit/things/a").mkdir(parents=True, mode=0o700)
    before = len(os.listdir("/proc/self/fd"))
    assert cache().read("a") is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_other_peoples_folders_and_files_are_not_believed(home: Path, tmp_path: Path) -> None:
    cache().write("a", b"mine")
    folder = home / "toolkit/things"
    (folder / "a").chmod(0o666)
    assert cache().read("a") is None
    (folder / "a").unlink()
    (tmp_path / "elsewhere").write_bytes((folder.parent / "things").name.encode())
    (folder / "a").symlink_to(tmp_path / "elsewhere")
    assert cache().read("a") is None
    cache().write("a", b"mine")  # takes the link's place, and leaves alone what it led to
    assert (tmp_path / "elsewhere").read_bytes() == b"things"
    os.mkfifo(folder / "pipe", 0o600)
    assert cache().read("pipe") is None
    folder.chmod(0o777)
    for call in (lambda: cache().read("a"), lambda: cache().write("a", b"")):
        with pytest.raises(UsageError, match="chmod 700"):
            call()
    folder.chmod(0o700)
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    for call in (lambda: cache().read("a"), lambda: cache().write("a", b"")):
        with pytest.raises(UsageError, match="is a symbolic link"):
            call()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_folders_that_can_not_be_made_are_said(home: Path) -> None:
    home.mkdir(mode=0o500)
    assert cache().read("a") is None
    with pytest.raises(StorageError, match="can't make"):
        cache().write("a", b"x")


def test_a_file_in_the_folders_place_is_said(home: Path) -> None:
    home.write_bytes(b"")
    assert cache().read("a") is None
    with pytest.raises(StorageError, match="can't make"):
        cache().write("a", b"x")


def test_the_least_recently_used_go_first(home: Path) -> None:
    folder = home / "toolkit/things"
    small = cache(most_files=3)
    for number, name in enumerate("abc"):
        small.write(name, b"x")
        os.utime(folder / name, (1000 + number, 1000 + number))
    assert small.read("a") == b"x"  # used now
    small.write("d", b"x")
    assert sorted(os.listdir(folder)) == ["a", "c", "d"]
    tight = cache(most_bytes=150)
    for name in "acd":
        os.utime(folder / name, (2000, 2000))
    assert tight.write("e", bytes(60))
    assert "e" in os.listdir(folder)
    assert sum(path.stat().st_size for path in folder.iterdir()) <= 150
    assert not tight.write("f", bytes(150))
    assert "f" not in os.listdir(folder)


def test_what_killed_writers_left_is_removed_later(home: Path) -> None:
    cache().write("a", b"x")
    folder = home / "toolkit/things"
    (folder / ".tmp-1-old").write_bytes(b"torn")
    (folder / ".tmp-2-new").write_bytes(b"being written")
    os.utime(folder / ".tmp-1-old", (0, time.time() - 7200))
    cache().write("b", b"x")
    assert sorted(os.listdir(folder)) == [".tmp-2-new", "a", "b"]


def test_many_processes_at_once(home: Path) -> None:
    """Writers and readers of the same few names, more than may stay: each read is whole or nothing."""
    program = """
        import sys
        from toolkit.storage.user_cache import UserCache
        cache = UserCache("things", 3, 10_000)
        for number in range(150):
            name = "abcde"[number * int(sys.argv[1]) % 5]
            cache.write(name, name.encode() * 500)
            held = cache.read("abcde"[number % 5])
            assert held in (None, "abcde"[number % 5].encode() * 500), held
    """
    lines = [line.strip() for line in program.strip().splitlines()]
    text = "\n".join([*lines[:4], *("    " + line for line in lines[4:])])
    running = [subprocess.Popen([sys.executable, "-c", text, str(n)]) for n in (1, 2, 3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(os.listdir(home / "toolkit/things")) <= 5
