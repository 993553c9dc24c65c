"""The JPEG encoder against Pillow's, which calls the same library: tables, samplings, and what comes out again."""

from __future__ import annotations

import io
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import encode, picture
from PIL import Image

from toolkit._native.image.encode import EncodeError, JpegEncoder

SIZES = [(1, 1), (2, 3), (7, 5), (15, 17), (16, 16), (33, 200), (640, 480)]


def pixels_of(width: int, height: int, seed: int = 0) -> np.ndarray:
    return np.asarray(picture(seed, width, height))


def segments(data: bytes) -> list[tuple[int, bytes]]:
    """Marker and content of every segment up to the scan."""
    found, at = [], 2
    while data[at + 1] != 0xDA:
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        found.append((data[at + 1], data[at + 4 : at + 2 + size]))
        at += 2 + size
    return found


def opened(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


@pytest.mark.parametrize("quality", [1, 30, 75, 90, 100])
@pytest.mark.parametrize("size", SIZES)
def test_a_jpeg_is_what_pillow_writes(size: tuple[int, int], quality: int) -> None:
    pixels = pixels_of(*size)
    mine = JpegEncoder().encode(pixels, quality)
    theirs = encode(Image.fromarray(pixels), quality=quality, subsampling="4:2:0", optimize=True)
    assert opened(mine).size == size
    assert opened(mine).quantization == opened(theirs).quantization
    assert np.array_equal(np.asarray(opened(mine)), np.asarray(opened(theirs)))
    assert len(mine) == pytest.approx(len(theirs), rel=0.01)


def test_it_is_baseline_with_half_the_chroma_and_nothing_that_tells_of_its_making() -> None:
    data = JpegEncoder().encode(pixels_of(50, 40), 90)
    found = segments(data)
    assert {marker for marker, _ in found} == {0xE0, 0xDB, 0xC0, 0xC4}  # JFIF, tables, baseline frame, Huffman
    assert found[0] == (0xE0, b"JFIF\0\1\1\0\0\1\0\1\0\0")
    frame = next(content for marker, content in found if marker == 0xC0)
    assert [frame[i] for i in (7, 10, 13)] == [0x22, 0x11, 0x11]
    assert data.endswith(b"\xff\xd9")


def test_quality_is_what_remains() -> None:
    pixels = pixels_of(320, 240)
    encoder = JpegEncoder()
    sizes, errors = [], []
    for quality in (10, 50, 75, 90, 100):
        data = encoder.encode(pixels, quality)
        sizes.append(len(data))
        errors.append(float(np.mean((np.asarray(opened(data), np.float64) - pixels) ** 2)))
    assert sizes == sorted(sizes)
    assert errors == sorted(errors, reverse=True)
    assert 10 * np.log10(255**2 / errors[3]) > 32


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(1, 100), st.integers(0, 1 << 30))
def test_memory_that_was_used_before_changes_no_byte(width: int, height: int, quality: int, seed: int) -> None:
    used = JpegEncoder()
    used.encode(pixels_of(300, 200, seed), 100 - quality // 2)
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    assert used.encode(noise, quality) == JpegEncoder().encode(noise, quality)


def test_a_jpeg_that_outgrows_its_memory() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (500, 700, 3), np.uint8)
    data = JpegEncoder().encode(noise, 100)
    assert len(data) > 4 * 65536
    opened(data).load()
    assert opened(data).size == (700, 500)


def test_what_is_no_picture_for_a_jpeg() -> None:
    encoder = JpegEncoder()
    for shape in ((0, 4, 3), (4, 0, 3), (4, 4, 1), (4, 4, 4)):
        with pytest.raises(ValueError, match="shape"):
            encoder.encode(np.zeros(shape, np.uint8), 90)
    for quality in (0, 101, -1):
        with pytest.raises(ValueError, match="quality"):
            encoder.encode(np.zeros((4, 4, 3), np.uint8), quality)
    for shape in ((1, 65501, 3), (65501, 1, 3)):
        with pytest.raises(EncodeError, match="at most 65500 a side"):
            encoder.encode(np.zeros(shape, np.uint8), 90)
    assert opened(encoder.encode(np.zeros((1, 65500, 3), np.uint8), 90)).size == (65500, 1)


def test_threads_with_an_encoder_each() -> None:
    pictures = [pixels_of(400, 300, seed) for seed in range(4)]
    alone = [JpegEncoder().encode(pixels, 85) for pixels in pictures]
    results: list[list[bytes]] = [[] for _ in pictures]

    def work(number: int) -> None:
        encoder = JpegEncoder()
        for _ in range(8):
            results[number].append(encoder.encode(pictures[number], 85))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(pictures))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[data] * 8 for data in alone]
