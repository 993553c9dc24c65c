from __future__ import annotations

import gzip
import io
import os
import struct
import subprocess
import tarfile
import tempfile
import tracemalloc
from pathlib import Path

import pytest
import zstandard
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sources.tars import FORMATS, tar_bytes, write

from toolkit.errors import NotFoundError, SourceError, StorageError
from toolkit.sources.kinds.webdataset.tar import FILE, FOLDER, LINK, OTHER, SPARSE, Ending, Member, is_tar, open_tar

FILES = [("a.txt", b"x" * 100), ("b/c.bin", bytes(range(256)) * 9), ("empty", b""), ("d", b"y" * 512)]


def read(path: Path, *, chunk_bytes: int = 1024, start: int = 0, end: int | None = None) -> list[tuple[Member, bytes]]:
    with open_tar(str(path), chunk_bytes=chunk_bytes, start=start) as tar:
        return [(member, bytes(tar.read(member)) if member.kind == FILE else b"") for member in tar.members(end)]


def contents(path: Path) -> list[tuple[str, bytes]]:
    return [(member.name, data) for member, data in read(path)]


def with_sum(header: bytearray) -> bytes:
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header)


def header(name: bytes, size: int, flag: bytes = b"0", *, magic: bytes = b"ustar\x0000") -> bytes:
    block = bytearray(512)
    block[: len(name)] = name
    block[124:136] = b"%011o\0" % size
    block[156:157] = flag
    block[257 : 257 + len(magic)] = magic
    return with_sum(block)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.zst"])
@pytest.mark.parametrize("chunk_bytes", [512, 700, 1 << 20])
def test_reads_what_tarfile_wrote(tmp_path: Path, format: str, name: str, chunk_bytes: int) -> None:
    path = write(tmp_path / name, tar_bytes(FILES, format=format))
    assert [(member.name, data) for member, data in read(path, chunk_bytes=chunk_bytes)] == FILES
    with open_tar(str(path), chunk_bytes=chunk_bytes) as tar:  # headers only
        assert [member.name for member in tar.members()] == [name for name, _ in FILES]


def test_places_are_those_of_tarfile_and_a_reader_may_begin_at_each(tmp_path: Path) -> None:
    long = "n" * 150 + ".txt"
    for format in ("gnu", "pax"):
        path = write(tmp_path / f"{format}.tar", tar_bytes([*FILES, (long, b"1"), ("z", b"2")], format=format))
        with tarfile.open(path) as tar:
            expected = [(info.name, info.offset, info.offset_data, info.size) for info in tar]
        members = [member for member, _ in read(path)]
        assert [(member.name, member.start, member.data, member.size) for member in members] == expected
        for i, member in enumerate(members):
            assert [one for one, _ in read(path, start=member.start)] == members[i:]
            assert [one for one, _ in read(path, end=member.start)] == members[:i]


def test_gnu_tar_writes_every_kind(tmp_path: Path) -> None:
    root = tmp_path / "src"
    (root / "sub").mkdir(parents=True)
    (root / "file.txt").write_bytes(b"hello")
    os.link(root / "file.txt", root / "hard.txt")
    os.symlink("file.txt", root / "soft.txt")
    os.mkfifo(root / "fifo")
    with open(root / "sparse.bin", "wb") as file:
        for i in range(12):  # more holes than one old sparse header names
            file.seek(i * 200_000)
            file.write(b"data")
        file.truncate(3_000_000)
    (root / ("l" * 200)).write_bytes(b"long")
    for format in ("gnu", "pax", "oldgnu"):
        path = tmp_path / f"{format}.tar"
        command = ["tar", "cf", str(path), "--sparse", "--sort=name", f"--format={format}", "-C", str(root), "."]
        subprocess.run(command, check=True, capture_output=True)
        members = [member for member, _ in read(path)]
        with tarfile.open(path) as tar:
            assert [member.name.rstrip("/") for member in members if member.kind != SPARSE] == [
                info.name for info in tar if "sparse" not in info.name
            ]
        assert {member.name.rpartition("/")[2]: member.kind for member in members if not member.name.endswith("/")} == {
            "fifo": OTHER,
            "file.txt": FILE,
            "hard.txt": LINK,
            "soft.txt": LINK,
            "l" * 200: FILE,
            next(member.name.rpartition("/")[2] for member in members if member.kind == SPARSE): SPARSE,
        }
        assert [member.kind for member in members if member.name.endswith("/")] == [FOLDER, FOLDER]


