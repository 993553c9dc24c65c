"""Values of features from parsed examples, as tensorflow-datasets decodes them, and columns of them."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.format.arrays import bool_array, to_array
from toolkit.format.kinds import Kind
from toolkit.sources.contents import UnfitError, text_of
from toolkit.sources.kinds.tfds.features import Axes, Content, Feature
from toolkit.sources.npy import npy_head
from toolkit.sources.tfrecords.example import values_of

__all__ = ["column", "kind_of", "take", "type_of"]

_BYTES = (Content.STRINGS, Content.TEXT, Content.IMAGE)


def type_of(feature: Feature) -> pa.DataType:
    """Return the Arrow type of a feature's column."""
    if feature.content in _BYTES:
        dtype = pa.string() if feature.content is Content.TEXT else pa.binary()
        for _ in range(feature.ragged + len(feature.axes)):
            dtype = pa.list_(dtype)
        return dtype
    if _is_tensor(feature):
        return pa.binary()
    dtype = pa.from_numpy_dtype(np.dtype(feature.dtype))
    for axis in reversed(feature.axes):
        dtype = pa.list_(dtype) if axis is None else pa.list_(dtype, axis)
    for _ in range(feature.ragged):
        dtype = pa.list_(dtype)
    return dtype


def kind_of(feature: Feature) -> Kind | None:
    """Return the kind of a feature's column where its type doesn't tell it."""
    if _is_tensor(feature):
        return Kind.TENSOR
    if feature.axes or feature.ragged:
        return Kind.VALUE
    if feature.class_count:
        return Kind.LABEL
    return {Content.IMAGE: Kind.IMAGE, Content.TEXT: Kind.TEXT}.get(feature.content)


def take(feature: Feature, example: Mapping[str, Any], most: int) -> Any:
    """Return the value of a feature: what column() makes columns of.

    Args:
        feature: The feature.
        example: The features of an example by name.
        most: Bytes of a value at the most, decompressed.

    Raises:
        UnfitError: It isn't there, or isn't what features.json says.
    """
    if feature.content is Content.ENCODED:
        return _decoded(feature, example, most)
    if feature.ragged:
        return _ragged(feature, example)
    values = _found(feature, example, feature.name, feature.axes)
    shape = _shape(feature.axes, len(values))
    if feature.content in _BYTES:
        return _nested(values, shape)
    numbers = _numbers(feature, values)
    if _is_tensor(feature):
        return npy_head(numbers.dtype, shape) + numbers.tobytes()
    return numbers if feature.axes else numbers[0]


