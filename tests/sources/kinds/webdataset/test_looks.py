"""WebDataset members that are pictures whatever they are called: found by their first bytes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pictures import encode, picture
from sources.tars import JPEG, PNG, job, packed, rejects, tar_bytes, write

import toolkit
from toolkit.format.kinds import Kind
from toolkit.pack.run import pack
from toolkit.sources.options import Missing

TIFF = encode(picture(5), "TIFF")
PGM = encode(picture(6).convert("L"), "PPM")


def kinds(dataset: Path) -> dict[str, Kind]:
    return {column.name: column.kind for column in toolkit.open(dataset).columns if not column.name.startswith("__")}


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
@pytest.mark.parametrize("extension", ["jfif", "jpe", "JPE", "img", "bin", "BIN", "dat", "pnm", "jp2", "0"])
def test_pictures_by_content(tmp_path: Path, extension: str, suffix: str) -> None:
    items = [(f"{i}.{extension}", data) for i, data in enumerate((JPEG, PNG, TIFF, PGM, JPEG, PNG))]
    source = write(tmp_path / f"x{suffix}", tar_bytes(items))
    got = packed(source, tmp_path / "ds")
    assert [sample["image"] for sample in got] == [data for _, data in items]
    assert kinds(tmp_path / "ds") == {"image": Kind.IMAGE}


def test_one_column_with_those_that_names_tell(tmp_path: Path) -> None:
    items = [("a.jpg", JPEG), ("a.cls", b"1"), ("b.img", PNG), ("b.cls", b"2")]
    got = packed(write(tmp_path / "x.tar", tar_bytes(items)), tmp_path / "ds")
    assert [(sample["image"], sample["label"]) for sample in got] == [(JPEG, 1), (PNG, 2)]


def test_two_pictures_of_a_sample_are_two_columns(tmp_path: Path) -> None:
    items = [("a.jpg", JPEG), ("a.thumb", PNG), ("a.seg.map", TIFF)]
    packed(write(tmp_path / "x.tar", tar_bytes(items)), tmp_path / "ds")
    assert kinds(tmp_path / "ds") == {"jpg": Kind.IMAGE, "thumb": Kind.IMAGE, "seg_map": Kind.IMAGE}


def test_other_bytes_stay_bytes(tmp_path: Path) -> None:
    """One of the first members that is no picture is enough; so are a camera's raw picture and a known name."""
    items = [("a.bin", JPEG), ("a.dng", TIFF), ("a.txt", b"P5 1 1 255 words"), ("a.mix", JPEG), ("a.none", b"")]
    items += [("b.bin", b"BM is no bitmap"), ("b.dng", TIFF), ("b.txt", b"word"), ("b.mix", PNG[:7]), ("b.none", b"")]
    got = packed(write(tmp_path / "x.tar", tar_bytes(items)), tmp_path / "ds")
    assert kinds(tmp_path / "ds") == {
        **dict.fromkeys(("bin", "dng", "mix", "none"), Kind.BYTES),
        "txt": Kind.TEXT,
    }
    assert [sample["bin"] for sample in got] == [JPEG, b"BM is no bitmap"]


def test_a_later_member_that_is_no_picture_is_a_reject(tmp_path: Path) -> None:
    """What an extension is, its first four members say, those of several tars too; nothing is lost of the others."""
    for number in range(3):
        items = [(f"{number}{i}.img", JPEG) for i in range(2)]
        write(tmp_path / f"src/{number}.tar", tar_bytes([*items, *([("bad.img", b"no picture")] * (number == 2))]))
    found = rejects(tmp_path / "src", tmp_path / "ds")
    assert found.keys() == {"bad"}
    assert found["bad"].startswith("img: not an image")
    assert len(toolkit.open(tmp_path / "ds")) == 6


def test_empty_members_say_nothing(tmp_path: Path) -> None:
    items = [("a.img", b""), ("b.img", b""), ("c.img", PNG)]
    assert rejects(write(tmp_path / "x.tar", tar_bytes(items)), tmp_path / "ds").keys() == {"a", "b"}


def test_a_kind_that_is_given_wins(tmp_path: Path) -> None:
    source = write(tmp_path / "x.tar", tar_bytes([("a.bin", JPEG), ("b.bin", PNG)]))
    got = packed(source, tmp_path / "bytes", kind={"bin": Kind.BYTES})
    assert [sample["bin"] for sample in got] == [JPEG, PNG]
    assert kinds(tmp_path / "bytes") == {"bin": Kind.BYTES}
    packed(source, tmp_path / "image", kind={"bin": Kind.IMAGE})
    assert kinds(tmp_path / "image") == {"bin": Kind.IMAGE}
    packed(source, tmp_path / "map", map={"raw": "bin"}, kind={"raw": Kind.BYTES})
    assert kinds(tmp_path / "map") == {"raw": Kind.BYTES}
    packed(source, tmp_path / "late", kind={"image": Kind.BYTES})
    assert kinds(tmp_path / "late") == {"image": Kind.BYTES}


def test_options_still_name_the_extension(tmp_path: Path) -> None:
    source = write(tmp_path / "x.tar", tar_bytes([("a.bin", JPEG), ("b.jpg", PNG)]))
    got = packed(source, tmp_path / "ds", map={"pic": "bin;jpg"})
    assert [sample["pic"] for sample in got] == [JPEG, PNG]
    got = packed(source, tmp_path / "one", columns=("bin",), missing=Missing.SKIP)
    assert [sample["image"] for sample in got] == [JPEG]


def test_jobs_and_order_change_nothing(tmp_path: Path) -> None:
    items = [(f"{i:03d}.img", (JPEG, PNG, TIFF)[i % 3]) for i in range(60)]
    for number in range(3):
        write(tmp_path / f"src/{number}.tar", tar_bytes((f"{number}{name}", data) for name, data in items))
    pins = {pack(job(tmp_path / "src", tmp_path / f"ds{jobs}", jobs=jobs, shard_size=65536)).pin for jobs in (1, 4)}
    assert len(pins) == 1
