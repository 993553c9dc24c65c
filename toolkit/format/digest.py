"""The digest of a sample: 128-bit xxh3 over its columns in the canonical encoding of docs/format.md.

Works on Arrow arrays, a batch at a time: large values are hashed where they lie.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from toolkit.format.arrays import truths, valid_rows, value_offsets
from toolkit.format.schema import KEY, is_own_name

__all__ = ["sample_digests"]

_NULL = b"\0"
_THERE = b"\1"
_U32 = struct.Struct("<I").pack
_U64 = struct.Struct("<Q").pack
_COPIED_BYTES = 256  # of a row

# Yields the pieces of row i's encoding.
_Encoder = Callable[[int], Iterable[bytes | memoryview]]


def sample_digests(batch: pa.RecordBatch) -> list[bytes]:
    """Return 16 digest bytes for each row of `batch`, whose columns have the order of shards.

    A digest column, and derived ones, are left out.
    """
    pieces = _Pieces(batch.num_rows)
    for field, array in zip(batch.schema, batch.columns, strict=True):
        if field.name == KEY or not is_own_name(field.name):
            name = field.name.encode()
            pieces.add_constant(_U32(len(name)) + name)
            pieces.add(array)
    digests = []
    for row in pieces.rows():
        hasher = xxhash.xxh3_128()
        for piece in row:
            hasher.update(piece)
        digests.append(hasher.digest())
    return digests


class _Pieces:
    """The encodings of all rows, in few pieces a row: what has one width in every row is laid out for all at once."""

    def __init__(self, rows: int) -> None:
        self._rows = rows
        self._fixed: list[NDArray[np.uint8]] = []  # (rows, width) or (1, width), since the last piece
        self._pieces: list[Sequence[bytes | memoryview]] = []  # one a row in each

    def rows(self) -> Iterator[tuple[bytes | memoryview, ...]]:
        """Return the pieces of each row."""
        self._end_fixed()
        return zip(*self._pieces, strict=True)

    def add_constant(self, data: bytes) -> None:
        """Add the same bytes to every row."""
        self._fixed.append(np.frombuffer(data, np.uint8)[None, :])

    def add(self, array: pa.Array) -> None:
        """Add a column's encoding."""
        dtype = array.type
        if array.null_count == 0 and pa.types.is_struct(dtype):
            self.add_constant(_THERE)
            for i in range(dtype.num_fields):
                self.add(array.field(i))
        elif array.null_count == 0 and dtype in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
            offsets = value_offsets(array)
            self.add_constant(_THERE)
            self._fixed.append(np.diff(offsets).astype("<u8")[:, None].view(np.uint8))
            self._add_variable(array.buffers()[2], offsets)
        elif array.null_count == 0 and pa.types.is_primitive(dtype) and not pa.types.is_boolean(dtype):
            width = dtype.bit_width // 8
            data = np.frombuffer(array.buffers()[1] or b"", np.uint8)[array.offset * width :]
            self.add_constant(_THERE)
            self._fixed.append(data[: self._rows * width].reshape(self._rows, width))
        else:
            self._end_fixed()
            encode = _encoder(array)
            self._pieces.append([b"".join(encode(row)) for row in range(self._rows)])

    def _add_variable(self, data: pa.Buffer | None, offsets: NDArray[np.signedinteger]) -> None:
        self._end_fixed()
        first, last = int(offsets[0]), int(offsets[-1])
        view: bytes | memoryview = memoryview(data if data is not None else b"").cast("B")[first:last]
        if last - first <= _COPIED_BYTES * self._rows:
            view = bytes(view)  # whose parts are made faster
        ends = (offsets - first).tolist()
        self._pieces.append([view[start:stop] for start, stop in itertools.pairwise(ends)])

    def _end_fixed(self) -> None:
        if self._fixed:
            wide = [np.broadcast_to(one, (self._rows, one.shape[1])) for one in self._fixed]
            data, width = np.concatenate(wide, axis=1).tobytes(), sum(one.shape[1] for one in wide)
            self._pieces.append([data[start : start + width] for start in range(0, self._rows * width, width)])
            self._fixed = []


def _encoder(array: pa.Array) -> _Encoder:
    """Return the encoder of a column, nulls included."""
    encode = _value_encoder(array)
    if array.null_count == 0:
        return encode
    valid = valid_rows(array).tolist()
    return lambda row: encode(row) if valid[row] else (_NULL,)


def _value_encoder(array: pa.Array) -> _Encoder:
    dtype = array.type
    if pa.types.is_null(dtype):
        return lambda row: (_NULL,)
    if pa.types.is_struct(dtype):
        # flatten() would mix the parent's nulls into the children; a null parent never gets here.
        children = [_encoder(array.field(i)) for i in range(dtype.num_fields)]
        return lambda row: (_THERE, *(piece for child in children for piece in child(row)))
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        offsets = value_offsets(array).tolist()
        if pa.types.is_integer(dtype.value_type) and array.values.null_count == 0:
            return _integers_encoder(array.values, offsets)
        return _list_encoder(_encoder(array.values), lambda row: (offsets[row], offsets[row + 1]))
    if pa.types.is_fixed_size_list(dtype):
        size, first = dtype.list_size, array.offset
        return _list_encoder(_encoder(array.values), lambda row: ((first + row) * size, (first + row + 1) * size))
    if pa.types.is_boolean(dtype):
        values = truths(array).tolist()
        return lambda row: (_THERE + (b"\1" if values[row] else b"\0"),)
    if dtype in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
        return _variable_encoder(array)
    width = dtype.bit_width // 8
    data = memoryview(array.buffers()[1] or b"").cast("B")
    start = array.offset * width
    return lambda row: (_THERE + data[start + row * width : start + (row + 1) * width],)


def _variable_encoder(array: pa.Array) -> _Encoder:
    dtype = "<i4" if array.type in (pa.binary(), pa.string()) else "<i8"
    _, offsets_buffer, data_buffer = array.buffers()
    if len(array) == 0:
        return lambda row: ()
    offsets = np.frombuffer(offsets_buffer, dtype)[array.offset : array.offset + len(array) + 1].tolist()
    data = memoryview(data_buffer).cast("B") if data_buffer is not None else memoryview(b"")

    def encode(row: int) -> Sequence[bytes | memoryview]:
        start, stop = offsets[row], offsets[row + 1]
        return _THERE + _U64(stop - start), data[start:stop]

    return encode


def _integers_encoder(values: pa.Array, offsets: list[int]) -> _Encoder:
    """Return the encoder of a list of integers: all items at once, since documents have thousands of tokens."""
    width = values.type.bit_width // 8
    items = np.ones((len(values), 1 + width), np.uint8)
    if len(values):
        data = np.frombuffer(values.buffers()[1], np.uint8, len(values) * width, values.offset * width)
        items[:, 1:] = data.reshape(-1, width)

    def encode(row: int) -> Sequence[bytes | memoryview]:
        start, stop = offsets[row], offsets[row + 1]
        return _THERE + _U64(stop - start), items[start:stop].tobytes()

    return encode


def _list_encoder(child: _Encoder, span: Callable[[int], tuple[int, int]]) -> _Encoder:
    def encode(row: int) -> Iterable[bytes | memoryview]:
        start, stop = span(row)
        yield _THERE + _U64(stop - start)
        for item in range(start, stop):
            yield from child(item)

    return encode
