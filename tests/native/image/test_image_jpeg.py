"""Decoding: what PIL gives, whole or in part, and what happens to damaged files."""

from __future__ import annotations

import contextlib
import struct

import numpy as np
import pytest
from native.image.test_image_oracle import (
    DECODE_TOLERANCE,
    decode,
    difference,
    jpeg,
    ours,
    photo,
    program,
    sampled,
    status_of,
)
from PIL import Image

from toolkit._native.image import program as image

KINDS = {
    "420": {"subsampling": 2},
    "422": {"subsampling": 1},
    "444": {"subsampling": 0},
    "420-progressive": {"subsampling": 2, "progressive": True},
    "422-progressive": {"subsampling": 1, "progressive": True},
    "444-progressive": {"subsampling": 0, "progressive": True},
    "420-restart": {"subsampling": 2, "restart_marker_blocks": 3},
    "444-restart": {"subsampling": 0, "restart_marker_rows": 1},
    "rgb": {"keep_rgb": True},
    "optimised": {"optimize": True, "quality": 75},
}
TINY = [(w, h) for w in (1, 2, 3, 5, 8, 9, 16, 17, 33, 40) for h in (1, 2, 7, 8, 9, 16, 17, 31)]


def grey(width: int, height: int, seed: int) -> Image.Image:
    return photo(width, height, seed).convert("L")


@pytest.mark.parametrize("kind", KINDS)
def test_full_decode_is_that_of_pil(kind: str) -> None:
    for seed, (width, height) in enumerate([(97, 61), (160, 128), (250, 33), *TINY]):
        data = jpeg(photo(width, height, seed), **KINDS[kind])
        assert difference(ours(data), np.asarray(decode(data))) <= DECODE_TOLERANCE


@pytest.mark.parametrize("progressive", [False, True])
def test_grey_is_repeated(progressive: bool) -> None:
    for seed, (width, height) in enumerate([(97, 61), *TINY]):
        data = jpeg(grey(width, height, seed), progressive=progressive)
        assert difference(ours(data), np.asarray(decode(data))) <= DECODE_TOLERANCE


def windows(rng: np.random.Generator, width: int, height: int) -> list[tuple[int, int]]:
    fixed = [(1, 1), (1, width), (height, 1), (max(height - 1, 1), max(width - 1, 1)), (height, max(width - 2, 1))]
    drawn = [(int(rng.integers(1, height + 1)), int(rng.integers(1, width + 1))) for _ in range(12)]
    return fixed + drawn


def check_windows(data: bytes, rng: np.random.Generator) -> None:
    full = ours(data)
    height, width = full.shape[:2]
    for crop_h, crop_w in windows(rng, width, height):
        top, left = round((height - crop_h) / 2), round((width - crop_w) / 2)
        part = ours(data, [(0, crop_h, crop_w)])
        assert np.array_equal(part, full[top : top + crop_h, left : left + crop_w]), (width, height, crop_h, crop_w)


@pytest.mark.parametrize("kind", [*KINDS, "grey", "grey-progressive"])
@pytest.mark.parametrize("noise", [8.0, 90.0])
def test_part_of_a_picture_equals_the_full_decode(kind: str, noise: float) -> None:
    rng = np.random.default_rng(1)
    sizes = [(int(rng.integers(41, 400)), int(rng.integers(41, 300))) for _ in range(8)]
    for seed, (width, height) in enumerate([*sizes, *TINY[::3]]):
        picture = photo(width, height, seed, noise=noise)
        if kind.startswith("grey"):
            data = jpeg(picture.convert("L"), progressive=kind.endswith("progressive"))
        else:
            data = jpeg(picture, **KINDS[kind])
        check_windows(data, rng)


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize(("sampling", "from_sampling"), [(0x12, 1), (0x41, 2), (0x14, 2)])
def test_rare_samplings(sampling: int, from_sampling: int, progressive: bool) -> None:
    rng = np.random.default_rng(2)
    data = jpeg(photo(320, 160, 3), subsampling=from_sampling, progressive=progressive)
    size = {0x12: (160, 320), 0x41: (640, 80), 0x14: (160, 320)}[sampling]
    data = sampled(data, sampling, *size)
    assert image.probe(data)[:2] == size
    assert difference(ours(data), np.asarray(decode(data))) <= DECODE_TOLERANCE
    check_windows(data, rng)


