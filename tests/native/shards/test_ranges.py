"""Ranges of files: the same bytes as Python's own reads, and a status for every file that isn't what it was."""

from __future__ import annotations

import errno
import gc
import os
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit._native.shards.body import READ_NULL, READ_OK
from toolkit._native.shards.fetch import FetchBuffer
from toolkit._native.shards.ranges import (
    RANGE_ERRNO,
    RANGE_GONE,
    RANGE_KIND,
    RANGE_LINK,
    RANGE_PLACE,
    RANGE_ROOT,
    RANGE_SHORT,
    RANGE_STAT,
    RANGE_SUM,
    Ranges,
    read_range,
)
from toolkit._native.shards.sums import ChunkSums

SIZES = {"empty": 0, "one": 1, "a/chunk": 16384, "a/more": 16385, "a/b/large": 300_000}
Range = tuple[str | None, int, int]  # path, offset, length


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("ranges") / "root"
    for number, (name, size) in enumerate(SIZES.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(np.random.default_rng(number).bytes(size))
    return root


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    (tmp_path / "root/sub").mkdir(parents=True)
    (tmp_path / "root/sub/file").write_bytes(bytes(range(256)) * 200)
    return tmp_path / "root"


def sums_of(data: bytes) -> bytes:
    sums = ChunkSums()
    sums.update(data)
    return sums.digest()


class Opened:
    """Ranges of the files below a folder as they are now, and the outcome of reading them."""

    def __init__(
        self, root: Path, ranges: Sequence[Range], *, stat: bool = False, summed: bool = True, walk: bool = False
    ) -> None:
        fd = os.open(root, os.O_PATH | os.O_DIRECTORY)
        self.good = [None if p is None else (root / p).read_bytes()[o : o + n] for p, o, n in ranges]
        infos = [None if p is None else (root / p).stat() for p, _, _ in ranges]
        self.fd, n = fd, len(ranges)
        self.lengths = np.array([length for _, _, length in ranges], np.int64)
        self.ranges = Ranges(
            np.full(n, fd, np.int32),
            [None if path is None else path.encode() for path, _, _ in ranges],
            np.array([offset for _, offset, _ in ranges], np.int64),
            self.lengths,
            [None if value is None or not summed else sums_of(value) for value in self.good],
            np.array([-1 if info is None else info.st_size for info in infos], np.int64) if stat else None,
            np.array([-1 if info is None else info.st_mtime_ns for info in infos], np.int64) if stat else None,
            walk=walk,
        )
        self.statuses, self.chunks = np.zeros(n, np.int32), np.zeros(n, np.int64)

    def bytes(self) -> tuple[list[bytes | None], list[int]]:
        self.statuses[:] = READ_OK
        values, failed = self.ranges.take(self.statuses, self.chunks)
        assert failed == int((self.statuses > READ_NULL).sum())
        os.close(self.fd)
        return values, self.statuses.tolist()


@pytest.fixture(params=[False, True], ids=["openat2", "walk"])
def walk(request: pytest.FixtureRequest) -> Iterator[bool]:
    gc.collect()  # what other tests left
    before = len(os.listdir("/proc/self/fd"))
    yield request.param
    assert len(os.listdir("/proc/self/fd")) == before, "a descriptor stays open"


def test_the_same_bytes_as_pythons_own(root: Path, walk: bool) -> None:
    ranges: list[Range] = [(name, 0, size) for name, size in SIZES.items()]
    ranges += [("a/b/large", 1, 299_999), ("a/b/large", 17_000, 100), (None, 0, 0), ("a/b/large", 300_000, 0)]
    opened = Opened(root, ranges, walk=walk)
    values, statuses = opened.bytes()
    assert values == opened.good
    assert statuses == [READ_OK] * 7 + [READ_NULL, READ_OK]


PIECES = st.lists(
    st.sampled_from(list(SIZES.items())).flatmap(
        lambda file: st.tuples(st.just(file[0]), st.integers(0, file[1]), st.integers(0, file[1])).map(
            lambda r: (r[0], min(r[1], r[2]), max(r[1], r[2]) - min(r[1], r[2]))
        )
    ),
    max_size=12,
)


@given(ranges=PIECES, edge=st.integers(0, 64))
def test_any_ranges_any_way_and_nothing_beside_them(root: Path, ranges: list[Range], edge: int) -> None:
    opened = Opened(root, ranges)
    n = len(ranges)
    places = edge + np.concatenate(([0], np.cumsum(opened.lengths)))
    out = np.full(int(places[-1]) + edge, 0xA5, np.uint8)
    assert opened.ranges.read(places, out, opened.statuses, opened.chunks) == 0
    assert out[edge : len(out) - edge].tobytes() == b"".join(value or b"" for value in opened.good)
    assert set(out[:edge]) | set(out[len(out) - edge :]) <= {0xA5}
    buffer, addresses, lengths = FetchBuffer(), np.empty(n, np.uint64), np.empty(n, np.int64)
    assert opened.ranges.read_into(buffer, addresses, lengths, opened.statuses, opened.chunks) == 0
    taken = [buffer.take(int(a), int(length)) for a, length in zip(addresses, lengths, strict=True)]
    assert taken == opened.good
    assert opened.ranges.look(opened.statuses, opened.chunks) == 0
    assert opened.bytes()[0] == opened.good


def test_a_flip_names_the_chunk_and_leaves_zeros(fresh: Path, walk: bool) -> None:
    opened = Opened(fresh, [("sub/file", 100, 50_000), ("sub/file", 0, 10)], walk=walk)
    with open(fresh / "sub/file", "r+b") as file:
        file.seek(100 + 16384 * 2)
        file.write(b"\xff\xfe")
    places, out = np.array([0, 50_000, 50_010]), np.full(50_010, 7, np.uint8)
    assert opened.ranges.read(places, out, opened.statuses, opened.chunks) == 1
    assert opened.statuses.tolist() == [RANGE_SUM, READ_OK]
    assert opened.chunks.tolist() == [2, -1]
    assert out.tobytes() == bytes(50_000) + (opened.good[1] or b"")
    assert opened.bytes() == ([None, opened.good[1]], [RANGE_SUM, READ_OK])


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("removed", RANGE_GONE),
        ("folder removed", RANGE_GONE),
        ("folder is a file", RANGE_GONE),
        ("truncated", RANGE_SHORT),
        ("pipe", RANGE_KIND),
        ("folder", RANGE_KIND),
        ("socket", RANGE_KIND),
        ("link out", RANGE_LINK),
        ("absolute link", RANGE_LINK),
        ("folder link out", RANGE_LINK),
        ("circle", RANGE_LINK),
    ],
)
def test_what_stands_in_its_place_is_told(
    fresh: Path, walk: bool, how: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Opened(fresh, [("sub/file", 0, 51_200)], walk=walk)
    file, elsewhere = fresh / "sub/file", fresh.parent / "elsewhere"
    elsewhere.mkdir()
    file.rename(elsewhere / "file")
    if how.startswith("folder ") or how == "folder removed":
        (fresh / "sub").rmdir()
    if how == "folder is a file":
        (fresh / "sub").write_bytes(b"")
    elif how == "truncated":
        file.write_bytes((elsewhere / "file").read_bytes()[:-1])
    elif how == "pipe":
        os.mkfifo(file)
    elif how == "folder":
        file.mkdir()
    elif how == "socket":
        monkeypatch.chdir(fresh / "sub")  # the name of a socket may not be long
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind("file")
    elif how == "link out":
        file.symlink_to("../../elsewhere/file")
    elif how == "absolute link":
        file.symlink_to(elsewhere / "file")
    elif how == "folder link out":
        (fresh / "sub").symlink_to("../elsewhere")
    elif how == "circle":
        file.symlink_to("file")
    assert opened.bytes() == ([None], [status])


def test_a_link_that_stays_below_the_root_is_followed(fresh: Path) -> None:
    (fresh / "link").symlink_to("sub/file")
    opened = Opened(fresh, [("link", 0, 51_200)])
    assert opened.bytes() == (opened.good, [READ_OK])


def test_what_the_system_refuses_has_its_errno(fresh: Path, walk: bool) -> None:
    name = "x" * 300
    ranges = Opened(fresh, [("sub/file", 0, 1)], walk=walk)
    long = Ranges(
        np.array([ranges.fd], np.int32), [name.encode()], np.zeros(1, np.int64), np.ones(1, np.int64), [b"abcd"],
        walk=walk,
    )  # fmt: skip
    assert long.look(ranges.statuses, ranges.chunks) == 1
    assert ranges.statuses.tolist() == [RANGE_ERRNO + errno.ENAMETOOLONG]
    os.close(ranges.fd)


def test_size_and_time_are_compared_where_they_are_given(fresh: Path, walk: bool) -> None:
    def read() -> list[int]:
        return Opened(fresh, [("sub/file", 0, 100)], stat=True, summed=False, walk=walk).bytes()[1]

    assert read() == [READ_OK]
    for change in ("time", "size"):
        opened = Opened(fresh, [("sub/file", 0, 100)], stat=True, summed=False, walk=walk)
        info = (fresh / "sub/file").stat()
        if change == "size":
            with open(fresh / "sub/file", "ab") as file:
                file.write(b"!")
        os.utime(fresh / "sub/file", ns=(0, info.st_mtime_ns + (change == "time")))
        assert opened.bytes() == ([None], [RANGE_STAT])


@pytest.mark.parametrize(
    ("path", "offset", "length", "sums"),
    [
        (b"", 0, 1, b"abcd"),
        (b"/etc/passwd", 0, 1, b"abcd"),
        (b"../x", 0, 1, b"abcd"),
        (b"a/../../x", 0, 1, b"abcd"),
        (b"a/..", 0, 1, b"abcd"),
        (b"./a", 0, 1, b"abcd"),
        (b"a//b", 0, 1, b"abcd"),
        (b"a/", 0, 1, b"abcd"),
        (b"a\0b", 0, 1, b"abcd"),
        (b"a" * 4096, 0, 1, b"abcd"),
        (b"a", -1, 1, b"abcd"),
        (b"a", 0, -1, b"abcd"),
        (b"a", 2, (1 << 63) - 2, b"abcd"),
        (b"a", 0, 1, b""),
        (b"a", 0, 1, b"abcdefgh"),
        (b"a", 0, 16385, b"abcd"),
        (b"a", 0, 0, b"abcd"),
        (b"a", 0, 4, b"abc"),
        (b"a", 0, 1, None),
    ],
)
def test_a_reference_that_cannot_be_is_not_followed(path: bytes, offset: int, length: int, sums: bytes | None) -> None:
    one = Ranges(
        np.array([-1], np.int32), [path], np.array([offset], np.int64), np.array([length], np.int64), [sums]
    )  # fmt: skip
    statuses, chunks = np.zeros(1, np.int32), np.zeros(1, np.int64)
    assert one.take(statuses, chunks) == ([None], 1)
    assert statuses.tolist() == [RANGE_PLACE]


def test_an_unknown_root_is_told() -> None:
    one = Ranges(np.array([-1], np.int32), [b"a"], np.zeros(1, np.int64), np.ones(1, np.int64), [b"abcd"])
    statuses, chunks = np.zeros(1, np.int32), np.zeros(1, np.int64)
    assert one.look(statuses, chunks) == 1
    assert statuses.tolist() == [RANGE_ROOT]


def test_what_was_found_wrong_before_stays_wrong_and_is_not_opened(root: Path) -> None:
    opened = Opened(root, [("a/more", 0, 16385), ("one", 0, 1)])
    opened.statuses[0] = RANGE_GONE
    out = np.full(5, 7, np.uint8)
    assert opened.ranges.read(np.array([0, 4, 5]), out, opened.statuses, opened.chunks) == 1
    assert opened.statuses.tolist() == [RANGE_GONE, READ_OK]
    assert out.tobytes() == bytes(4) + (opened.good[1] or b"")
    os.close(opened.fd)


def test_shapes_and_places_are_checked_before_anything_is_read(root: Path) -> None:
    opened = Opened(root, [("a/more", 0, 16385)])
    out = np.zeros(16385, np.uint8)
    for places in ([0, 16386], [-1, 16384], [5, 4]):
        with pytest.raises(ValueError, match="place within out"):
            opened.ranges.read(np.array(places), out, opened.statuses, opened.chunks)
    with pytest.raises(ValueError, match="16385 bytes, its place 10"):
        opened.ranges.read(np.array([0, 10]), out, opened.statuses, opened.chunks)
    with pytest.raises(ValueError, match="must fit"):
        opened.ranges.take(np.zeros(2, np.int32), opened.chunks)
    with pytest.raises(ValueError, match="must fit"):
        Ranges(np.zeros(2, np.int32), [b"a"], np.zeros(1, np.int64), np.zeros(1, np.int64), [None])
    os.close(opened.fd)


def test_a_length_beyond_the_file_takes_no_time_and_no_memory_to_refuse(root: Path) -> None:
    fd = os.open(root, os.O_PATH)
    one = Ranges(
        np.array([fd], np.int32),
        [b"one"],
        np.zeros(1, np.int64),
        np.array([1 << 40], np.int64),
        [None],
        np.ones(1, np.int64),
        np.array([(root / "one").stat().st_mtime_ns]),
    )
    statuses, chunks = np.zeros(1, np.int32), np.zeros(1, np.int64)
    assert one.look(statuses, chunks) == 1
    assert statuses.tolist() == [RANGE_SHORT]
    buffer = FetchBuffer()
    assert one.read_into(buffer, np.empty(1, np.uint64), np.empty(1, np.int64), statuses, chunks) == 1
    assert buffer.nbytes == 1
    os.close(fd)


def test_one_range_at_a_time(fresh: Path) -> None:
    fd, info = os.open(fresh, os.O_PATH), (fresh / "sub/file").stat()
    data = (fresh / "sub/file").read_bytes()
    whole = (b"sub/file", 0, 51_200, sums_of(data))
    assert read_range(fd, *whole) == data
    assert read_range(fd, b"sub/file", 7, 0, b"") == b""
    assert read_range(fd, b"sub/file", 7, 9, None, info.st_size, info.st_mtime_ns) == data[7:16]
    for wrong in (
        (-1, *whole),
        (fd, b"../root/sub/file", 0, 51_200, sums_of(data)),
        (fd, b"sub/gone", 0, 51_200, sums_of(data)),
        (fd, b"sub", 0, 51_200, sums_of(data)),
        (fd, b"sub/file", 1, 51_200, sums_of(data)),
        (fd, b"sub/file", 0, 51_200, sums_of(data)[::-1]),
        (fd, b"sub/file", 0, -1, b""),
        (fd, b"sub/file", 0, 9, None),
        (fd, b"sub/file", 0, 9, None, info.st_size, info.st_mtime_ns + 1),
        (fd, b"sub/file", 0, 9, None, info.st_size + 1, info.st_mtime_ns),
    ):
        assert read_range(*wrong) is None  # type: ignore[arg-type]
    os.close(fd)
