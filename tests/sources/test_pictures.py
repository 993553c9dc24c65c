"""Pixels become PNG files that hold them exactly, whatever library compresses elsewhere."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.typing import NDArray
from PIL import Image

from toolkit.sources.contents import UnfitError
from toolkit.sources.payloads import holds
from toolkit.sources.pictures import png_of

SHAPES = st.tuples(st.integers(1, 70), st.integers(1, 70)).flatmap(
    lambda size: st.sampled_from([size, *((*size, channels) for channels in (1, 2, 3, 4))])
)


def reread(png: bytes) -> NDArray[Any]:
    with Image.open(io.BytesIO(png)) as image:
        assert image.format == "PNG"
        image.load()
        return np.asarray(image)


@given(SHAPES.flatmap(lambda shape: hnp.arrays(np.uint8, shape)))
def test_pillow_reads_the_same_pixels(pixels: NDArray[np.uint8]) -> None:
    png = png_of(pixels)
    assert (reread(png) == (pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels)).all()
    kind = holds(png)
    assert kind is not None
    assert kind.value == "image"


def test_sixteen_bits_and_black_and_white() -> None:
    deep = np.arange(0, 65536, 7, np.uint16)[:9000].reshape(90, 100)
    assert (reread(png_of(deep)) == deep).all()
    assert (reread(png_of(deep.astype(">u2"))) == deep).all()
    black = np.random.default_rng(1).integers(0, 2, (13, 21)).astype(np.bool_)
    assert (reread(png_of(black)) == black).all()


def test_a_large_picture_takes_several_blocks() -> None:
    pixels = np.random.default_rng(2).integers(0, 256, (300, 301, 3), np.uint8)
    png = png_of(pixels)
    assert (reread(png) == pixels).all()
    assert pixels.nbytes < len(png) < pixels.nbytes * 1.01


def test_memory_order_means_nothing() -> None:
    pixels = np.random.default_rng(3).integers(0, 256, (20, 30, 3), np.uint8)
    assert png_of(np.asfortranarray(pixels)) == png_of(pixels)
    assert png_of(np.flip(np.flip(pixels, 1).copy(), 1)) == png_of(pixels)


def test_the_bytes_never_change() -> None:
    pixels = np.arange(2 * 3 * 3, dtype=np.uint8).reshape(2, 3, 3)
    golden = "ca13b214d1b09bd432ccee0a81712c58e362ca29cd5076917e4217325f53a37a"
    assert hashlib.sha256(png_of(pixels)).hexdigest() == golden


@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((4,), np.uint8),
        ((), np.uint8),
        ((2, 2, 5), np.uint8),
        ((1, 2, 2, 3), np.uint8),
        ((2, 2), np.float32),
        ((2, 2), np.int8),
        ((2, 2, 3), np.bool_),
        ((0, 2), np.uint8),
        ((2, 0, 3), np.uint8),
    ],
)
def test_what_is_no_picture_is_refused(shape: tuple[int, ...], dtype: Any) -> None:
    with pytest.raises(UnfitError, match="picture"):
        png_of(np.zeros(shape, dtype))


def test_a_picture_that_a_file_does_not_hold_is_refused() -> None:
    with pytest.raises(UnfitError, match="larger than"):
        png_of(np.broadcast_to(np.uint8(0), (1 << 16, 1 << 16)))
