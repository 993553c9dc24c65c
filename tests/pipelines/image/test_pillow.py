"""RGB from every mode that PIL has, those of its older versions included."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from pictures import picture
from PIL import Image

from toolkit.pipelines.image.pillow import to_rgb

GRAY = np.arange(0, 65536, 97, dtype=np.uint16)[:600].reshape(20, 30)


@pytest.mark.parametrize("mode", ["I;16", "I;16L", "I;16B"])
def test_sixteen_bits_keep_their_upper_byte(mode: str) -> None:
    order = ">u2" if mode.endswith("B") else "<u2"
    image = Image.frombytes(mode, (30, 20), GRAY.astype(order).tobytes())
    assert np.array_equal(np.asarray(to_rgb(image, "TIFF")), np.repeat((GRAY >> 8).astype(np.uint8)[:, :, None], 3, 2))


def test_older_versions_read_sixteen_bits_as_32() -> None:
    image = Image.fromarray(GRAY.astype(np.int32))
    assert image.mode == "I"
    assert np.array_equal(np.asarray(to_rgb(image, "PNG"))[:, :, 1], GRAY >> 8)
    for format in ("TIFF", None):
        with pytest.raises(ValueError, match="mode I"):
            to_rgb(image, format)
    with pytest.raises(ValueError, match="mode F"):
        to_rgb(image.convert("F"), "TIFF")


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr", "HSV", "LAB"])
def test_every_other_mode_is_converted_without_a_warning(mode: str) -> None:
    image = picture(1) if mode != "PA" else picture(1).convert("RGBA").quantize(8).convert("PA")
    image = image.convert("L").convert(mode) if mode in ("1", "LA") else image
    try:
        image = image.convert(mode)
    except ValueError:
        image = Image.new(mode, (4, 3))
    if mode in ("L", "P", "RGB"):
        image.info["transparency"] = bytes([0, 1]) if mode == "P" else 3 if mode == "L" else (1, 2, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = to_rgb(image, None)
    assert (made.mode, made.size) == ("RGB", image.size)
