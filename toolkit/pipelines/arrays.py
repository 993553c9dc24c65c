"""Make arrays of stored bytes and lists, and numbers of other numbers: exactly, or an error."""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["array_from_bytes", "array_from_list", "convert_numbers", "owned_array", "plain_array", "read_npy"]

Shape = Sequence[int | None]

_MOST_KEPT_BYTES = 1024  # of a header


def convert_numbers(dtype: np.dtype[Any], values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.bool_], str]:
    """Return numbers as `dtype`, which of them don't fit it, and what to say of those.

    Whole numbers must be in range; floating point is rounded, but nothing finite becomes infinite.
    """
    with np.errstate(over="ignore"):
        out = values.astype(dtype)
    bad = np.zeros(values.shape, np.bool_)
    if dtype.kind in "iu" and values.dtype.kind in "iu":
        bad = (out.astype(values.dtype) != values) | ((out < 0) != (values < 0))
    elif dtype.kind == "f" and values.dtype.kind in "iuf":
        bad = np.isinf(out) & np.isfinite(values)
    return out, bad, f"doesn't fit {dtype.name}"


def plain_array(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a user's as a numpy.ndarray in this machine's byte order, without a copy where it is one.

    Raises:
        ValueError: It is masked somewhere: no framework has masks, and what lies behind one is no value.
    """
    if type(values) is np.ndarray and values.dtype.isnative:
        return values
    if isinstance(values, np.ma.MaskedArray):
        masked = int(np.count_nonzero(values.mask))
        if masked:
            raise ValueError(
                f"{masked} of {values.size} values are masked, which no batch can say: fill them with .filled(value)"
            )
        values = np.ma.getdata(values)
    return np.asarray(values, values.dtype.newbyteorder("="))


def owned_array(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of a user's as frameworks take it: plain, writable, strides that move on by whole items.

    Copied only where it isn't that. Raises ValueError as plain_array().
    """
    values = plain_array(values)
    flags, width = values.flags, values.itemsize or 1
    # Also of an axis of one item, which numpy calls contiguous whatever its stride.
    fit = all(stride > 0 and stride % width == 0 for stride in values.strides)
    return values if fit and flags.writeable and flags.aligned else values.copy(order="C")


def array_from_bytes(data: bytes, dtype: np.dtype[Any], shape: Shape) -> NDArray[Any]:
    """Return raw little-endian values in C order as an array of its own. Raises ValueError: their number is another."""
    if len(data) % dtype.itemsize:
        raise ValueError(f"{len(data)} bytes are no whole number of {dtype.name}")
    flat = np.frombuffer(data, dtype.newbyteorder("<")).astype(dtype)
    return _shaped(flat, shape)


def array_from_list(value: list[Any], dtype: np.dtype[Any], shape: Shape) -> NDArray[Any]:
    """Return a list of numbers, nested as `shape` or flat, as an array. Raises ValueError: null, ragged, or no fit."""
    made = np.asarray(value)
    if made.size == 0:
        made = made.astype(dtype)
    elif made.dtype.kind == "f" and all(type(item) is int for item in np.array(value, object).flat):
        # numpy makes float64 of whole numbers on both sides of 2**63, and rounds them.
        try:
            made = np.asarray(value, np.uint64)
        except OverflowError as error:
            raise ValueError(f"a number doesn't fit {dtype.name}: {error}") from error
    if made.dtype.kind not in "biuf":
        raise ValueError("the list has a null inside, or what is no number")
    if (made.dtype.kind == "f" and dtype.kind != "f") or (dtype.kind == "b" and made.dtype.kind != "b"):
        raise ValueError(f"a list of {made.dtype.name} is no {dtype.name}")
    out, bad, message = convert_numbers(dtype, made)
    if bad.any():
        raise ValueError(f"{made[bad].flat[0]} {message}")
    if out.ndim > 1 and not _fits(out.shape, shape):
        raise ValueError(f"the list has the shape {out.shape}, expected {_text(shape)}")
    return _shaped(out, shape)


def read_npy(data: bytes, dtype: np.dtype[Any] | None, shape: Shape | None) -> NDArray[Any]:
    """Return the array of a NumPy file. Raises ValueError: it is none, is cut short, or has another dtype or shape."""
    sizes, fortran, stored, offset = _npy_header(data)
    if stored.hasobject or stored.kind not in "biufc":
        raise ValueError(f"a NumPy file of {stored} holds no plain numbers")
    # Before any memory is taken: the header may say anything.
    rest = len(data) - offset
    if math.prod(sizes) * stored.itemsize != rest:
        raise ValueError(f"the header says {stored.name} {tuple(sizes)}, and {rest} bytes follow")
    native = stored.newbyteorder("=")
    if dtype is not None and native != dtype:
        raise ValueError(f"it is {native.name}, expected {dtype.name}: .npy({native.name!r}, …).cast({dtype.name!r})")
    if shape is not None and not _fits(sizes, shape):
        raise ValueError(f"its shape is {tuple(sizes)}, expected {_text(shape)}")
    flat = np.frombuffer(data, stored, offset=offset)
    return flat.reshape(sizes, order="F" if fortran else "C").astype(native, order="C")


def _npy_header(data: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, order and type of a NumPy file, and where its values begin."""
    width = 2 if data[6:7] == b"\1" else 4
    head = data[: 8 + width + int.from_bytes(data[8 : 8 + width], "little")]
    return _read_head(head) if len(head) <= _MOST_KEPT_BYTES else _read_head.__wrapped__(head)


@functools.lru_cache(maxsize=256)
def _read_head(head: bytes) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Read what stands before the values: mostly the same in each value of a column, and slow to parse."""
    stream = io.BytesIO(head)
    version = np.lib.format.read_magic(stream)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version} of the npy format is not supported")
    try:
        sizes, fortran, stored = readers[version](stream)
    except Exception as error:  # numpy's parser raises whatever damaged text leads it to
        raise ValueError(f"the header of the NumPy file can't be read: {error}") from error
    if any(size < 0 for size in sizes):
        raise ValueError(f"the header of the NumPy file says {sizes}")
    return sizes, fortran, stored, stream.tell()


def _shaped(flat: NDArray[Any], shape: Shape) -> NDArray[Any]:
    known = math.prod(size for size in shape if size is not None)
    if flat.size != known if None not in shape else (known == 0 or flat.size % known):
        raise ValueError(f"{flat.size} values, expected {_text(shape)}")
    return flat.reshape([-1 if size is None else size for size in shape])


def _fits(sizes: Sequence[int], shape: Shape) -> bool:
    return len(sizes) == len(shape) and all(want is None or want == got for want, got in zip(shape, sizes, strict=True))


def _text(shape: Shape) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"
