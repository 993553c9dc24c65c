"""The encodings of MDS columns: what each becomes, and a column of values from their bytes.

Nothing here runs what it reads: a pickle is refused, since to read one is to run what it says.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.format.arrays import to_array
from toolkit.format.kinds import Kind
from toolkit.sources.contents import UnfitError, text_of
from toolkit.sources.kinds.mds.pil_images import png_of_pil
from toolkit.sources.npy import npy_head

__all__ = ["Encoding", "Values", "find_encoding", "fixed_size"]

# The bytes of a column's values; None where there is a reason already why there is no row.
Values = Sequence[memoryview | None]

_UINT32 = np.dtype("<u4")
_MOST_TEXT_NUMBER = 4000  # characters of a number that is written as text
_PICKLES = ("pkl",)


@dataclass(frozen=True, slots=True)
class Encoding:
    """What the values of an encoding become.

    Attributes:
        type: Their Arrow type.
        kind: Their kind, where the type doesn't tell it.
        size: Bytes of each value; None where they differ.
        column: Makes the column of values. Returns a null where there is none, and the reasons by row.
    """

    type: pa.DataType
    kind: Kind | None
    size: int | None
    column: Callable[[Values], tuple[pa.Array, dict[int, str]]]


def fixed_size(text: str) -> int | None:
    """Return the bytes that each value of an encoding has; None where they differ or nothing is known of it."""
    found = find_encoding(text)
    return found.size if isinstance(found, Encoding) else None


@functools.cache
def find_encoding(text: str, *, as_text: bool = False) -> Encoding | str:
    """Return the encoding that an index calls `text`, or why its values can't be read.

    `as_text`: numbers and JSON that are stored as text stay the text that they are.
    """
    if text in _PICKLES:
        return "its values are pickles, and to read a pickle is to run whatever code is in it"
    if as_text and text in ("str_int", "str_float"):
        text = "str"
    if text in _SCALARS:
        return _scalar(np.dtype(_SCALARS[text]))
    name, colon, rest = text.partition(":")
    if name == "ndarray":
        return _ndarray(rest) if rest or not colon else f"its encoding {text!r} is none that is known"
    if text in _OTHERS:
        return _OTHERS[text]
    return f"its encoding {text!r} is none that is known"


_SCALARS = {
    "int": "<i8",
    **{f"{sign}int{bits}": f"<{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
    **{f"float{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
}


def _scalar(dtype: np.dtype[Any]) -> Encoding:
    arrow = pa.from_numpy_dtype(dtype)
    nothing = bytes(dtype.itemsize)

    def column(values: Values) -> tuple[pa.Array, dict[int, str]]:
        data = b"".join(nothing if value is None else value for value in values)
        return pa.Array.from_buffers(arrow, len(values), [None, pa.py_buffer(data)]), {}

    return Encoding(arrow, None, dtype.itemsize, column)


def _plain(dtype: pa.DataType, kind: Kind | None = None) -> Encoding:
    """Return an encoding whose values are bytes or text as they are."""
    return Encoding(dtype, kind, None, lambda values: (_of_bytes(values, dtype), {}))


def _made(
    dtype: pa.DataType, kind: Kind | None, make: Callable[[memoryview], Any], size: int | None = None
) -> Encoding:
    """Return an encoding whose values are made one by one; UnfitError tells why one can't be."""

    def column(values: Values) -> tuple[pa.Array, dict[int, str]]:
        made: list[Any] = [None] * len(values)
        faults = {}
        for i, value in enumerate(values):
            if value is not None:
                try:
                    made[i] = make(value)
                except UnfitError as fault:
                    faults[i] = str(fault)
        return to_array(made, dtype), faults

    return Encoding(dtype, kind, size, column)


def _of_bytes(values: Values, dtype: pa.DataType) -> pa.Array:
    """Return bytes or text without a look at them: text that is none is found by whoever makes rows."""
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum([0 if value is None else len(value) for value in values], out=ends[1:])
    data = b"".join(value for value in values if value is not None)
    return pa.Array.from_buffers(dtype, len(values), [None, pa.py_buffer(ends), pa.py_buffer(data)])


# ---- Numbers in text -------------------------------------------------------------------------------------------------


def _text_int(data: memoryview) -> int:
    value: int = _number(data, int)
    if not -(1 << 63) <= value < 1 << 63:
        raise UnfitError(f"the number {value} doesn't fit 64 bits: pack the column as text with --kind COLUMN=text")
    return value


def _text_float(data: memoryview) -> float:
    value: float = _number(data, float)
    return value


