"""What one row of an array is stored as: the Arrow type and kind for a NumPy type and shape, and the values in it.

Nothing is changed on the way: numbers keep their type and value, whatever their byte order was; a type that has no
equal here is refused by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.format.arrays import bits_buffer, bool_array, to_array
from toolkit.format.kinds import Kind
from toolkit.sources.contents import UnfitError
from toolkit.sources.npy import npy_head
from toolkit.sources.pictures import png_of

__all__ = ["ArrayColumn", "TypeWords", "UnfitTypeError", "columns_of"]

_TEXTS = (Kind.TEXT, Kind.JSON, Kind.LABEL)
_SINGLE = (Kind.LABEL, Kind.SCALAR)
_MOST_CODE_POINT = 0x10FFFF
_LONE_SURROGATE = 0xD800
_DAY_UNITS = ("Y", "M", "W", "D")
_SECOND_UNITS = ("h", "m", "s")
_ARROW_UNITS = ("s", "ms", "us", "ns")
_MOST_DAY = (1 << 31) - 1
_NAT = np.iinfo(np.int64).min

Block = NDArray[Any]


class UnfitTypeError(ValueError):
    """Why values of a NumPy type have no column."""


@dataclass(frozen=True, slots=True)
class ArrayColumn:
    """A field made of an array, or of one field of a structured array.

    Attributes:
        field: What it is called.
        path: The fields of a structured array that lead to it; () for the array itself.
        dtype: Type of its values.
        shape: Shape of a row: that of the array, but for its first index.
        type: The Arrow type of the field.
        kind: Its kind where the type doesn't tell it.
        make: Returns the values of a block of rows. A name of _MAKERS, so that a column can be pickled.
    """

    field: str
    path: tuple[str, ...]
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    type: pa.DataType
    kind: Kind | None
    make: str

    @property
    def row_bytes(self) -> int:
        """What a row takes as it is stored, about."""
        return self.dtype.itemsize * math.prod(self.shape) + (len(self._head) if self.make == "tensor" else 0)

    @property
    def _head(self) -> bytes:
        return npy_head(self.dtype.newbyteorder("<"), self.shape)

    def values(self, block: Block) -> pa.Array:
        """Return the values of some rows of the array."""
        for name in self.path:
            block = block[name]
        return _MAKERS[self.make](self, block)


class TypeWords:
    """What a kind of file says of types beyond what NumPy has words for. This one says nothing."""

    def arrow_type(self, dtype: np.dtype[Any], asked: Kind | None) -> pa.DataType | None:
        """Return the type of texts, bytes, or lists of numbers; None: as NumPy has it. Raises UnfitTypeError."""
        return None

    def classes(self, dtype: np.dtype[Any]) -> tuple[str, ...] | None:
        """Return the names of the ids that integers are; None: they are none."""
        return None


def columns_of(
    name: str,
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    asked: Mapping[str, Kind],
    words: TypeWords,
    path: tuple[str, ...] = (),
) -> Iterator[ArrayColumn]:
    """Yield the columns of an array whose rows have that type and shape: several of a structured one.

    Args:
        name: The field's name.
        dtype: Type of its values.
        shape: Shape of a row.
        asked: Kinds that --kind gives to fields.
        words: What the file says of types.
        path: The fields of a structured array that lead to it.

    Raises:
        UnfitTypeError: Its values can't be stored.
        UsageError: They can't be of the kind that is asked for.
    """
    if dtype.subdtype is not None:
        dtype, more = dtype.subdtype
        shape += more
    if dtype.names is None:
        yield _column(name, path, dtype, shape, asked.get(name), words)
        return
    if shape:
        raise UnfitTypeError(f"rows are {_text(shape)} records of {', '.join(dtype.names)}: only one a row has columns")
    for part in dtype.names:
        yield from columns_of(f"{name}.{part}" if name else part, dtype[part], (), asked, words, (*path, part))


def _column(
    name: str,
    path: tuple[str, ...],
    dtype: np.dtype[Any],
    shape: tuple[int, ...],
    asked: Kind | None,
    words: TypeWords,
) -> ArrayColumn:
    if not dtype.itemsize or not all(shape):
        raise UnfitTypeError(f"its rows are {_text(shape)} {dtype} and take no bytes: there is nothing to pack")

    def made(dtype_: pa.DataType, make: str, kind: Kind | None = None) -> ArrayColumn:
        return ArrayColumn(name, path, dtype, shape, dtype_, kind, make)

    if asked in _SINGLE and math.prod(shape) == 1:  # Keras has labels of the shape (rows, 1)
        shape = ()

    is_number = dtype.kind in "biufc" and dtype.itemsize <= 8 * (1 + (dtype.kind == "c"))
    if dtype.kind in "fc" and not is_number:
        raise UnfitTypeError(f"{dtype} differs from machine to machine: convert it with .astype('float64')")
    found = words.arrow_type(dtype, asked)
    if found is None and dtype.hasobject:
        raise UnfitTypeError("its values are Python objects, or of a type that NumPy has no word for")
    if found is not None:
        return made(_nested(found, shape), "lists" if pa.types.is_list(found) else "texts")
    if asked is Kind.IMAGE and (is_number or shape):
        _check_picture(name, dtype, shape)
        return made(pa.binary(), "picture", Kind.IMAGE)
    if is_number:
        if asked is Kind.BYTES:
            return made(pa.binary(), "raw", Kind.BYTES)
        if asked is Kind.TENSOR or dtype.kind == "c" or (len(shape) > 1 and asked is not Kind.VALUE):
            return made(pa.binary(), "tensor", Kind.TENSOR)
        return made(_nested(pa.from_numpy_dtype(dtype.newbyteorder("=")), shape), "numbers")
    return made(_nested(_plain_type(dtype, asked), shape), "texts" if dtype.kind in "SU" else "others")


def _plain_type(dtype: np.dtype[Any], asked: Kind | None) -> pa.DataType:
    """Return the Arrow type of a value that is no number."""
    match dtype.kind:
        case "U":
            return pa.string()
        case "S":
            return pa.string() if asked in _TEXTS else pa.binary()
        case "V":
            return pa.binary(dtype.itemsize)
        case "M" | "m":
            unit, step = np.datetime_data(dtype)
            if step == 1 and unit in _ARROW_UNITS:
                return pa.timestamp(unit) if dtype.kind == "M" else pa.duration(unit)
            if step == 1 and unit in _DAY_UNITS and dtype.kind == "M":
                return pa.date32()
            if step == 1 and unit in (*_SECOND_UNITS, "W", "D"):
                return pa.timestamp("s") if dtype.kind == "M" else pa.duration("s")
    raise UnfitTypeError(f"{dtype} has no equal among Arrow's types: convert it with .astype()")


def _check_picture(name: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    try:
        # The shape alone decides; a picture as high as it costs as much as all its rows.
        png_of(np.zeros((min(shape[0], 1), *shape[1:]) if shape else (), dtype.newbyteorder("=")))
    except UnfitError as fault:
        raise UsageError(
            f"--kind {name}=image: a row is {_text(shape)} {dtype}, and pictures are height x width, or height x width "
            "x 1 to 4 channels, of uint8 or uint16. Transpose or reshape the array, or leave it a tensor"
        ) from fault


def _text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape)) or "single"


def _nested(dtype: pa.DataType, shape: Sequence[int]) -> pa.DataType:
    for size in reversed(shape):
        dtype = pa.list_(dtype, size)
    return dtype


def _leaf(dtype: pa.DataType) -> pa.DataType:
    while pa.types.is_fixed_size_list(dtype):
        dtype = dtype.value_type
    return dtype


def _wrapped(values: pa.Array, rows: int, dtype: pa.DataType) -> pa.Array:
    """Return the values of all rows, one behind the other, as lists of fixed sizes."""
    if not pa.types.is_fixed_size_list(dtype):
        return values
    child = _wrapped(values, rows * dtype.list_size, dtype.value_type)
    return pa.Array.from_buffers(dtype, rows, [None], children=[child])


def _plain(block: Block) -> Block:
    """Return values in little-endian C order."""
    return np.ascontiguousarray(block, block.dtype.newbyteorder("<")).reshape(block.shape)


def _numbers(column: ArrayColumn, block: Block) -> pa.Array:
    flat = _plain(block).reshape(-1)
    if flat.dtype.kind == "b":
        made = bool_array(flat)
    else:
        made = pa.Array.from_buffers(_leaf(column.type), len(flat), [None, pa.py_buffer(flat)])
    return _wrapped(made, len(block), column.type)


def _raw(column: ArrayColumn, block: Block, head: bytes = b"") -> pa.Array:
    rows = len(block)
    values = _plain(block).reshape(-1).view(np.uint8).reshape(rows, -1)
    data = np.empty((rows, len(head) + values.shape[1]), np.uint8)
    data[:, : len(head)] = np.frombuffer(head, np.uint8)
    data[:, len(head) :] = values
    ends = np.arange(rows + 1, dtype=np.int64) * data.shape[1]
    return pa.Array.from_buffers(column.type, rows, [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)])


def _tensors(column: ArrayColumn, block: Block) -> pa.Array:
    return _raw(column, block, column._head)


def _pictures(column: ArrayColumn, block: Block) -> pa.Array:
    return to_array([png_of(picture) for picture in block], pa.binary())


def _texts(column: ArrayColumn, block: Block) -> pa.Array:
    """Return texts and bytes. What is no text is stored as it is here, and rejected where text is checked."""
    flat = block.reshape(-1)
    if flat.dtype.kind == "U":
        codes = np.array(flat, flat.dtype.newbyteorder("="), order="C").view(np.uint32)
        if (codes > _MOST_CODE_POINT).any():  # Python makes no str of such: something else that is no text, then
            flat = np.where(codes > _MOST_CODE_POINT, np.uint32(_LONE_SURROGATE), codes).view(f"U{flat.itemsize // 4}")
    data = [_bytes_of(value) for value in flat.tolist()]
    made = to_array(data, pa.binary())
    leaf = _leaf(column.type)
    if leaf != pa.binary():
        made = pa.Array.from_buffers(leaf, len(made), made.buffers())
    return _wrapped(made, len(block), column.type)


def _bytes_of(value: str | bytes | NDArray[np.uint8]) -> bytes:
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    return value if isinstance(value, bytes) else value.tobytes()


def _lists(column: ArrayColumn, block: Block) -> pa.Array:
    """Return arrays of one axis and several lengths as lists."""
    flat = block.reshape(-1).tolist()
    leaf = _leaf(column.type)
    ends = np.zeros(len(flat) + 1, np.int64)
    np.cumsum([len(one) for one in flat], out=ends[1:])
    joined = np.concatenate(flat) if flat else np.zeros(0)
    items = _plain(joined.astype(leaf.value_type.to_pandas_dtype(), casting="safe", copy=False))
    child = bool_array(items) if items.dtype.kind == "b" else None
    if child is None:
        child = pa.Array.from_buffers(leaf.value_type, len(items), [None, pa.py_buffer(items)])
    offsets = pa.py_buffer(ends.astype(np.int32))
    made = pa.Array.from_buffers(leaf, len(flat), [None, offsets], children=[child])
    return _wrapped(made, len(block), column.type)


def _others(column: ArrayColumn, block: Block) -> pa.Array:
    """Return dates, times and bytes of one length."""
    flat = block.reshape(-1)
    leaf = _leaf(column.type)
    if flat.dtype.kind == "V":
        made = pa.Array.from_buffers(leaf, len(flat), [None, pa.py_buffer(flat.tobytes())])
        return _wrapped(made, len(block), column.type)
    unit = "D" if leaf == pa.date32() else leaf.unit
    there = ~np.isnat(flat)
    values = flat.astype(f"{flat.dtype.kind}8[{unit}]")
    numbers = _plain(values.view(np.int64))
    lost = there & (values.astype(flat.dtype) != flat)
    if leaf == pa.date32():
        lost |= there & (np.abs(numbers) > _MOST_DAY)
        numbers = np.where(there, numbers, 0).astype(np.int32)
    if lost.any():
        raise UnfitTypeError(f"{flat.dtype} {flat[lost][0].astype(np.int64)} is out of the range of {leaf}")
    validity = None if there.all() else bits_buffer(there)
    made = pa.Array.from_buffers(leaf, len(flat), [validity, pa.py_buffer(numbers)])
    return _wrapped(made, len(block), column.type)


_MAKERS: dict[str, Callable[[ArrayColumn, Block], pa.Array]] = {
    "lists": _lists,
    "numbers": _numbers,
    "others": _others,
    "picture": _pictures,
    "raw": _raw,
    "tensor": _tensors,
    "texts": _texts,
}