def column(feature: Feature, values: Sequence[Any]) -> pa.Array:
    """Return the column of values; where there is None, a row of it means nothing."""
    if feature.content in _BYTES or feature.ragged or _is_tensor(feature):
        return to_array(values, type_of(feature))
    dtype = np.dtype(feature.dtype)
    if not feature.axes:
        return _flat(np.array([dtype.type(0) if value is None else value for value in values], dtype))
    nothing = np.zeros(math.prod(axis or 0 for axis in feature.axes), dtype)
    arrays = [nothing if value is None else value for value in values]
    made = _flat(np.concatenate([nothing[:0], *arrays]))
    for axis in reversed(feature.axes[1:]):
        made = pa.FixedSizeListArray.from_arrays(made, axis)
    if feature.axes[0] is not None:
        return pa.FixedSizeListArray.from_arrays(made, feature.axes[0])
    of_item = math.prod(axis or 0 for axis in feature.axes[1:])
    ends = np.zeros(len(arrays) + 1, np.int32)
    np.cumsum([len(array) // max(1, of_item) for array in arrays], out=ends[1:])
    return pa.ListArray.from_arrays(_flat(ends), made)


def _is_tensor(feature: Feature) -> bool:
    if feature.content is Content.ENCODED:
        return True
    of_numbers = feature.content is Content.NUMBERS and not feature.as_lists and not feature.ragged
    return of_numbers and len(feature.axes) > 1


def _found(feature: Feature, example: Mapping[str, Any], name: str, axes: Axes) -> Sequence[Any]:
    """Return the values that an example has under a name, which are of the type that the feature's are."""
    held = example.get(name)
    values = None if held is None else values_of(held)
    if held is None or values is None:
        if axes[:1] == (None,):
            return ()  # an empty list needn't be written
        raise UnfitError(f"the example has no {name!r}")
    kind = held.WhichOneof("kind")
    is_bytes = feature.content is not Content.NUMBERS
    wanted = "bytes_list" if is_bytes else "float_list" if feature.dtype.startswith("float") else "int64_list"
    if kind != wanted and len(values):
        raise UnfitError(f"its values are {kind.removesuffix('_list')}, and not {wanted.removesuffix('_list')}")
    if feature.content is Content.TEXT:
        return [text_of(value) for value in values]
    return values  # type: ignore[no-any-return]


def _shape(axes: Axes, count: int) -> tuple[int, ...]:
    """Return the shape of so many values. Raises UnfitError: they don't fill one."""
    known = math.prod(axis for axis in axes if axis is not None)
    free = count // known if known and None in axes else 0
    shape = tuple(free if axis is None else axis for axis in axes)
    if math.prod(shape) != count:
        told = ", ".join("any" if axis is None else str(axis) for axis in axes)
        raise UnfitError(f"{count} values for the shape ({told})")
    return shape


def _numbers(feature: Feature, values: Sequence[Any]) -> NDArray[Any]:
    dtype = np.dtype(feature.dtype)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(values, np.float32).astype(dtype)
    whole = np.array(values, np.int64)
    if dtype == np.uint64:  # kept as the bits that they are
        return whole.view(np.uint64)
    if dtype != np.bool_ and whole.size:
        limits = np.iinfo(dtype)
        least, largest = int(whole.min()), int(whole.max())
        if least < limits.min or largest > limits.max:
            raise UnfitError(f"{least if least < limits.min else largest} is no {dtype.name}")
    return whole.astype(dtype)


def _nested(values: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return a value, or lists of values in each other."""
    if not shape:
        return values[0]
    made = list(values)
    for depth in reversed(range(1, len(shape))):
        side = shape[depth]
        made = [made[i * side : (i + 1) * side] for i in range(math.prod(shape[:depth]))]
    return made


def _ragged(feature: Feature, example: Mapping[str, Any]) -> Any:
    """Return lists of lists from the values of all of them and the lengths of each."""
    values = _found(feature, example, f"{feature.name}/ragged_flat_values", (None,))
    shape = _shape((None, *feature.axes), len(values))
    made = list(values) if feature.content in _BYTES else _numbers(feature, values).reshape(shape).tolist()
    for level in reversed(range(feature.ragged - 1)):
        name = f"{feature.name}/ragged_row_lengths_{level}"
        held = example.get(name)
        lengths = () if held is None else values_of(held) or ()
        if any(not isinstance(length, int) or length < 0 for length in lengths) or sum(lengths) != len(made):
            raise UnfitError(f"the lengths in {name!r} don't come to {len(made)}")
        items, at = [], 0
        for length in lengths:
            items.append(made[at : at + length])
            at += length
        made = items
    return made


def _decoded(feature: Feature, example: Mapping[str, Any], most: int) -> bytes:
    """Return the NumPy file of numbers that are kept as bytes."""
    dtype = np.dtype(feature.dtype).newbyteorder("<")
    axes = feature.axes
    name = feature.name
    if feature.has_own_shape:
        sides = example.get(f"{name}/shape")
        told = () if sides is None else tuple(values_of(sides) or ())
        if len(told) != len(axes) or any(not isinstance(side, int) or side < 0 for side in told):
            raise UnfitError(f"the example says the shape {told}, and it has {len(axes)} axes")
        axes, name = tuple(told), f"{name}/value"
    values = _found(feature, example, name, ())
    if len(values) != 1:
        raise UnfitError(f"{len(values)} values, and not one")
    data = _inflated(values[0], most) if feature.is_zlib else values[0]
    if len(data) % dtype.itemsize:
        raise UnfitError(f"{len(data)} bytes are no numbers of {dtype.name}")
    return b"".join((npy_head(dtype, _shape(axes, len(data) // dtype.itemsize)), data))


def _inflated(data: bytes, most: int) -> bytes:
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(data, most + 1)
    except zlib.error as error:
        raise UnfitError(f"the compressed values are damaged ({error})") from error
    if len(found) > most:
        raise UnfitError(f"compressed values of more than {most} bytes; --max-value-bytes says how many there may be")
    if not stream.eof:
        raise UnfitError("the compressed values are cut short")
    return found


def _flat(array: NDArray[Any]) -> pa.Array:
    if array.dtype == np.bool_:
        return bool_array(array)
    dtype = pa.from_numpy_dtype(array.dtype)
    return pa.Array.from_buffers(dtype, len(array), [None, pa.py_buffer(np.ascontiguousarray(array))])
