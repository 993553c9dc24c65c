"""Pictures of every format but JPEG: a pack's look at them and the loader's decoding; refusals, and pixels, in bounds
and of the size that the header tells.

The first byte of an input says which mode, and whether EXIF and colour profiles count.
"""

from __future__ import annotations

import warnings

import numpy as np
from fuzz.inputs import refused
from pictures import encode, picture
from PIL import Image, ImageCms, features

from toolkit.pipelines.image.decode import decode_with_pil
from toolkit.pipelines.image.decode_step import DecodeImage, Mode
from toolkit.pipelines.image.facts import facts_of
from toolkit.pipelines.image.formats import FORMATS, find_format
from toolkit.pipelines.image.medium import ImageMedium
from toolkit.pipelines.medium import UnfitMediumError
from toolkit.sources.options import VerifyImages
from toolkit.sources.payloads import check_payload

_MOST_PIXELS = 1 << 20
_MODES = list(Mode)
_CHANNELS = {Mode.RGB: 3, Mode.GRAY: 1, Mode.RGBA: 4, Mode.ID: 4}  # bytes: ids travel as a word


def fuzz(data: bytes) -> object:
    """Use one input."""
    flags, encoded = data[0] if data else 0, data[1:]
    name = find_format(encoded)
    if name == "JPEG":
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            check_payload(ImageMedium(), encoded, VerifyImages.HEADER)
        except UnfitMediumError as error:
            header = refused(error)
        else:
            header = ""
        facts = facts_of(encoded)
        mode = _MODES[flags % len(_MODES)]
        step = DecodeImage(
            mode=mode, max_pixels=_MOST_PIXELS, exif=bool(flags & 4), icc=mode is not Mode.ID and bool(flags & 8)
        )
        try:
            pixels = decode_with_pil(encoded, step)
        except ValueError as error:
            return name, header[:30], refused(error)[:16]
    assert not header, header  # what is decoded could have been packed
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == _CHANNELS[mode]
    assert 0 < pixels.shape[0] * pixels.shape[1] <= _MOST_PIXELS
    if step.exif:  # without it, a picture with damaged EXIF is decoded as well
        assert facts is not None
        assert (facts.height, facts.width, facts.format) == (*pixels.shape[:2], name), (facts, pixels.shape)
    return name, mode, pixels.shape[:2] == (12, 16)


def _is_written(name: str) -> bool:
    feature = {"WEBP": "webp", "AVIF": "avif", "JPEG2000": "jpg_2000"}.get(name)
    return feature is None or bool(features.check(feature))


def seeds() -> list[bytes]:
    """Return a picture of each format that PIL writes here, in its modes and ways to compress."""
    image = picture(1, 16, 12)
    exif = Image.Exif()
    exif[0x0112] = 6
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    made = [encode(image, name) for name in FORMATS if name != "JPEG" and _is_written(name)]
    for mode in ("1", "L", "LA", "P", "RGBA", "I;16", "I", "F", "CMYK"):
        made += [encode(image.convert(mode) if mode != "I;16" else image.convert("I").convert("I;16"), "TIFF")]
    made += [encode(image.convert(mode), "PNG") for mode in ("1", "L", "LA", "P", "RGBA", "I")]
    made += [encode(image.convert(mode), "PPM") for mode in ("1", "L", "I", "F")]
    made += [encode(image.convert(mode), "BMP") for mode in ("1", "L", "P", "RGBA")]
    ways = ("tiff_lzw", "tiff_deflate", "packbits", "jpeg", "tiff_adobe_deflate", "zstd", "lzma")
    made += [encode(image, "TIFF", compression=way) for way in ways]
    made += [encode(image.convert("1"), "TIFF", compression=way) for way in ("group3", "group4", "tiff_ccitt")]
    made += [encode(image, "PNG", exif=exif, icc_profile=profile), encode(image, "TIFF", exif=exif)]
    made += [encode(image, "GIF", save_all=True, append_images=[image.rotate(90)], interlace=1, transparency=3)]
    if features.check("webp"):
        made += [encode(image.convert("RGBA"), "WEBP", lossless=True), encode(image, "WEBP", exif=exif)]
        made += [encode(image, "WEBP", save_all=True, append_images=[image.rotate(90)])]
    made += [b"P3 2 1 255 1 2 3 4 5 6", b"P1 # c\n3 1 1 0 1", b"P2 2 1 9 3 8", b"PF 1 1 -1.0\n" + bytes(12)]
    return [bytes([i % 16]) + data for i, data in enumerate(made)]
