"""The header of a NumPy file (.npy): type, shape and order, read with care. Never unpickles."""

from __future__ import annotations

import ast
import functools
import math
import re
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.lib import format as npy

__all__ = ["MOST_HEAD_BYTES", "NpyError", "NpyHeader", "PickledError", "npy_head", "read_npy_header"]

_LENGTHS = {(1, 0): 2, (2, 0): 4, (3, 0): 4}  # version: bytes of the header's length
_PYTHON_2_LONG = re.compile(r"(?<=[\s(,])(\d+)L(?=[\s),])")
_MOST_HEADER_BYTES = 10_000  # what NumPy itself takes
_MOST_KEPT_BYTES = 1024
_MOST_ITEMS = (1 << 63) - 1
_ALIGNMENT = 64  # of the data, as NumPy writes it

MOST_HEAD_BYTES = npy.MAGIC_LEN + 4 + _MOST_HEADER_BYTES
"""All that is read of a file for its header: magic, version, length, header."""


class NpyError(ValueError):
    """Why bytes are no NumPy file."""


class PickledError(NpyError):
    """A NumPy file of Python objects: what is behind the header is a pickle."""


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def tell(self) -> int: ...


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a NumPy file says of its values.

    Attributes:
        dtype: Their type.
        shape: Their shape.
        is_fortran: The first index moves fastest.
        head_bytes: Where the values begin.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool
    head_bytes: int

    @property
    def data_bytes(self) -> int:
        """Bytes of all values."""
        return math.prod(self.shape) * self.dtype.itemsize

    def check_size(self, there: int) -> None:
        """Raise NpyError when a file of `there` bytes behind the header isn't one of this type and shape."""
        if any(side < 0 for side in self.shape) or there != self.data_bytes or math.prod(self.shape) > _MOST_ITEMS:
            raise NpyError(f"a NumPy file of {there} bytes for the shape {self.shape} of {self.dtype}")


def read_npy_header(file: _Stream) -> NpyHeader:
    """Read the header of the NumPy file that begins where `file` stands, which reads as much as it is asked for.

    Raises:
        PickledError: Its values are Python objects.
        NpyError: It is none, or one that can't be read.
    """
    start = file.tell()
    magic = file.read(npy.MAGIC_LEN)
    if magic[: len(npy.MAGIC_PREFIX)] != npy.MAGIC_PREFIX:
        raise NpyError("no NumPy file (.npy)")
    if len(magic) < npy.MAGIC_LEN:
        raise NpyError("a NumPy file that ends within its header")
    version = (magic[-2], magic[-1])
    if version not in _LENGTHS:
        raise NpyError(f"a NumPy file of the unknown version {version[0]}.{version[1]}")
    try:
        shape, is_fortran, dtype = _told(file, version)
    except NpyError:
        raise
    except Exception as error:  # a header is a Python literal, and parsers raise whatever that leads them to
        said = " ".join(str(error).split()) or type(error).__name__
        raise NpyError(f"no NumPy file that can be read: {said}") from error
    if dtype.hasobject:
        raise PickledError("a NumPy file of Python objects, which can't be read safely")
    return NpyHeader(dtype, shape, is_fortran, file.tell() - start)


def npy_head(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bytes:
    """Return what stands before the values in a NumPy file (version 1.0, C order) of that type and shape.

    Written here, since what NumPy writes is up to its version.
    """
    told = f"{{'descr': {npy.dtype_to_descr(dtype)!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    ahead = npy.MAGIC_LEN + 2
    padding = -(ahead + len(told) + 1) % _ALIGNMENT
    text = (told + " " * padding + "\n").encode("latin-1")
    return npy.MAGIC_PREFIX + bytes((1, 0)) + len(text).to_bytes(2, "little") + text


def _told(file: _Stream, version: tuple[int, int]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read what stands behind the magic: shape, order and type."""
    width = _LENGTHS[version]
    size = file.read(width)
    length = int.from_bytes(size, "little")
    header = file.read(min(length, _MOST_HEADER_BYTES))
    if len(size) < width or len(header) < min(length, _MOST_HEADER_BYTES):
        raise NpyError("a NumPy file that ends within its header")
    if length > _MOST_HEADER_BYTES:
        raise NpyError(f"a NumPy file with a header of {length} bytes, {_MOST_HEADER_BYTES} at the most are read")
    return _parsed(version, header) if length <= _MOST_KEPT_BYTES else _parsed.__wrapped__(version, header)


@functools.lru_cache(maxsize=256)
def _parsed(version: tuple[int, int], header: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type: those of a column are mostly the same in each of its values."""
    # Not by NumPy's reader: it takes no version 3 from a file, and warns of what Python 2 wrote.
    text = header.decode("utf-8" if version == (3, 0) else "latin-1")
    try:
        told = ast.literal_eval(text)
    except SyntaxError:
        told = ast.literal_eval(_PYTHON_2_LONG.sub(r"\1", text))
    if not isinstance(told, dict) or told.keys() != {"descr", "fortran_order", "shape"}:
        raise NpyError("a NumPy file whose header doesn't say descr, fortran_order and shape, and nothing else")
    shape = told["shape"]
    if not isinstance(shape, tuple) or any(type(side) is not int for side in shape):
        raise NpyError(f"a NumPy file of the shape {shape!a}, which is no tuple of whole numbers")
    if not isinstance(told["fortran_order"], bool):
        raise NpyError(f"a NumPy file whose fortran_order is {told['fortran_order']!a}, neither True nor False")
    return shape, told["fortran_order"], npy.descr_to_dtype(told["descr"])