def test_old_and_odd_headers(tmp_path: Path) -> None:
    base256 = bytearray(header(b"big", 0))
    base256[124:136] = b"\x80" + struct.pack(">3xQ", 5)
    signed = bytearray(header(b"\xc3\xa9", 5))
    signed[148:156] = b" " * 8
    signed[148:156] = b"%06o\0 " % (sum(signed) - 256 * sum(byte > 127 for byte in signed))
    old_gnu = bytearray(header(b"times", 5, magic=b"ustar  \0"))
    old_gnu[345:357] = b"%011o\0" % 1234567
    prefixed = bytearray(header(b"name", 5))
    prefixed[345:348] = b"pre"
    spaces = bytearray(header(b"spaces", 0))
    spaces[124:136] = b"          5 "
    blocks = [
        with_sum(base256),
        bytes(signed),
        with_sum(old_gnu),
        with_sum(prefixed),
        with_sum(spaces),
        header(b"v7", 5, b"\0", magic=b""),
        header(b"contiguous", 5, b"7"),
    ]
    folder = header(b"folder/", 0, b"\0", magic=b"")
    path = write(tmp_path / "x.tar", b"".join(block + padded(b"12345") for block in blocks) + folder)
    names = ["big", "é", "times", "pre/name", "spaces", "v7", "contiguous"]
    assert [(member.name, data) for member, data in read(path)[:-1]] == [(name, b"12345") for name in names]
    assert read(path)[-1][0].kind == FOLDER


def test_pax_size_and_path_hold(tmp_path: Path) -> None:
    records = b"10 size=5\n" + b"16 path=\xc3\xa9.jpg\xff\n" + b"20 comment=a=b\nc=d\n\n"
    pax = header(b"x", len(records), b"x") + padded(records)
    path = write(tmp_path / "x.tar", pax + header(b"other", 0) + padded(b"12345") + header(b"next", 0))
    assert contents(path) == [("é.jpg\udcff", b"12345"), ("next", b"")]


def test_an_end_without_end_blocks_is_one_and_an_archive_of_nothing_is_empty(tmp_path: Path) -> None:
    data = tar_bytes(FILES)
    end = len(data.rstrip(b"\0")) + -len(data.rstrip(b"\0")) % 512
    for cut in (end, end + 512, end + 700, end + 1024):
        assert contents(write(tmp_path / "x.tar", data[:cut])) == FILES
    assert contents(write(tmp_path / "x.tar", bytes(1024))) == []


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.zst"])
def test_how_a_tar_ends_is_told(tmp_path: Path, name: str) -> None:
    data = tar_bytes(FILES)
    end = len(data.rstrip(b"\0")) + -len(data.rstrip(b"\0")) % 512
    endings = {
        data: Ending.MARKER,
        data[: end + 1024]: Ending.MARKER,
        data[: end + 512]: Ending.MARKER,
        data[:end] + bytes(64 * 1024): Ending.MARKER,  # a tar may be written in records of many blocks
        data[:end]: Ending.NO_MARKER,
        data[: end + 511]: Ending.NO_MARKER,
        data[:end] + bytes(512 * 1024): Ending.ZEROS,
        data + bytes(512 * 1024) + b"x": Ending.OTHER,
        data + padded(b"x") + bytes(512 * 1024): Ending.OTHER,
    }
    for written, ending in endings.items():
        with open_tar(str(write(tmp_path / name, written)), chunk_bytes=512) as tar:
            assert tar.ending is None
            assert [member.name for member in tar.members()] == [file for file, _ in FILES]
            assert tar.ending is ending
        with open_tar(str(tmp_path / name), chunk_bytes=512) as tar:
            list(tar.members(512))
            assert tar.ending is None