def segment(payload: bytes) -> bytes:
    return b"\xff\xe1" + (len(payload) + 2).to_bytes(2, "big") + payload


def with_segments(data: bytes, *payloads: bytes) -> bytes:
    return data[:2] + b"".join(segment(payload) for payload in payloads) + data[2:]


def exif(orientation: int, order: str = "<", kind: str = "H", tag_type: int = 3, count: int = 1) -> bytes:
    value = struct.pack(order + kind, orientation).ljust(4, b"\0")
    maker = struct.pack(order + "HHL4s", 0x10F, 2, 3, b"ab\0\0")
    entries = maker + struct.pack(order + "HHL4s", 0x112, tag_type, count, value)
    head = b"II*\0" if order == "<" else b"MM\0*"
    return b"Exif\0\0" + head + struct.pack(order + "LH", 8, 2) + entries + struct.pack(order + "L", 0)


XMP = b'http://ns.adobe.com/xap/1.0/\0<x tiff:Orientation="%d"/>'


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("order", ["<", ">"])
def test_orientation(orientation: int, order: str) -> None:
    for picture in (photo(150, 101, orientation), photo(37, 90, orientation)):
        data = with_segments(jpeg(picture), exif(orientation, order))
        assert image.probe(data)[3] == orientation
        turned = np.asarray(decode(data))
        assert difference(ours(data), turned) <= DECODE_TOLERANCE
        full = ours(data)
        height, width = full.shape[:2]
        top, left = round((height - 30) / 2), round((width - 21) / 2)
        assert np.array_equal(ours(data, [(0, 30, 21)]), full[top : top + 30, left : left + 21])


@pytest.mark.parametrize(
    "payloads",
    [
        [exif(6, "<", "L", 4)],
        [exif(6, ">", "L", 4)],
        [exif(6, "<", "B", 1)],
        [exif(3, "<", "b", 6)],
        [exif(3, "<", "f", 11)],
        [exif(9)],
        [exif(0)],
        [exif(6)[6:]],
        [b"Exif\0\0" + exif(8)],
        [XMP % 6],
        [XMP % 6, XMP % 8],
        [b"http://ns.adobe.com/xap/1.0/\0<tiff:Orientation>3</tiff:Orientation>"],
        [b'http://ns.adobe.com/xap/1.0/\0tiff:Orientation tiff:Orientation="5"'],
        [b"http://ns.adobe.com/xap/1.0/\0tiff:Orientation"],
        [b'http://ns.adobe.com/xap/1.0/\0tiff:Orientation="'],
        [exif(3), XMP % 6],
        [exif(0), XMP % 6],
    ],
)
def test_orientation_as_pil_reads_it(payloads: list[bytes]) -> None:
    data = with_segments(jpeg(photo(60, 41)), *payloads)
    assert difference(ours(data), np.asarray(decode(data))) <= DECODE_TOLERANCE


def test_damaged_exif_is_ignored() -> None:
    plain, good = jpeg(photo(60, 41)), exif(6)
    expected = ours(plain)
    for cut in range(len(good) - 6):
        assert image.probe(with_segments(plain, good[:cut]))[3] in (1, 6)
    rng = np.random.default_rng(0)
    for _ in range(300):
        broken = bytearray(good)
        for at in rng.integers(6, len(good), 3):
            broken[at] = rng.integers(256)
        assert 1 <= image.probe(with_segments(plain, bytes(broken)))[3] <= 8
    for bad in (good[:12] + b"\xff" * 30, good[:6] + b"XX*\0" + good[10:], good[:10] + b"\xff" * 4, b"Exif\0\0"):
        assert np.array_equal(ours(with_segments(plain, bad)), expected)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"restart_marker_rows": 1}, {"subsampling": 0}])
