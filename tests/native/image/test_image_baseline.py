"""toolkit's decoder of sequential JPEGs gives what libjpeg-turbo gives: the same bits, the same words for damage."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from native.image.test_image_oracle import decode, jpeg, photo, sampled
from PIL import Image

from toolkit._native.image import program as image

pytestmark = pytest.mark.skipif(image.simd_level() == "generic", reason="the decoder needs AVX2")

CUT = [
    ("resize_short", {"size": 40, "filter": "bilinear"}),
    ("center_crop", {"height": 31, "width": 33, "halves": "even"}),
]


@contextlib.contextmanager
def libjpeg_only() -> Iterator[None]:
    best = image.simd_level()
    image._set_simd_level("generic")
    try:
        yield
    finally:
        image._set_simd_level(best)


def result(data: bytes, ops: list[tuple[object, ...]], **options: object) -> tuple[object, int]:
    """Return the pixels, or status and words of the error; and how many pictures toolkit's decoder has decoded."""
    scratch = image.Scratch()
    try:
        pixels = image.ImageProgram(ops, **options).decode(data, scratch, key=5)
    except image.ImageError as error:
        return (error.status, str(error)), scratch.own_decodes
    return pixels, scratch.own_decodes


def same_as_libjpeg(data: bytes, ops: list[tuple[object, ...]], **options: object) -> int:
    """Check that both agree, and return whether toolkit's decoder did it alone."""
    ours, decodes = result(data, ops, **options)
    with libjpeg_only():
        theirs, none = result(data, ops, **options)
    assert none == 0
    if isinstance(theirs, np.ndarray):
        assert isinstance(ours, np.ndarray), ours
        assert np.array_equal(ours, theirs)
    else:
        assert ours == theirs
    return decodes


def window(width: int, height: int, draw: np.random.Generator) -> tuple[object, ...]:
    top, left = int(draw.integers(0, height)), int(draw.integers(0, width))
    return (
        "crop",
        {
            "top": top,
            "left": left,
            "height": int(draw.integers(1, height - top + 1)),
            "width": int(draw.integers(1, width - left + 1)),
        },
    )


