"""Local files: durable writes leave the old file or the new one; errors name the path and say what to do."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from toolkit.errors import StorageError
from toolkit.storage.files import (
    fsync_directory,
    read_range,
    storage_errors,
    temporary_name,
    write_durable,
)
from toolkit.storage.store import TEMPORARY_PREFIX


@pytest.mark.parametrize("data", [b"", b"x", bytes(3_000_000)])
def test_write_durable(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a"
    write_durable(str(path), b"old")
    write_durable(str(path), data)
    assert path.read_bytes() == data
    assert os.listdir(tmp_path) == ["a"]


def test_a_bare_name_is_written_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_durable("a", b"x")
    assert (tmp_path / "a").read_bytes() == b"x"


def test_file_then_name_then_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, replace = os.fsync, os.replace

    def logged_fsync(fd: int) -> None:
        events.append(f"fsync {os.path.basename(os.readlink(f'/proc/self/fd/{fd}'))}")
        fsync(fd)

    def logged_replace(old: str, new: str) -> None:
        assert Path(old).read_bytes() == b"x"
        events.append("replace")
        replace(old, new)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "replace", logged_replace)
    write_durable(str(tmp_path / "a"), b"x")
    assert events == [f"fsync {TEMPORARY_PREFIX}{os.getpid()}-a", "replace", f"fsync {tmp_path.name}"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "I/O"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(StorageError if isinstance(error, OSError) else KeyboardInterrupt):
        write_durable(str(path), b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_temporary_names_lie_beside_the_file() -> None:
    assert temporary_name("/a/b") == f"/a/{TEMPORARY_PREFIX}{os.getpid()}-b"
    assert temporary_name("b") == f"{TEMPORARY_PREFIX}{os.getpid()}-b"


def test_a_missing_folder_is_a_storage_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"can't write .*nowhere/a") as caught:
        write_durable(str(tmp_path / "nowhere" / "a"), b"x")
    assert caught.value.exit_code == 5
    assert isinstance(caught.value.__cause__, FileNotFoundError)
    with pytest.raises(StorageError, match=r"can't sync .*nowhere"):
        fsync_directory(str(tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.ENOSPC, "the disk is full: free some space"),
        (errno.EDQUOT, "quota"),
        (errno.EFBIG, "ulimit -f"),
        (errno.EACCES, "permission denied"),
        (errno.EROFS, "read-only"),
        (errno.EMFILE, "ulimit -n"),
        (errno.EIO, "check the disk"),
        (errno.ENOTDIR, "Not a directory"),
    ],
)
def test_errors_say_what_to_do(number: int, advice: str) -> None:
    with pytest.raises(StorageError, match=f"can't read 'p': .*{advice}"), storage_errors("read", Path("p")):
        raise OSError(number, os.strerror(number))


def test_a_storage_error_is_passed_on_as_it_is() -> None:
    original = StorageError("first")
    with pytest.raises(StorageError) as caught, storage_errors("write", "x"):
        raise original
    assert caught.value is original
    with pytest.raises(ValueError, match="other"), storage_errors("write", "x"):
        raise ValueError("other")


def test_an_oserror_without_a_number() -> None:
    with pytest.raises(StorageError, match="odd"), storage_errors("read", "x"):
        raise OSError("odd")


def test_read_range(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = bytes(range(200))
    (tmp_path / "a").write_bytes(data)
    pread = os.pread
    fd = os.open(tmp_path / "a", os.O_RDONLY)
    try:
        for whole in (True, False):
            for start, length in ((0, 200), (0, 0), (50, 10), (190, 100), (300, 5)):
                assert read_range(fd, start, length) == data[start : start + length]
            if whole:  # and again with a system that gives a few bytes at a time
                monkeypatch.setattr(os, "pread", lambda fd, n, at: pread(fd, min(n, 7), at))
    finally:
        os.close(fd)
