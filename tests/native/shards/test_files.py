"""Files read in one call: the same bytes as Python's own reads, and nothing of a file that isn't the one listed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from toolkit._native.shards.files import READ_CHANGED, READ_GOOD, STAT_OTHER, read_files, start_writeback, stat_files

CONTENTS = [b"", b"one", os.urandom(100_000), b"x" * 4096]


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    for i, content in enumerate(CONTENTS):
        (tmp_path / f"{i}.bin").write_bytes(content)
    return sorted(tmp_path.iterdir())


def read(paths: list[Path], infos: list[os.stat_result], room: int | None = None) -> tuple[bytes, list[int]]:
    out = np.full(sum(info.st_size for info in infos) if room is None else room, 7, np.uint8)
    statuses = np.full(len(paths), 99, np.int32)
    got = read_files(
        [os.fsencode(path) for path in paths],
        np.array([info.st_size for info in infos], np.int64),
        np.array([info.st_mtime_ns for info in infos], np.int64),
        np.array([info.st_ino for info in infos], np.uint64),
        out,
        statuses,
    )
    assert (out[got:] == 7).all() or READ_CHANGED in statuses
    return out[:got].tobytes(), statuses.tolist()


def test_files_stand_one_behind_the_other(paths: list[Path]) -> None:
    infos = [path.stat() for path in paths]
    assert read(paths, infos) == (b"".join(CONTENTS), [READ_GOOD] * 4)
    assert read(paths, infos, room=200_000) == (b"".join(CONTENTS), [READ_GOOD] * 4)


def test_no_files_are_no_bytes() -> None:
    assert read([], []) == (b"", [])


@pytest.mark.parametrize("how", ["shorter", "longer", "touched", "replaced", "a pipe"])
def test_a_file_that_is_another_leaves_no_gap(paths: list[Path], how: str) -> None:
    infos = [path.stat() for path in paths]
    victim, before = paths[2], infos[2]
    if how in ("replaced", "a pipe"):
        victim.rename(victim.with_suffix(".old"))
    if how == "a pipe":
        os.mkfifo(victim)  # opening one that nobody writes to would wait for ever
    elif how != "touched":
        victim.write_bytes(CONTENTS[2][:-1] if how == "shorter" else CONTENTS[2] + b"!" * (how == "longer"))
    os.utime(victim, ns=(0, before.st_mtime_ns + (how == "touched")))
    assert read(paths, infos) == (
        b"".join(CONTENTS[:2] + CONTENTS[3:]),
        [READ_GOOD, READ_GOOD, READ_CHANGED, READ_GOOD],
    )


def test_what_cannot_be_opened_has_its_errno(paths: list[Path]) -> None:
    infos = [path.stat() for path in paths]
    paths[1].unlink()
    assert read(paths, infos)[1] == [READ_GOOD, errno.ENOENT, READ_GOOD, READ_GOOD]


def test_room_and_lengths_are_checked_before_anything_is_read(paths: list[Path]) -> None:
    infos = [path.stat() for path in paths]
    with pytest.raises(ValueError, match="do not fit"):
        read(paths, infos, room=100)
    with pytest.raises(ValueError, match="fit the paths"):
        read(paths[:3], infos)


def test_writeback_is_only_advice(tmp_path: Path) -> None:
    with open(tmp_path / "file", "wb", buffering=0) as file:
        file.write(b"abc")
        start_writeback(file.fileno(), 0, 3)
        fd = file.fileno()
    start_writeback(fd, 0, 3)  # closed: nothing happens
    assert (tmp_path / "file").read_bytes() == b"abc"


def told(folder: Path | bytes, names: list[bytes]) -> tuple[list[int], list[tuple[int, int, int, int]]]:
    sizes, mtimes, ctimes = (np.full(len(names), -7, np.int64) for _ in range(3))
    inodes, statuses = np.full(len(names), 7, np.uint64), np.full(len(names), 99, np.int32)
    stat_files(os.fsencode(folder), names, sizes, mtimes, ctimes, inodes, statuses)
    columns = (sizes.tolist(), mtimes.tolist(), ctimes.tolist(), inodes.tolist())
    return statuses.tolist(), list(zip(*columns, strict=True))


def test_files_are_what_stat_says(paths: list[Path], tmp_path: Path) -> None:
    os.utime(paths[1], ns=(5, -1_500_000_001))
    odd = tmp_path / os.fsdecode(b"\xff \n.jpg")
    odd.write_bytes(b"odd")
    names = [os.fsencode(path.name) for path in [*paths, odd]]
    infos = [path.stat() for path in [*paths, odd]]
    expected = [(info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino) for info in infos]
    assert told(tmp_path, names) == ([READ_GOOD] * 5, expected)
    assert told(tmp_path, []) == ([], [])


def test_nothing_is_told_of_what_is_no_regular_file(paths: list[Path], tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("1.bin")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    statuses, infos = told(tmp_path, [b"link", b"1.bin", b"folder", b"pipe", b"gone", b"1.bin/x", b"n" * 300])
    assert statuses == [STAT_OTHER, READ_GOOD, STAT_OTHER, STAT_OTHER, errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG]
    assert [info for info, status in zip(infos, statuses, strict=True) if status] == [(-7, -7, -7, 7)] * 6
    assert told(tmp_path / "nowhere", [b"a", b"b"])[0] == [errno.ENOENT] * 2
    assert told(tmp_path / "1.bin", [b"a"])[0] == [errno.ENOTDIR]


def test_what_does_not_fit_the_names_is_refused(tmp_path: Path) -> None:
    for short in range(5):
        columns = [np.zeros(2 - (i == short), np.int64) for i in range(3)]
        inodes, statuses = np.zeros(2 - (short == 3), np.uint64), np.zeros(2 - (short == 4), np.int32)
        with pytest.raises(ValueError, match="must fit the names"):
            stat_files(os.fsencode(tmp_path), [b"a", b"b"], *columns, inodes, statuses)
    with pytest.raises(TypeError):
        told(tmp_path, ["a"])  # type: ignore[list-item]
