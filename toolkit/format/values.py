"""Read any stored value out of a record batch body: checked bytes, rebuilt as an Arrow array of the rows asked for.

General rather than fast: what kernels fetch (numbers, bytes, images) has its own way in toolkit.loader.dataset.fetch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.shards.body import READ_ITEMS, READ_OK, READ_RANGE, READ_TEXT, Body
from toolkit.format.arrays import value_offsets
from toolkit.format.layout import (
    BitLayout,
    FixedLayout,
    Layout,
    ListLayout,
    NullLayout,
    StructLayout,
    VariableLayout,
    takes_bytes,
)
from toolkit.format.sizes import MOST_EMPTY_ITEMS

__all__ = ["DamagedValueError", "python_value", "python_values", "read_rows"]

_TEXT = (pa.string(), pa.large_string())


class DamagedValueError(Exception):
    """A value lies in bytes that can't be trusted. Attributes: status (READ_…), chunk of the body."""

    def __init__(self, status: int, chunk: int) -> None:
        super().__init__(status, chunk)
        self.status = status
        self.chunk = chunk


def python_value(value: pa.Scalar) -> Any:
    """Return a value as Python has it; exact, and the same whether pandas is installed or not.

    Python's own times end at microseconds and the year 9999. What goes beyond is a numpy datetime64 (UTC) or
    timedelta64 (a duration, or a time since midnight); a type in nanoseconds always is.
    """
    dtype = value.type
    if not value.is_valid or not _holds_time(dtype):
        return value.as_py()
    if pa.types.is_struct(dtype):
        return {name: python_value(value[name]) for name in value}
    if not pa.types.is_temporal(dtype):
        return [python_value(item) for item in value.values]
    if getattr(dtype, "unit", "") != "ns":
        try:
            return value.as_py()
        except (OverflowError, ValueError):  # also a time zone that is unknown here
            pass
    unit: Any = "D" if dtype == pa.date32() else getattr(dtype, "unit", "ms")
    since_epoch = pa.types.is_timestamp(dtype) or pa.types.is_date(dtype)
    return (np.datetime64 if since_epoch else np.timedelta64)(value.value, unit)


def python_values(values: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return values as python_value() gives each."""
    return [python_value(value) for value in values] if _holds_time(values.type) else values.to_pylist()


def _holds_time(dtype: pa.DataType) -> bool:
    if dtype.num_fields:
        return any(_holds_time(dtype.field(i).type) for i in range(dtype.num_fields))
    return bool(pa.types.is_temporal(dtype)) and dtype != pa.month_day_nano_interval()


def read_rows(body: Body, layout: Layout, start: int, count: int) -> pa.Array:
    """Return rows [start, start + count) of a column of the batch. Raises DamagedValueError."""
    # Bitmaps can only be cut at whole bytes: read from the byte's first row and slice the rest off.
    first = start & ~7
    rows = start + count - first
    validity = _bitmap(body, int(layout.validity[-1]), first, rows) if len(layout.validity) else None
    match layout:
        case NullLayout():
            return pa.nulls(count)
        case FixedLayout(data=data, width=width):
            values = _bytes(body, data, first * width, rows * width)
            return pa.Array.from_buffers(layout.type, rows, [validity, values]).slice(start - first)
        case BitLayout(data=data):
            bits = _bytes(body, data, first // 8, (rows + 7) // 8)
            return pa.Array.from_buffers(layout.type, rows, [validity, bits]).slice(start - first)
        case VariableLayout(offsets=offsets, data=data, offset_width=width):
            ends, low, high = _offsets(body, offsets, width, first, rows)
            values = _bytes(body, data, low, high - low)
            array = pa.Array.from_buffers(layout.type, rows, [validity, ends, values]).slice(start - first)
            if layout.type in _TEXT:
                _check_text(array, values)
            return array
        case StructLayout(children=children):
            arrays = [read_rows(body, child, first, rows) for child in children.values()]
            return pa.Array.from_buffers(layout.type, rows, [validity], children=arrays).slice(start - first)
        case ListLayout(child=child, offsets=None, size=size):
            _check_count(child, rows * size)
            items = read_rows(body, child, first * size, rows * size)
            return pa.Array.from_buffers(layout.type, rows, [validity], children=[items]).slice(start - first)
        case ListLayout(child=child, offsets=int() as offsets, offset_width=width):
            ends, low, high = _offsets(body, offsets, width, first, rows)
            _check_count(child, high - low)
            items = read_rows(body, child, low, high - low)
            return pa.Array.from_buffers(layout.type, rows, [validity, ends], children=[items]).slice(start - first)
    raise TypeError(f"no reader for {layout}")


def _bytes(body: Body, buffer: int, start: int, length: int) -> pa.Buffer:
    offset, size = body.buffer(buffer)
    if start < 0 or length < 0 or start + length > size:
        raise DamagedValueError(READ_RANGE, -1)
    out = pa.allocate_buffer(length)  # of Arrow's pool, which has its pages already: numpy's come one fault at a time
    status, chunk = body.read(offset + start, np.frombuffer(out, np.uint8))
    if status != READ_OK:
        raise DamagedValueError(status, chunk)
    return out


def _bitmap(body: Body, buffer: int, first: int, rows: int) -> pa.Buffer | None:
    """Return the bits of rows from `first` (a multiple of 8) on; None when the buffer has no bytes: all are there."""
    if body.buffer(buffer)[1] == 0:
        return None
    return _bytes(body, buffer, first // 8, (rows + 7) // 8)


def _offsets(body: Body, buffer: int, width: int, first: int, rows: int) -> tuple[pa.Buffer, int, int]:
    """Return the offsets rebased to 0, and the span of the data or child that they cover."""
    dtype = np.int32 if width == 4 else np.int64
    if rows == 0:
        return pa.py_buffer(np.zeros(1, dtype)), 0, 0
    offsets: NDArray[Any] = np.frombuffer(_bytes(body, buffer, first * width, (rows + 1) * width), dtype)
    low, high = int(offsets[0]), int(offsets[-1])
    if low < 0 or (offsets[1:] < offsets[:-1]).any():  # neighbours: the difference of two could wrap around
        raise DamagedValueError(READ_RANGE, -1)
    return pa.py_buffer(offsets - offsets[0]), low, high


def _check_count(child: Layout, items: int) -> None:
    if items > MOST_EMPTY_ITEMS and not takes_bytes(child.type):
        raise DamagedValueError(READ_ITEMS, -1)


def _check_text(array: pa.Array, data: pa.Buffer) -> None:
    """Raise DamagedValueError where a value isn't UTF-8: pyarrow would hand out what is no text, or fail later."""
    if np.frombuffer(data, np.uint8).max(initial=0) < 0x80:
        return
    try:
        str(data, "utf-8")
        if not _cuts_a_character(array, data):
            return
    except UnicodeDecodeError:
        pass
    # Bytes that nobody sees, of neighbours and under nulls, may be anything.
    for value in array.cast(pa.large_binary() if array.type == pa.large_string() else pa.binary()):
        try:
            if value.is_valid:
                str(value.as_buffer(), "utf-8")
        except UnicodeDecodeError as error:
            raise DamagedValueError(READ_TEXT, -1) from error


def _cuts_a_character(array: pa.Array, data: pa.Buffer) -> bool:
    starts = value_offsets(array)
    starts = starts[starts < data.size]
    return bool((np.frombuffer(data, np.uint8)[starts] & 0xC0 == 0x80).any())