def _number(data: memoryview, parse: Callable[[str], Any]) -> Any:
    if len(data) > _MOST_TEXT_NUMBER:
        raise UnfitError(f"a text of {len(data)} bytes where a number has to be")
    text = text_of(data)
    try:
        return parse(text)
    except ValueError as error:
        raise UnfitError(f"{text[:40]!a} is no number") from error


# ---- Arrays ----------------------------------------------------------------------------------------------------------

_SHAPE_TYPES = ("<u1", "<u2", "<u4", "<u8")
_VALUE_TYPES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}


def _ndarray(config: str) -> Encoding | str:
    """Return the encoding of arrays whose type and shape are said in its name, or in each value."""
    type_name, colon, shape_text = config.partition(":")
    unknown = f"its encoding 'ndarray:{config}' is none that is known"
    if type_name and type_name not in _VALUE_TYPES.values():
        return unknown
    dtype = np.dtype(type_name).newbyteorder("<") if type_name else None
    shape = None
    if colon:
        sides = shape_text.split(",")
        if dtype is None or not all(side.isascii() and side.isdigit() and len(side) < 11 for side in sides):
            return unknown
        shape = tuple(map(int, sides))
        if 0 in shape:
            return unknown
    size = None if dtype is None or shape is None else math.prod(shape) * dtype.itemsize
    return _made(pa.binary(), Kind.TENSOR, lambda data: _array(data, dtype, shape), size)


def _array(data: memoryview, dtype: np.dtype[Any] | None, shape: tuple[int, ...] | None) -> bytes:
    """Return an array's NumPy file."""
    if dtype is None:
        number = _first(data)
        if number not in _VALUE_TYPES:
            raise UnfitError(f"an array of the unknown type {number}")
        dtype, data = np.dtype(_VALUE_TYPES[number]).newbyteorder("<"), data[1:]
    if shape is None:
        axes, width = _first(data) >> 2, 1 << _first(data) % 4
        sides = data[1 : 1 + axes * width]
        if len(sides) < axes * width:
            raise UnfitError("an array that ends within its shape")
        shape = tuple(np.frombuffer(sides, _SHAPE_TYPES[width.bit_length() - 1]).tolist())
        data = data[1 + axes * width :]
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise UnfitError(f"an array of {len(data)} bytes for the shape {shape} of {dtype.name}")
    return b"".join((npy_head(dtype, shape), data))


def _first(data: memoryview) -> int:
    if not data:
        raise UnfitError("an array that ends within its header")
    return data[0]


# ---- Lists of pictures -----------------------------------------------------------------------------------------------


def _list(data: memoryview) -> list[bytes]:
    """Return the values of a list: a number that means nothing yet, the count, the sizes, the values."""
    return [bytes(part) for part in _parts(data, 4)]


def _pil_list(data: memoryview) -> list[bytes]:
    return [png_of_pil(part) for part in _parts(data, 4)]


def _jpeg_array(data: memoryview) -> list[bytes]:
    found = [bytes(part) for part in _parts(data, 0)]
    if not found:
        raise UnfitError("a jpegarray without a picture")
    return found


def _parts(data: memoryview, start: int) -> Iterator[memoryview]:
    count = int.from_bytes(data[start : start + 4], "little")
    at = start + 4 + 4 * count
    if len(data) < at:
        raise UnfitError(f"a list of {len(data)} bytes that is said to hold {count} values")
    sizes: NDArray[np.uint32] = np.frombuffer(data[start + 4 : at], _UINT32)
    total = int(sizes.sum(dtype=np.uint64))
    if at + total != len(data):
        raise UnfitError(f"a list of {len(data)} bytes whose values are said to take {total}")
    for size in sizes.tolist():
        yield data[at : at + size]
        at += size


_PICTURES = pa.list_(pa.binary())
_OTHERS = {
    "bytes": _plain(pa.binary()),
    "str": _plain(pa.string()),
    "str_int": _made(pa.int64(), None, _text_int),
    "str_float": _made(pa.float64(), None, _text_float),
    "str_decimal": _plain(pa.string(), Kind.TEXT),
    "json": _plain(pa.string(), Kind.JSON),
    "jpeg": _plain(pa.binary(), Kind.IMAGE),
    "png": _plain(pa.binary(), Kind.IMAGE),
    "pil": _made(pa.binary(), Kind.IMAGE, png_of_pil),
    "list[jpeg]": _made(_PICTURES, Kind.VALUE, _list),
    "list[png]": _made(_PICTURES, Kind.VALUE, _list),
    "list[pil]": _made(_PICTURES, Kind.VALUE, _pil_list),
    "jpegarray": _made(_PICTURES, Kind.VALUE, _jpeg_array),
    "jpeg_array": _made(_PICTURES, Kind.VALUE, _jpeg_array),
}
