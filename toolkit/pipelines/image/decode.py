"""Decode what libjpeg-turbo does not: every other format, and pictures with a colour profile, through PIL.

A picture is counted before it is decoded: its header says what PIL will take. Pixels become an array band by band, so
that no second copy of them is made.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image.program import MAX_SCANS, Scratch
from toolkit.pipelines.image.decode_step import DecodeImage, Mode
from toolkit.pipelines.image.formats import open_picture, size_before_opening
from toolkit.pipelines.image.ids import ids_of, largest_gray
from toolkit.pipelines.image.jpeg_scans import count_scans
from toolkit.pipelines.image.memory import BAND_PIXELS, block_pixels, bytes_to_decode, bytes_to_open
from toolkit.pipelines.image.pil_messages import heard
from toolkit.pipelines.image.pillow import gray_bits, to_eight_bits

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

__all__ = ["check_colour_management", "decode_with_pil"]

_PIL_MODES = {Mode.RGB: "RGB", Mode.GRAY: "L", Mode.RGBA: "RGBA"}
_ID_BYTES = 4
_ORIENTATION = 0x0112
LONGEST_SIDE = 1 << 20  # a picture of narrow rows takes PIL a minute and ten times its pixels, 261 kB of PNG for 2**27

# The upright picture seen as it is stored, by its EXIF orientation.
_AS_STORED: dict[int, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]] = {
    2: lambda upright: upright[:, ::-1],
    3: lambda upright: upright[::-1, ::-1],
    4: lambda upright: upright[::-1],
    5: lambda upright: upright.swapaxes(0, 1),
    6: lambda upright: np.rot90(upright, 1),
    7: lambda upright: upright[::-1, ::-1].swapaxes(0, 1),
    8: lambda upright: np.rot90(upright, -1),
}
_ACROSS = frozenset({5, 6, 7, 8})  # orientations whose width is stored as the height


def decode_with_pil(encoded: bytes, step: DecodeImage, scratch: Scratch | None = None) -> NDArray[np.uint8]:
    """Decode one of toolkit.pipelines.image.formats.FORMATS to uint8 (height, width, channels of the step's mode).

    Ids come as the four bytes of a little-endian uint32 each.

    What PIL makes of it, but for 16-bit gray and numbers that are no pixels: see toolkit.pipelines.image.pillow. Of an
    animation the first frame is taken.

    Args:
        encoded: The file.
        step: What to decode it to, and the limits.
        scratch: Asked for what it is going to take, the result included, as if that were the scratch's own.

    Raises:
        ValueError: It is no image, is truncated, holds no pixels, or exceeds a limit.
    """
    if len(encoded) > step.max_bytes:
        raise ValueError(f"the image has {len(encoded)} bytes, more than max_bytes={step.max_bytes}")
    size = size_before_opening(encoded)
    if size is not None:
        _check_size(size, step)
        _ask(scratch, bytes_to_open(size))
    with open_picture(encoded) as image, heard() as said:
        _check_size(image.size, step)
        if block_pixels(image) > step.max_pixels:
            raise ValueError(f"a tile of the TIFF has {block_pixels(image)} pixels, more than max_pixels")
        scans = count_scans(encoded) if image.format in ("JPEG", "MPO") else 1
        if scans > MAX_SCANS:
            raise ValueError(f"the JPEG has {scans} scans, more than {MAX_SCANS}: write it anew with fewer")
        channels = _ID_BYTES if step.mode is Mode.ID else len(_PIL_MODES[step.mode])
        _ask(scratch, len(encoded) + bytes_to_decode(image, channels, scans))
        try:
            return _decode(image, step)
        except Exception as error:  # PIL's plugins raise whatever damaged bytes lead them to
            raise ValueError(said.why(error)) from error


def check_colour_management() -> None:
    """Raise ValueError when PIL cannot convert colour profiles."""
    from PIL import features

    if not features.check("littlecms2"):
        raise ValueError("decode_image(icc=True) needs PIL with LittleCMS: pip install pillow")


def _ask(scratch: Scratch | None, nbytes: int) -> None:
    """Raise ValueError when so many bytes beside the scratch's own may not be taken."""
    if scratch is not None and scratch.room is not None and scratch.nbytes + nbytes > scratch.limit:
        refused = scratch.room(scratch.nbytes + nbytes)
        if refused is not None:
            raise ValueError(refused)


def _check_size(size: tuple[int, int], step: DecodeImage) -> None:
    if max(size) > LONGEST_SIDE:
        raise ValueError(f"the picture has {size[0]} x {size[1]} pixels, more than {LONGEST_SIDE} on a side")
    if size[0] * size[1] > step.max_pixels:
        raise ValueError(
            f"the picture has {size[0]} x {size[1]} pixels, more than max_pixels={step.max_pixels}; "
            "decode_image(max_pixels=) or --max-pixels allows more"
        )


def _decode(image: ImageFile, step: DecodeImage) -> NDArray[np.uint8]:
    largest = largest_gray(image)  # what is to decode is forgotten as it is
    image.load()
    _check_size(image.size, step)  # some formats tell their real size only now
    orientation = image.getexif().get(_ORIENTATION, 1) if step.exif else 1
    channels, convert = _converter(image, step, largest)
    height, width = image.height, image.width
    upright = (width, height) if orientation in _ACROSS else (height, width)
    pixels = np.empty((*upright, channels), np.uint8)
    stored = _AS_STORED[orientation](pixels) if orientation in _AS_STORED else pixels
    for top, bottom in _bands(height, width):
        whole = (top, bottom) == (0, height)
        band = convert(image if whole else image.crop((0, top, width, bottom)))
        stored[top:bottom] = band.reshape(bottom - top, width, channels)
    return pixels


def _bands(height: int, width: int) -> Iterator[tuple[int, int]]:
    rows = max(1, BAND_PIXELS // width)
    for top in range(0, height, rows):
        yield top, min(top + rows, height)


def _converter(
    image: ImageFile, step: DecodeImage, largest: int | None
) -> tuple[int, Callable[[Any], NDArray[np.uint8]]]:
    """Return the bytes of a pixel, and what makes them of a band of the image."""
    if step.mode is Mode.ID:
        ids = ids_of(image, largest)
        return _ID_BYTES, lambda band: ids(band).astype("<u4").view(np.uint8)
    mode = _PIL_MODES[step.mode]
    profile = image.info.get("icc_profile") if step.icc else None
    bits = gray_bits(image)
    to_srgb = _to_srgb(profile) if profile else lambda band: band

    def convert(band: Any) -> NDArray[np.uint8]:
        band = to_eight_bits(band, image.format, bits)
        if band.mode == "P":
            # To RGB at once, PIL would warn of a transparency that it leaves out.
            band = band.convert("RGBA" if "transparency" in band.info else "RGB")
        band = to_srgb(band)
        return np.asarray(band if band.mode == mode else band.convert(mode))

    return len(mode), convert


def _to_srgb(profile: bytes) -> Callable[[Any], Any]:
    from PIL import ImageCms

    source, target = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
    make = functools.cache(functools.partial(ImageCms.buildTransform, source, target, outMode="RGB"))

    def convert(band: Any) -> Any:
        alpha = band.getchannel("A") if band.mode in ("RGBA", "LA") else None
        if band.mode in ("RGBA", "1"):
            band = band.convert("RGB")
        elif band.mode == "LA":
            band = band.convert("L")
        band = make(inMode=band.mode).apply(band)
        if alpha is not None:
            band.putalpha(alpha)
        return band

    return convert