@pytest.mark.parametrize("stages", [(), [(64, 40, 40)], [(0, 8, 8)]])
def test_truncation(options: dict[str, object], stages: list[tuple[int, int, int]]) -> None:
    data = jpeg(photo(300, 200, 4), **options)
    scan = data.index(b"\xff\xda")
    for percent in range(0, 100, 5):
        cut = len(data) * percent // 100
        expected = {image.TRUNCATED} if cut >= 3 else {image.NOT_JPEG}
        assert status_of(data[:cut], stages) in expected, percent
    for cut in range(3, scan, 7):
        assert status_of(data[:cut], stages) == image.TRUNCATED
    assert status_of(data[:-40], stages) == image.TRUNCATED


@pytest.mark.parametrize("options", [{}, {"progressive": True}])
def test_only_the_end_marker_is_missing(options: dict[str, object]) -> None:
    data = jpeg(photo(300, 200, 4), **options)
    assert data[-2:] == b"\xff\xd9"
    for stages in ((), [(0, 50, 60)]):
        for cut in (data[:-2], data[:-1]):
            assert np.array_equal(ours(cut, stages), ours(data, stages))


def test_missing_last_scan_is_truncated() -> None:
    data = jpeg(photo(200, 150, 5), progressive=True)
    last = data.rindex(b"\xff\xda")
    cut = data.rindex(b"\xff\xc4", 0, last)
    assert status_of(data[:cut]) == image.TRUNCATED
    assert status_of(data[:cut] + b"\xff\xd9") == image.OK  # a complete file of fewer scans: PIL shows it too


def test_unfinished_progressive_in_part_equals_the_full_decode() -> None:
    data = jpeg(photo(200, 150, 5), progressive=True)
    scans = [at for at in range(len(data)) if data[at : at + 2] == b"\xff\xda"]
    for scan in scans[1:]:
        cut = data.rindex(b"\xff\xc4", 0, scan)
        check_windows(data[:cut] + b"\xff\xd9", np.random.default_rng(3))


def test_data_behind_the_end_are_ignored() -> None:
    data = jpeg(photo(120, 90))
    for tail in (b"\0" * 500, b"\xff", b"\xd9", b"\xff\xd9", bytes(range(256)) * 3, jpeg(photo(30, 20))):
        for stages in ((), [(0, 20, 20)]):
            assert np.array_equal(ours(data + tail, stages), ours(data, stages))


def test_extra_bytes_before_a_marker_are_accepted() -> None:
    data = jpeg(photo(120, 90))
    at = data.index(b"\xff\xdb")
    assert np.array_equal(ours(data[:at] + b"\x01\x02\x03" + data[at:]), ours(data))


