"""Steps that make arrays of what is stored: array and npy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.arrays import array_from_bytes, array_from_list, read_npy
from toolkit.pipelines.check import BadArgumentError, a_shape
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import Shape, State, ValueKind
from toolkit.pipelines.value_step import EachValue, check_stored

__all__ = ["Array", "Npy"]


def _one_open(name: str, value: object) -> Shape:
    sizes = a_shape(name, value)
    if sizes.count(None) > 1:
        raise BadArgumentError(f"only one size of an array can be None, got {short(value, 80, quoted=True)}")
    return sizes


@register
class Array(EachValue):
    """Read raw bytes (little-endian, C order) or a list of numbers as an array.

    Args:
        dtype: Of the bytes, or what the list's numbers become.
        shape: Of each sample. One size may be None, and then samples come as a list of arrays.
    """

    word = "array"
    takes_bytes = True
    dtype: str = fields.dtype()
    shape: Shape = fields.argument(_one_open, "tuple[int | None, ...]")

    def after(self, state: State) -> State:
        """Make a tensor of stored bytes or lists."""
        images = (ValueKind.IMAGE, ValueKind.RAW_IMAGE)
        fix = "put .decode_image() there" if state.kind in images else "single numbers are read by .scalar(dtype)"
        check_stored(state, "a column of lists or raw bytes", fix, ValueKind.BYTES, ValueKind.LIST)
        return State(ValueKind.TENSOR, self.dtype, self.shape)

    def convert(self, value: Any) -> NDArray[Any]:
        """Read one value."""
        if isinstance(value, bytes):
            return array_from_bytes(value, np.dtype(self.dtype), self.shape)
        return array_from_list(value, np.dtype(self.dtype), self.shape)


@register
class Npy(EachValue):
    """Read a NumPy file (.npy); with dtype and shape given, which are checked, a batch is one array.

    Args:
        dtype: The file's; None: as the file says.
        shape: The file's, None for a size that may be any; None: as the file says.
    """

    word = "npy"
    takes_bytes = True
    dtype: str | None = fields.dtype(None, optional=True)
    shape: Shape | None = fields.shape(None, optional=True)

    def after(self, state: State) -> State:
        """Make a tensor of stored bytes."""
        fix = "lists and raw bytes are read by .array(dtype, shape)"
        check_stored(state, "bytes of a NumPy file", fix, ValueKind.BYTES)
        return State(ValueKind.TENSOR, self.dtype, self.shape)

    def convert(self, value: bytes) -> NDArray[Any]:
        """Read one file."""
        return read_npy(value, None if self.dtype is None else np.dtype(self.dtype), self.shape)
