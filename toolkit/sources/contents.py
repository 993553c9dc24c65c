"""Check the bytes of values whose kind promises something: text is UTF-8, JSON parses, a tensor is a whole NumPy file.

Every source asks here, so that a value is refused or stored whatever it came in. Images are checked in sources.images.
"""

from __future__ import annotations

import io
import json

from numpy.lib import format as npy

__all__ = ["UnfitError", "check_json", "check_tensor", "text_of"]


class UnfitError(ValueError):
    """Why bytes are no value of their column."""


def text_of(data: bytes | memoryview) -> str:
    """Return UTF-8 text. Raises UnfitError."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise UnfitError(f"not UTF-8 text at byte {error.start}") from error


def check_json(text: str) -> None:
    """Raise UnfitError when `text` is no JSON."""
    try:
        json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UnfitError(f"no valid JSON: {error}") from error


def check_tensor(data: bytes | memoryview) -> None:
    """Raise UnfitError when `data` is no NumPy file (.npy), or its values aren't all there. Never unpickles."""
    if data[: len(npy.MAGIC_PREFIX)] != npy.MAGIC_PREFIX:
        raise UnfitError("no NumPy file (.npy)")
    file = io.BytesIO(data)
    try:
        version = npy.read_magic(file)
        if version == (3, 0):  # has no reader of its own header; field names in UTF-8 are rare
            npy.read_array(io.BytesIO(data), allow_pickle=False)
            return
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}.get(version)
        if read is None:
            raise UnfitError(f"a NumPy file of the unknown version {version[0]}.{version[1]}")
        shape, _, dtype = read(file)
    except UnfitError:
        raise
    except (ValueError, TypeError, SyntaxError, KeyError, EOFError, OverflowError, MemoryError, Warning) as error:
        raise UnfitError(f"no NumPy file that can be read: {error}") from error
    if dtype.hasobject:
        raise UnfitError("a NumPy file of Python objects, which can't be read safely")
    count = 1
    for side in shape:
        count *= side
    there = len(data) - file.tell()
    if any(side < 0 for side in shape) or there != count * dtype.itemsize:
        raise UnfitError(f"a NumPy file of {there} bytes for the shape {shape} of {dtype}")
