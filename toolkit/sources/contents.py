"""Check the bytes of values whose kind promises something: text is UTF-8, JSON parses, a tensor is a whole NumPy file.

Every source asks here, so that a value is refused or stored whatever it came in. Media are checked in sources.payloads.
"""

from __future__ import annotations

import ast
import io
import json
import re
from typing import Any

import numpy as np
from numpy.lib import format as npy

__all__ = ["UnfitError", "check_json", "check_tensor", "text_of"]


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is no JSON value")


_JSON = json.JSONDecoder(parse_constant=_refuse_constant)
_NPY_LENGTHS = {(1, 0): 2, (2, 0): 4, (3, 0): 4}  # version: bytes of the header's length
_PYTHON_2_LONG = re.compile(r"(?<=[\s(,])(\d+)L(?=[\s),])")
_MOST_HEADER_BYTES = 10_000  # what NumPy itself takes
_MOST_ITEMS = (1 << 63) - 1


class UnfitError(ValueError):
    """Why bytes are no value of their column."""


def text_of(data: bytes | memoryview) -> str:
    """Return UTF-8 text. Raises UnfitError."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise UnfitError(f"not UTF-8 text at byte {error.start}") from error


def check_json(text: str) -> None:
    """Raise UnfitError when `text` is no JSON: by RFC 8259, so without NaN, and of text that UTF-8 can hold."""
    try:
        value = _JSON.decode(text)
        if "\\ud" in text or "\\uD" in text:  # half of a character outside the basic plane, or two that make one
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])[1:-1]
        raise UnfitError(f"no valid JSON: {half} is a lone surrogate, which is no character") from error
    except (ValueError, RecursionError) as error:
        raise UnfitError(f"no valid JSON: {_said(error)}") from error


def check_tensor(data: bytes | memoryview) -> None:
    """Raise UnfitError when `data` is no NumPy file (.npy), or its values aren't all there. Never unpickles."""
    if data[: len(npy.MAGIC_PREFIX)] != npy.MAGIC_PREFIX:
        raise UnfitError("no NumPy file (.npy)")
    file = io.BytesIO(data)
    try:
        version = npy.read_magic(file)
        if version not in _NPY_LENGTHS:
            raise UnfitError(f"a NumPy file of the unknown version {version[0]}.{version[1]}")
        shape, dtype = _npy_header(file, version)
    except UnfitError:
        raise
    except Exception as error:  # a header is a Python literal, and parsers raise whatever that leads them to
        raise UnfitError(f"no NumPy file that can be read: {_said(error)}") from error
    if dtype.hasobject:
        raise UnfitError("a NumPy file of Python objects, which can't be read safely")
    count = 1
    for side in shape:
        count *= side
    there = len(data) - file.tell()
    if any(side < 0 for side in shape) or there != count * dtype.itemsize or count > _MOST_ITEMS:
        raise UnfitError(f"a NumPy file of {there} bytes for the shape {shape} of {dtype}")


def _npy_header(file: io.BytesIO, version: tuple[int, int]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read what stands behind the magic: shape and type."""
    width = _NPY_LENGTHS[version]
    size = file.read(width)
    length = int.from_bytes(size, "little")
    header = file.read(min(length, _MOST_HEADER_BYTES))
    if len(size) < width or len(header) < min(length, _MOST_HEADER_BYTES):
        raise UnfitError("a NumPy file that ends within its header")
    if length > _MOST_HEADER_BYTES:
        raise UnfitError(f"a NumPy file with a header of {length} bytes, {_MOST_HEADER_BYTES} at the most are read")
    # Not by NumPy's reader: it takes no version 3 from a file, and warns of what Python 2 wrote.
    text = header.decode("utf-8" if version == (3, 0) else "latin-1")
    try:
        told = ast.literal_eval(text)
    except SyntaxError:
        told = ast.literal_eval(_PYTHON_2_LONG.sub(r"\1", text))
    if not isinstance(told, dict) or told.keys() != {"descr", "fortran_order", "shape"}:
        raise UnfitError("a NumPy file whose header doesn't say descr, fortran_order and shape, and nothing else")
    shape = told["shape"]
    if not isinstance(shape, tuple) or any(type(side) is not int for side in shape):
        raise UnfitError(f"a NumPy file of the shape {shape!a}, which is no tuple of whole numbers")
    if not isinstance(told["fortran_order"], bool):
        raise UnfitError(f"a NumPy file whose fortran_order is {told['fortran_order']!a}, neither True nor False")
    dtype = npy.descr_to_dtype(told["descr"])
    return shape, dtype


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
