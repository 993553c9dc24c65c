"""The header of a PNG by its chunks: PIL would decode the pixels to look for EXIF behind them."""

from __future__ import annotations

import io
import re
import struct
import zlib
from typing import Any

from toolkit.pipelines.image.pil_messages import heard

__all__ = ["PngError", "png_header"]

_MAGIC_BYTES = 8
_CHUNK = struct.Struct(">I4s")  # bytes of the data, type; behind the data comes a CRC of 4 bytes
_IHDR = struct.Struct(">II5B")
_AROUND_DATA = 12
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}  # by the type of colour
_TOLD = frozenset({b"eXIf", b"tEXt", b"zTXt", b"iTXt"})  # where an orientation may stand
_NAME = re.compile(rb"\w{4}")
_ORIENTATION = 0x0112


class PngError(ValueError):
    """Why bytes are no PNG."""


def png_header(payload: bytes | memoryview) -> tuple[int, int, object]:
    """Return height, width and the orientation that PIL finds once it has decoded the picture.

    Raises:
        PngError: It doesn't begin as a PNG does, or has no pixels.
        Exception: PIL can't read a text or EXIF in it.
    """
    height, width = _size(payload)
    told = _chunks(payload)
    return height, width, _orientation(payload, told) if told else 1


def _size(payload: bytes | memoryview) -> tuple[int, int]:
    try:
        length, name = _CHUNK.unpack_from(payload, _MAGIC_BYTES)
        data = bytes(payload[_MAGIC_BYTES + _CHUNK.size :][: _IHDR.size])
        width, height, depth, colour, _, filters, _ = _IHDR.unpack(data)
        (crc,) = struct.unpack_from(">I", payload, _MAGIC_BYTES + _CHUNK.size + _IHDR.size)
    except struct.error as error:
        raise PngError("it ends within its header") from error
    if (length, name, crc) != (_IHDR.size, b"IHDR", zlib.crc32(data, zlib.crc32(b"IHDR"))):
        raise PngError("no whole header")
    if not (width and height) or depth not in _DEPTHS.get(colour, ()) or filters:
        raise PngError("a header that can't be")
    return height, width


def _chunks(payload: bytes | memoryview) -> list[tuple[bytes, int, int]]:
    """Return type, place and bytes of the chunks that may tell an orientation, in their order."""
    found = []
    place, end, is_animated, in_pixels = _MAGIC_BYTES, len(payload), False, False
    while place + _CHUNK.size <= end:
        length, name = _CHUNK.unpack_from(payload, place)
        if name == b"IEND" or not _NAME.match(name) or (name == b"fcTL" and is_animated and in_pixels):
            break  # of an animation the first frame counts
        is_animated = is_animated or name == b"acTL"
        in_pixels = in_pixels or name in (b"IDAT", b"fdAT")
        if name in _TOLD:
            found.append((name, place + _CHUNK.size, length))
        place += length + _AROUND_DATA
    if not in_pixels:
        raise PngError("it has no pixels")
    return found


def _orientation(payload: bytes | memoryview, told: list[tuple[bytes, int, int]]) -> object:
    """Return what PIL makes of these chunks."""
    from PIL import Image, PngImagePlugin

    file = io.BytesIO(payload)
    stream: Any = PngImagePlugin.PngStream(file)
    with heard():
        for name, place, length in told:
            file.seek(place)
            stream.call(name, place, length)
        holder = Image.new("1", (1, 1))
        holder.info.update(stream.im_info)
        return holder.getexif().get(_ORIENTATION, 1)