@pytest.mark.parametrize("name", ["x.tar", "x.tar.gz", "x.tar.zst"])
def test_every_cut_is_found(tmp_path: Path, name: str) -> None:
    data = tar_bytes(FILES)
    size = sum(512 + len(padded(content)) for _, content in FILES)
    members = [member for member, _ in read(write(tmp_path / "whole.tar", data))]
    whole = {*(member.start for member in members), size}
    for cut in range(size):
        if (cut % 37 and cut % 512) or cut in whole:
            continue
        path = write(tmp_path / name, data[:cut])
        with pytest.raises(SourceError) as caught:
            read(path)
        assert repr(str(path)) in str(caught.value)
        assert "ends within" in str(caught.value)
        assert "--exclude" in str(caught.value)
        good = [member.name for member in members if cut >= member.data + -(-member.size // 512) * 512]
        assert not good or f"the last good member is {good[-1]!r}" in str(caught.value)
        with pytest.raises(SourceError), open_tar(str(path), chunk_bytes=512) as tar:
            list(tar.members())


def test_a_header_with_any_byte_changed_is_found(tmp_path: Path) -> None:
    data = tar_bytes(FILES)
    at = 1024  # the second header
    for i in range(512):
        if data[at + i] ^ 0x10 == data[at + i] or 148 <= i < 156:
            continue
        damaged = bytearray(data)
        damaged[at + i] ^= 0x10
        with pytest.raises(SourceError, match=r"byte 1024: no valid header.* the last good member is 'a.txt'"):
            read(write(tmp_path / "x.tar", bytes(damaged)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"hello", "ends within a header"),
        (b"x" * 2000, "is no tar"),
        (header(b"a", 1 << 32), "ends within the 4294967296 bytes of 'a'"),
        (header(b"L", 2 << 20, b"L"), "a header of 2097152 bytes"),
        (header(b"L", 3, b"L") + padded(b"abc"), "behind a header that announces"),
        (header(b"L", 3, b"L") + padded(b"abc") + bytes(1024), "behind a header that announces"),
        (header(b"x", 9, b"x") + padded(b"nonsense!"), "a pax header that can't be read"),
        (header(b"x", 9, b"x") + padded(b"99 size=5"), "a pax header that can't be read"),
        (header(b"x", 10, b"x") + padded(b"10 size=-\n") + header(b"a", 0), "size isn't a number"),
        (header(b"x", 10, b"g") + padded(b"10 size=5\n") + header(b"a", 0), "sets size for all members"),
        (with_sum(bytearray(header(b"a", 0)[:124] + b"\xff" * 12 + header(b"a", 0)[136:])), "negative size"),
        (with_sum(bytearray(header(b"a", 0)[:124] + b"12_3" + header(b"a", 0)[128:])), "isn't octal"),
        (with_sum(bytearray(header(b"a", 0)[:124] + b"9" + header(b"a", 0)[125:])), "isn't octal"),
        (tar_bytes(FILES) + tar_bytes(FILES), "another archive begins"),
        (b"BZh91AY&SY", "cut short near byte 10"),
        (b"\xfd7zXZ\0" + bytes(20), "the compressed data is damaged"),
        (b"PK\x03\x04", "is zip"),
    ],
)
def test_damage_is_told(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    with pytest.raises(SourceError, match=message) as caught:
        read(path)
    assert repr(str(path)) in str(caught.value)


def test_damaged_compressed_data_tell_file_and_offset(tmp_path: Path) -> None:
    data = tar_bytes([("a", os.urandom(300_000))])
    for name in ("x.tar.gz", "x.tar.zst"):
        path = write(tmp_path / name, data)
        good = path.read_bytes()
        for at in (len(good) // 2, len(good) - 3):  # the data, and the check sum behind them
            damaged = bytearray(good)
            damaged[at] ^= 0xFF
            path.write_bytes(damaged)
            with pytest.raises(
                SourceError, match=r"(data is damaged|damaged zstd data) .*near byte \d+ of the file"
            ) as caught:
                read(path)
            assert repr(str(path)) in str(caught.value)
        path.write_bytes(good[:-3])
        with pytest.raises(SourceError, match=r"data (is|are) cut short near byte \d+"):
            read(path)
        path.write_bytes(good[: len(good) // 2])
        with pytest.raises(SourceError, match="cut short"):
            read(path)
        path.write_bytes(good + b"trailing garbage")
        with pytest.raises(SourceError, match="damaged"):
            read(path)


def test_several_frames_are_one_tar(tmp_path: Path) -> None:
    data = tar_bytes(FILES)
    zstd = zstandard.ZstdCompressor()
    skippable = b"\x50\x2a\x4d\x18" + struct.pack("<I", 5) + b"12345"
    for name, content in {
        "gz": gzip.compress(data[:700]) + gzip.compress(b"") + gzip.compress(data[700:]) + bytes(300),
        "zst": skippable + zstd.compress(data[:700]) + skippable + zstd.compress(data[700:]),
    }.items():
        path = tmp_path / name
        path.write_bytes(content)
        assert contents(path) == FILES


@pytest.mark.parametrize("name", ["x.tar.gz", "x.tar.zst"])
def test_a_compressed_tar_takes_bounded_memory(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, tar_bytes([("zeros", bytes(96 << 20)), ("a", b"1")]))
    assert path.stat().st_size < 500_000
    tracemalloc.start()
    try:
        with open_tar(str(path), chunk_bytes=4096) as tar:
            assert [member.name for member in tar.members()] == ["zeros", "a"]
        assert tracemalloc.get_traced_memory()[1] < 24 << 20
    finally:
        tracemalloc.stop()


def test_views_outlive_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tar", tar_bytes(FILES * 50))
    with open_tar(str(path), chunk_bytes=2048) as tar:
        views = [tar.read(member) for member in tar.members()]
    assert [bytes(view) for view in views] == [data for _, data in FILES * 50]
    assert all(view.readonly for view in views)


def test_a_file_that_changes_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tar", tar_bytes(FILES))
    with open_tar(str(path), chunk_bytes=512) as tar:
        known = tar.file
    with pytest.raises(SourceError, match="changed during the pack"), open_tar(str(path), chunk_bytes=512) as tar:
        os.utime(path, ns=(1, 1))
    with pytest.raises(SourceError, match="changed during the pack"), open_tar(str(path), chunk_bytes=512, known=known):
        pass
    path.unlink()
    with pytest.raises(StorageError), open_tar(str(path), chunk_bytes=512):
        pass


def test_is_tar_by_content(tmp_path: Path) -> None:
    assert is_tar(str(write(tmp_path / "a", tar_bytes(FILES))))
    assert is_tar(str(write(tmp_path / "b.tar.gz", tar_bytes(FILES))))
    assert is_tar(str(write(tmp_path / "c.tar.zst", tar_bytes(FILES))))
    for name, data in {"d.tar": b"no", "e.gz": b"text", "f.zst": b"text", "g.tar": b"", "h": b"x" * 600}.items():
        assert not is_tar(str(write(tmp_path / name, data)))
    write(tmp_path / "i", b"\x1f\x8bnot gzip")
    assert not is_tar(str(tmp_path / "i"))
    with pytest.raises((NotFoundError, StorageError)):
        is_tar(str(tmp_path / "none"))


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40)
long_names = st.builds(lambda name, times: (name * times)[:700], names, st.integers(1, 300))


@settings(deadline=None, max_examples=120)
@given(st.lists(st.tuples(names | long_names, st.binary(max_size=1500)), max_size=6), st.sampled_from(["gnu", "pax"]))
@example([("/" + "é" * 300, b"")], "gnu")
@example([("x" * 100, b"1"), ("x" * 101, b"2"), ("x" * 255, b"3"), ("x/" * 200 + "y", b"4")], "pax")
@example([("a\nb=c.jpg", b"1"), ("12 path=x\n", b"2"), ("\x7f\x80.txt", b"3")], "pax")
def test_any_name_comes_back(items: list[tuple[str, bytes]], format: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder) / "x.tar", tar_bytes(items, format=format))
        with tarfile.open(path, errors="surrogateescape", encoding="utf-8") as tar:
            expected = [(info.name, info.offset, info.offset_data, info.size) for info in tar]
        members = [member for member, _ in read(path)]
        assert [(m.name.rstrip("/"), m.start, m.data, m.size) for m in members] == [
            (name.rstrip("/"), *places) for name, *places in expected
        ]
        assert [data for member, data in read(path) if member.kind == FILE] == [
            data for name, data in items if not name.endswith("/")
        ]


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_damage_anywhere_is_an_error_or_harmless(data: st.DataObject) -> None:
    whole = tar_bytes([*FILES, ("n" * 120, b"5")], format=data.draw(st.sampled_from(["gnu", "pax"])))
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.tar"
        path.write_bytes(damaged[: data.draw(st.integers(0, len(whole)))])
        try:
            members = read(path)
        except SourceError:
            return
        for member, content in members:
            assert len(content) in (0, member.size)


def test_zeros_in_the_stream_of_a_compressed_file_are_not_kept(tmp_path: Path) -> None:
    sink = io.BytesIO(tar_bytes(FILES))
    sink.seek(0, io.SEEK_END)
    sink.write(bytes(5 << 20))  # padding that some writers add
    assert contents(write(tmp_path / "x.tar.gz", sink.getvalue())) == FILES
    assert contents(write(tmp_path / "x.tar", sink.getvalue())) == FILES