@settings(max_examples=150, deadline=None)
@given(
    width=st.integers(16, 150),
    height=st.integers(1, 120),
    subsampling=st.sampled_from([0, 1, 2]),
    quality=st.sampled_from([1, 5, 30, 75, 90, 95, 100]),
    noise=st.sampled_from([0.0, 12.0, 120.0]),
    optimize=st.booleans(),
    restart=st.sampled_from([0, 1, 2, 7]),
    gray=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_bit_is_libjpegs(
    width: int,
    height: int,
    subsampling: int,
    quality: int,
    noise: float,
    optimize: bool,
    restart: int,
    gray: bool,
    seed: int,
) -> None:
    picture = photo(width, height, seed, noise=noise)
    data = jpeg(
        picture.convert("L") if gray else picture,
        subsampling=subsampling,
        quality=quality,
        optimize=optimize,
        restart_marker_blocks=restart,
    )
    draw = np.random.default_rng(seed)
    for ops in ([], CUT, [window(width, height, draw)], [window(width, height, draw)]):
        assert same_as_libjpeg(data, ops) == 1
    assert same_as_libjpeg(data, CUT, mode="gray") == 1


@pytest.mark.parametrize("sampling", [0x11, 0x21, 0x22])
def test_all_of_a_large_picture(sampling: int) -> None:
    data = jpeg(photo(700, 500, 3), subsampling={0x11: 0, 0x21: 1, 0x22: 2}[sampling])
    assert same_as_libjpeg(data, []) == 1
    for eighths in (2, 5):
        assert same_as_libjpeg(data, [("resize_short", {"size": 500 * eighths // 8, "filter": "bicubic"})]) == 1


def test_blocks_that_are_full() -> None:
    # White noise at quality 100: blocks end with their 64th coefficient, where no end of block is written.
    noise = np.random.default_rng(1).integers(0, 256, (80, 80, 3), dtype=np.uint8)
    assert same_as_libjpeg(jpeg(Image.fromarray(noise), quality=100, subsampling=0), []) == 1


def test_rare_pictures_are_left_to_libjpeg() -> None:
    picture = photo(64, 48, 1)
    for data in (
        jpeg(picture, progressive=True),
        jpeg(picture, keep_rgb=True),
        jpeg(picture.resize((15, 15))),
        sampled(jpeg(picture, subsampling=2), 0x41, 128, 24),
    ):
        assert same_as_libjpeg(data, []) == 0


def entropy_coded(data: bytes) -> range:
    at = data.index(b"\xff\xda")
    return range(at + 2 + int.from_bytes(data[at + 2 : at + 4], "big"), len(data) - 2)


@pytest.mark.parametrize("restart", [0, 2])
@pytest.mark.parametrize("tolerant", [False, True])
def test_every_flipped_byte_is_as_with_libjpeg(restart: int, tolerant: bool) -> None:
    data = jpeg(photo(48, 40, 2), subsampling=2, restart_marker_blocks=restart)
    again = 0
    for at in entropy_coded(data):
        for value in (0x00, 0xFF, data[at] ^ 0x10, 0xD0, 0xD9):
            damaged = data[:at] + bytes([value]) + data[at + 1 :]
            again += not same_as_libjpeg(damaged, [], tolerant=tolerant)
            same_as_libjpeg(damaged, [("center_crop", {"height": 9, "width": 11, "halves": "even"})], tolerant=tolerant)
    assert again > 20  # many were found out by toolkit's decoder and given to libjpeg-turbo


@pytest.mark.parametrize("restart", [0, 2])
@pytest.mark.parametrize("tolerant", [False, True])
def test_every_cut_is_as_with_libjpeg(restart: int, tolerant: bool) -> None:
    data = jpeg(photo(48, 40, 2), subsampling=1, restart_marker_blocks=restart)
    for end in range(len(data)):
        for tail in (b"", b"\xff", b"\xff\xd9", b"\0\0\xff\xd9"):
            same_as_libjpeg(data[:end] + tail, [], tolerant=tolerant)


def test_damaged_headers_are_as_with_libjpeg() -> None:
    data = jpeg(photo(48, 40, 2), subsampling=2, optimize=True)
    for at in range(2, entropy_coded(data).start):
        for bit in range(8):
            same_as_libjpeg(data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :], [], max_pixels=100_000)


def with_tables(data: bytes, tables: np.ndarray) -> bytes:
    """Return the JPEG with quantisation tables of 16 bits, uint16 (tables, 64), in place of its own."""
    at = data.index(b"\xff\xdb")
    while data[at : at + 2] == b"\xff\xdb":
        data = data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4]) :]
    made = b"".join(bytes([0x10 | i]) + table.astype(">u2").tobytes() for i, table in enumerate(tables))
    return data[:at] + b"\xff\xdb" + (2 + len(made)).to_bytes(2) + made + data[at:]


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("quality", [20, 95])
def test_tables_of_16_bits_whose_products_wrap(quality: int, subsampling: int) -> None:
    """A coefficient that isn't zero times its quantum may be 0 modulo 2^16."""
    draw = np.random.default_rng(quality + subsampling)
    picture = photo(70, 61, 3, noise=20)
    data = jpeg(picture, subsampling=subsampling, quality=quality)
    count = 2
    decodes = 0
    for kinds in ([1 << 15], [1 << 14, 1 << 15], [1 << k for k in range(8, 16)], [1, 1 << 15], None):
        for _ in range(20):
            tables = draw.integers(1, 1 << 16, (count, 64)) if kinds is None else draw.choice(kinds, (count, 64))
            tables[:, 0] = draw.choice([1, 3, 8, 1 << 15], count)  # of the DC, which is all that is left
            decodes += same_as_libjpeg(with_tables(data, tables), [])
    assert decodes == 100


def test_pixels_are_those_of_pil() -> None:
    data = jpeg(photo(333, 211, 9), subsampling=2)
    ours, decodes = result(data, [])
    assert decodes == 1
    assert int(np.abs(np.asarray(decode(data)).astype(int) - ours).max()) <= 2


@pytest.mark.parametrize("subsampling", [0, 1, 2])
@pytest.mark.parametrize("size", [300, 120, 70, 40])
def test_fast_is_close_to_exact(subsampling: int, size: int) -> None:
    data = jpeg(photo(600, 451, 4, noise=4), subsampling=subsampling)
    ops = [("resize_short", {"size": size, "filter": "bilinear"})]
    for options in ({}, {"mode": "gray"}, {"mode": "rgba"}):
        exact, _ = result(data, ops, **options)
        fast, decodes = result(data, ops, fast=True, **options)
        assert decodes == 1
        error = np.mean((exact.astype(float) - fast) ** 2)
        assert error < 255**2 / 10**4  # 40 dB