def test_entropy_data_that_stop_early() -> None:
    data = jpeg(photo(300, 200, 4))
    assert status_of(data[: len(data) // 2] + b"\xff\xd9") == image.CORRUPT


def test_random_damage_never_crashes() -> None:
    rng = np.random.default_rng(6)
    scratch, good = image.Scratch(), jpeg(photo(80, 60))
    expected = ours(good)
    for options in ({}, {"progressive": True}, {"subsampling": 0, "restart_marker_blocks": 2}):
        data = jpeg(photo(150, 110, 7), **options)
        for stages in ((), [(64, 50, 50)]):
            made = program(stages, max_pixels=1_000_000)
            for _ in range(250):
                broken = bytearray(data)
                for at in rng.integers(2, len(data) if rng.random() < 0.5 else 700, rng.integers(1, 6)):
                    broken[at] = rng.integers(256)
                with contextlib.suppress(image.ImageError):
                    made.decode(bytes(broken), scratch)
    assert np.array_equal(image.ImageProgram([]).decode(good, scratch), expected)


def test_tables_do_not_leak_into_the_next_picture() -> None:
    scratch, made = image.Scratch(), program()
    data = jpeg(photo(64, 64), quality=30)
    at = data.index(b"\xff\xdb")
    end = data.index(b"\xff\xc0")
    made.decode(data, scratch)
    with pytest.raises(image.ImageError) as caught:
        made.decode(data[:at] + data[end:], scratch)
    assert caught.value.status == image.CORRUPT


@pytest.mark.parametrize("data", [b"", b"\xff", b"\xff\xd8", b"\x89PNG\r\n\x1a\n" + b"\0" * 50, b"garbage" * 100])
def test_not_a_jpeg(data: bytes) -> None:
    assert status_of(data) == image.NOT_JPEG
    with pytest.raises(image.ImageError) as caught:
        image.probe(data)
    assert caught.value.status == image.NOT_JPEG


def test_only_the_signature() -> None:
    assert status_of(b"\xff\xd8\xff") == image.TRUNCATED
    assert status_of(b"\xff\xd8\xff\xd9") == image.CORRUPT


def test_cmyk_precision_and_lossless_are_for_pil() -> None:
    data = jpeg(photo(40, 30).convert("CMYK"))
    assert status_of(data) == image.UNSUPPORTED
    plain = bytearray(jpeg(photo(40, 30)))
    at = plain.index(b"\xff\xc0")
    twelve = plain.copy()
    twelve[at + 4] = 12
    assert status_of(bytes(twelve)) == image.UNSUPPORTED
    lossless = plain.copy()
    lossless[at + 1] = 0xC3
    assert status_of(bytes(lossless)) == image.UNSUPPORTED


def test_bomb_is_refused_from_its_header() -> None:
    bomb = sampled(jpeg(photo(40, 30), subsampling=0), 0x11, 60000, 30000)
    assert image.probe(bomb)[:2] == (60000, 30000)
    assert status_of(bomb) == image.TOO_LARGE
    assert status_of(sampled(bomb, 0x11, 60000, 60000), max_pixels=image.MAX_PIXELS) == image.TOO_LARGE
    data = jpeg(photo(40, 30))
    assert status_of(data, max_pixels=1200) == image.OK
    assert status_of(data, max_pixels=1199) == image.TOO_LARGE
    assert status_of(data, [(60, 0, 0)], max_pixels=4000) == image.TOO_LARGE


def test_probe_many_is_probe_of_each() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    files = [jpeg(photo(70, 40)), b"", jpeg(photo(33, 21), exif=exif), b"GIF89a", jpeg(photo(9, 9))[:60]]
    data = np.frombuffer(b"".join(files), np.uint8)
    lengths = np.array([len(file) for file in files], np.int64)
    addresses = (data.ctypes.data + np.cumsum(lengths) - lengths).astype(np.uint64)
    found = np.full((len(files), 4), -1, np.int32)
    image.probe_many(addresses, lengths, found)
    for file, (status, height, width, orientation) in zip(files, found.tolist(), strict=True):
        if status == image.OK:
            assert image.probe(file)[:4] == (width, height, 3, orientation)
        else:
            with pytest.raises(image.ImageError) as failed:
                image.probe(file)
            assert (failed.value.status, height, width, orientation) == (status, 0, 0, 0)
    assert [status == image.OK for status in found[:, 0]] == [True, False, True, False, False]
    image.probe_many(addresses[:0], lengths[:0], found[:0])


def test_probe_many_refuses_what_does_not_fit() -> None:
    addresses, lengths, found = np.zeros(2, np.uint64), np.zeros(2, np.int64), np.zeros((2, 4), np.int32)
    for wrong in (
        (addresses[:1], lengths, found),
        (addresses, lengths[:1], found),
        (addresses, lengths, found[:1]),
        (addresses, lengths, np.zeros((2, 3), np.int32)),
        (addresses, np.array([0, -1], np.int64), found),
        (addresses, np.array([0, 1], np.int64), found),
    ):
        with pytest.raises(ValueError, match=r"\d"):
            image.probe_many(*wrong)


def test_probe() -> None:
    assert image.probe(jpeg(photo(70, 40))) == (70, 40, 3, 1, False)
    assert image.probe(jpeg(grey(40, 70, 0), progressive=True)) == (40, 70, 1, 1, True)


def test_a_bomb_of_scans_is_refused() -> None:
    data = jpeg(photo(64, 48), progressive=True)
    last_scan = data.rindex(b"\xff\xda")
    bomb = data[:-2] + data[last_scan:-2] * 400 + b"\xff\xd9"
    with pytest.raises(image.ImageError) as caught:
        image.ImageProgram([]).decode(bomb, image.Scratch())
    assert caught.value.status == image.CORRUPT
    assert "scans" in str(caught.value)
