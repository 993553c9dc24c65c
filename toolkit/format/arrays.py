"""Arrow arrays from Python values and back to NumPy, by their buffers.

pyarrow's own ways (pa.array, to_numpy, scalars) import pandas, where it is installed, the first time they are used:
0.2 s that a short pack can't spare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["bits_buffer", "bool_array", "numbers", "to_array", "truths", "valid_rows", "value_offsets"]

_LARGEST_OFFSET = (1 << 31) - 1
_NUMBERS = {
    pa.int64(): np.int64,
    pa.int32(): np.int32,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}


def to_array(values: Sequence[Any], dtype: pa.DataType) -> pa.Array:
    """Return what pa.array(values, dtype) does, None being null. The values must be of the type already.

    Raises:
        UnicodeError: Text, given as str or as its UTF-8 bytes, is none.
        pa.ArrowCapacityError: All values together are too long for the type's offsets.
    """
    rows = len(values)
    known = np.fromiter((value is not None for value in values), np.bool_, rows)
    validity = None if known.all() else bits_buffer(known)
    if dtype in _NUMBERS:
        numbers = np.array(
            values if validity is None else [0 if value is None else value for value in values], _NUMBERS[dtype]
        )
        return pa.Array.from_buffers(dtype, rows, [validity, pa.py_buffer(numbers)])
    if pa.types.is_struct(dtype):
        children = [
            to_array([None if value is None else value[field.name] for value in values], field.type) for field in dtype
        ]
        return pa.Array.from_buffers(dtype, rows, [validity], children=children)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        lists = [[] if value is None else value for value in values]
        child = to_array([item for one in lists for item in one], dtype.value_type)
        offsets = _offsets([len(one) for one in lists], wide=pa.types.is_large_list(dtype))
        return pa.Array.from_buffers(dtype, rows, [validity, offsets], children=[child])
    if pa.types.is_fixed_size_list(dtype) and validity is None:
        child = to_array([item for one in values for item in one], dtype.value_type)
        return pa.Array.from_buffers(dtype, rows, [None], children=[child])
    if dtype in (pa.binary(), pa.large_binary(), pa.string(), pa.large_string()):
        text = dtype in (pa.string(), pa.large_string())
        pieces = [b"" if value is None else _utf8(value) if text else value for value in values]
        offsets = _offsets([len(piece) for piece in pieces], wide=dtype in (pa.large_binary(), pa.large_string()))
        return pa.Array.from_buffers(dtype, rows, [validity, offsets, pa.py_buffer(b"".join(pieces))])
    if pa.types.is_fixed_size_binary(dtype) and validity is None:
        return pa.Array.from_buffers(dtype, rows, [None, pa.py_buffer(b"".join(values))])
    return pa.array(values, dtype)


def numbers(array: pa.Array) -> NDArray[Any]:
    """Return an array of integers or floats as NumPy has it, not copied; what lies under a null means nothing."""
    kind = np.dtype(array.type.to_pandas_dtype())  # a NumPy type; needs no pandas
    data = array.buffers()[1]
    return np.frombuffer(data or b"", kind)[array.offset : array.offset + len(array)]


def truths(array: pa.Array) -> NDArray[np.bool_]:
    """Return a boolean array as NumPy has it; null is False."""
    data = array.buffers()[1]
    values = _bits(data, array.offset, len(array)) if data is not None else np.zeros(len(array), np.bool_)
    return values & valid_rows(array) if array.null_count else values


def valid_rows(array: pa.Array) -> NDArray[np.bool_]:
    """Tell for each row whether it is not null."""
    if pa.types.is_null(array.type):
        return np.zeros(len(array), np.bool_)
    validity = array.buffers()[0] if array.null_count else None
    return np.ones(len(array), np.bool_) if validity is None else _bits(validity, array.offset, len(array))


def value_offsets(array: pa.Array) -> NDArray[np.signedinteger]:
    """Return the offsets of an array of bytes, text or lists, (rows + 1,), as they lie in it."""
    dtype = array.type
    wide = pa.types.is_large_list(dtype) or dtype in (pa.large_binary(), pa.large_string())
    kind = np.dtype(np.int64 if wide else np.int32)
    buffer = array.buffers()[1]
    if len(array) == 0 or buffer is None:
        return np.zeros(len(array) + 1, kind)
    return np.frombuffer(buffer, kind, len(array) + 1, array.offset * kind.itemsize)


def bits_buffer(values: NDArray[np.bool_]) -> pa.Buffer:
    """Return the bitmap of `values`, zeros behind the last."""
    return pa.py_buffer(np.packbits(values, bitorder="little"))


def bool_array(values: NDArray[np.bool_]) -> pa.Array:
    """Return the boolean array of `values`, without nulls."""
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits_buffer(values)])


def _utf8(value: str | bytes) -> bytes:
    if isinstance(value, str):
        return value.encode()
    value.decode()  # text is stored as it is, once it is known to be some
    return value


def _bits(buffer: pa.Buffer, start: int, count: int) -> NDArray[np.bool_]:
    first = start // 8
    data = np.frombuffer(buffer, np.uint8)[first : (start + count + 7) // 8]
    return np.unpackbits(data, bitorder="little")[start - first * 8 :][:count].astype(np.bool_)


def _offsets(lengths: Sequence[int], *, wide: bool) -> pa.Buffer:
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    if wide:
        return pa.py_buffer(ends)
    if ends[-1] > _LARGEST_OFFSET:
        raise pa.ArrowCapacityError(f"{ends[-1]} bytes or items do not fit int32 offsets")
    return pa.py_buffer(ends.astype(np.int32))
