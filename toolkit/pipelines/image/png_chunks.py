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
_MOST_FRAMES = 1 << 31
_NAME = re.compile(rb"\w{4}")
_ORIENTATION = 0x0112


class PngError(ValueError):
    """Why bytes are no PNG."""


def png_header(payload: bytes | memoryview) -> tuple[int, int, object]:
    """Return height, width and the orientation that PIL finds once it has decoded the picture.

    Raises:
        PngError: It has no whole header, or no pixels.
        Exception: PIL can't read a text or EXIF in it.
    """
    size, told = _chunks(payload)
    return *size, _orientation(payload, told) if told else 1


def _chunks(payload: bytes | memoryview) -> tuple[tuple[int, int], list[tuple[bytes, int, int]]]:
    """Return height and width; type, place and bytes of the chunks that may tell an orientation, in their order.

    As in PIL, the last header before the pixels counts, and of an animation the first frame.
    """
    size, found = None, []
    frames, has_control, is_animated, in_pixels = 0, False, False, False
    place, end = _MAGIC_BYTES, len(payload)
    while place + _CHUNK.size <= end:
        length, name = _CHUNK.unpack_from(payload, place)
        if name == b"IEND" or not _NAME.match(name) or (name == b"fcTL" and is_animated):
            break
        if name in _TOLD:
            found.append((name, place + _CHUNK.size, length))
        elif in_pixels:
            pass
        elif name == b"IHDR":
            size = _size(payload, place)
        elif name == b"acTL":  # a second one takes the first one back
            frames = 0 if frames else _frames(payload, place)
        elif name == b"fcTL":
            has_control = True
        elif name in (b"IDAT", b"fdAT"):  # pixels without a control chunk are shown beside the frames
            in_pixels, is_animated = True, frames + (not has_control) > 1
        place += length + _AROUND_DATA
    if size is None or not in_pixels:
        raise PngError("it has no header or no pixels")
    return size, found


def _size(payload: bytes | memoryview, place: int) -> tuple[int, int]:
    start, stop = place + _CHUNK.size, place + _CHUNK.size + _IHDR.size
    try:
        length, name = _CHUNK.unpack_from(payload, place)
        data = bytes(payload[start:stop])
        width, height, depth, colour, _, filters, _ = _IHDR.unpack(data)
        (crc,) = struct.unpack_from(">I", payload, stop)
    except struct.error as error:
        raise PngError("it ends within its header") from error
    if (length, crc) != (_IHDR.size, zlib.crc32(data, zlib.crc32(name))):
        raise PngError("no whole header")
    if not (width and height) or depth not in _DEPTHS.get(colour, ()) or filters:
        raise PngError("a header that can't be")
    return height, width


def _frames(payload: bytes | memoryview, place: int) -> int:
    """Return of how many frames this chunk tells; 0: it isn't an animation's."""
    start = place + _CHUNK.size
    frames = int.from_bytes(payload[start : start + 4])
    return frames if frames <= _MOST_FRAMES else 0


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
