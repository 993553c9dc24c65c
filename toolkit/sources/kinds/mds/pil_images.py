"""Pictures that MDS keeps as Pillow's raw pixels: width, height, the name of the mode, rows of pixels."""

from __future__ import annotations

import struct

import numpy as np

from toolkit.sources.contents import UnfitError
from toolkit.sources.pictures import png_of

__all__ = ["png_of_pil"]

_HEAD = struct.Struct("<III")
_MOST_MODE = 16  # letters
_BYTE_MODES = {"L": 1, "P": 1, "LA": 2, "PA": 2, "RGB": 3, "RGBA": 4}  # channels; a palette isn't kept, so P is gray
_WIDE_MODES = {"I;16": "<u2", "I;16L": "<u2", "I;16B": ">u2", "I": "<i4"}
_BLACK_AND_WHITE = "1"


def png_of_pil(data: memoryview) -> bytes:
    """Return a picture's PNG file, pixel for pixel. Raises UnfitError: it is damaged, or PNG has no such mode."""
    if len(data) < _HEAD.size:
        raise UnfitError("a raw picture that ends within its header")
    width, height, length = _HEAD.unpack_from(data)
    if length > _MOST_MODE or len(data) < _HEAD.size + length:
        raise UnfitError("a raw picture that ends within its header")
    mode = bytes(data[_HEAD.size : _HEAD.size + length]).decode("ascii", "replace")
    pixels = data[_HEAD.size + length :]
    if mode == _BLACK_AND_WHITE:
        row_bytes = (width + 7) // 8
    elif mode in _BYTE_MODES:
        row_bytes = width * _BYTE_MODES[mode]
    elif mode in _WIDE_MODES:
        row_bytes = width * np.dtype(_WIDE_MODES[mode]).itemsize
    else:
        known = ", ".join((_BLACK_AND_WHITE, *_BYTE_MODES, *_WIDE_MODES))
        raise UnfitError(f"a raw picture of the mode {mode!a}, which PNG can't keep; it keeps {known}")
    if len(pixels) != row_bytes * height:
        raise UnfitError(f"a raw picture of {len(pixels)} bytes for {width} x {height} pixels of {mode}")
    if mode == _BLACK_AND_WHITE:
        rows = np.frombuffer(pixels, np.uint8).reshape(height, row_bytes)
        return png_of(np.unpackbits(rows, axis=1)[:, :width].astype(np.bool_))
    if mode in _BYTE_MODES:
        return png_of(np.frombuffer(pixels, np.uint8).reshape(height, width, _BYTE_MODES[mode]))
    values = np.frombuffer(pixels, _WIDE_MODES[mode]).reshape(height, width)
    if values.dtype.kind == "i":
        if values.size and (values.min() < 0 or values.max() > np.iinfo(np.uint16).max):
            raise UnfitError("a raw picture of the mode I with values beyond 16 bits, which PNG can't keep")
        values = values.astype(np.uint16)
    return png_of(values)
