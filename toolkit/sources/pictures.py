"""Write pixels as a PNG file, so that an array of an input becomes a value of an image column.

The pixels are stored and not compressed. What a compressor makes depends on the library and its version, and a pin
must not: the bytes here follow from the pixels alone. Nothing is lost, and a file is little larger than its pixels.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.sources.contents import UnfitError

__all__ = ["png_of"]

_MAGIC = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # channels: gray, gray and alpha, RGB, RGBA
_BIT_DEPTHS = {"bool": 1, "uint8": 8, "uint16": 16}
_MOST_SIDE = (1 << 31) - 1
_MOST_PIXEL_BYTES = (1 << 31) - (1 << 20)  # one chunk holds no more, frames of blocks taken off
_BLOCK_BYTES = 65_535  # of a stored block of deflate
_ZLIB_HEADER = b"\x78\x01"


def png_of(pixels: NDArray[Any]) -> bytes:
    """Return a PNG file of pixels.

    Args:
        pixels: height x width, or height x width x channels: 1 gray, 2 gray and alpha, 3 RGB, 4 RGBA. Their values are
            uint8 or uint16; bool is black and white, of gray alone.

    Raises:
        UnfitError: They have another shape or type, no pixel, or more than a file holds.
    """
    shape, dtype = pixels.shape, pixels.dtype
    channels = shape[2] if len(shape) == 3 else 1
    depth = _BIT_DEPTHS.get(dtype.name)
    if len(shape) not in (2, 3) or channels not in _COLOUR_TYPES or depth is None or (depth == 1 and channels > 1):
        told = " x ".join(map(str, shape)) or "no axes"
        raise UnfitError(
            f"an array of {told} {dtype} is no picture: pictures are height x width, or height x width x 1 to 4 "
            "channels, of uint8 or uint16"
        )
    height, width = shape[:2]
    if not height or not width:
        raise UnfitError(f"a picture of {height} x {width} pixels has none")
    if max(height, width) > _MOST_SIDE or pixels.nbytes + height > _MOST_PIXEL_BYTES:
        raise UnfitError(f"a picture of {height} x {width} pixels is larger than a PNG file of one piece (2 GiB)")
    header = struct.pack(">IIBBBBB", width, height, depth, _COLOUR_TYPES[channels], 0, 0, 0)
    content = b"".join(_stored(_lines(pixels.reshape(height, width * channels))))
    return _MAGIC + _chunk(b"IHDR", header) + _chunk(b"IDAT", content) + _chunk(b"IEND", b"")


def _lines(rows: NDArray[Any]) -> bytes:
    """Return the rows as PNG has them: a byte that says how the row was filtered (not at all), then its values."""
    if rows.dtype == np.bool_:
        values = np.packbits(rows, axis=1)
    else:
        values = np.ascontiguousarray(rows, rows.dtype.newbyteorder(">")).view(np.uint8)
    lines = np.zeros((len(rows), values.shape[1] + 1), np.uint8)
    lines[:, 1:] = values
    return lines.tobytes()


def _stored(data: bytes) -> Iterator[bytes]:
    """Yield a zlib stream of stored blocks, and of nothing that a compressor decides."""
    yield _ZLIB_HEADER
    for start in range(0, len(data), _BLOCK_BYTES):
        block = data[start : start + _BLOCK_BYTES]
        is_last = start + _BLOCK_BYTES >= len(data)
        yield struct.pack("<BHH", is_last, len(block), len(block) ^ 0xFFFF)
        yield block
    yield struct.pack(">I", zlib.adler32(data))


def _chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(content, zlib.crc32(name)))
