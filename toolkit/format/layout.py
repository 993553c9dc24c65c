"""Where each value of a schema lies among the buffers of a record batch.

Arrow writes buffers depth first: validity, then offsets, then data, children behind their parent
(https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.format.schema import Column, Kind, stored_order

__all__ = [
    "BatchShape",
    "BitLayout",
    "FixedLayout",
    "Layout",
    "ListLayout",
    "NullLayout",
    "StructLayout",
    "VariableLayout",
    "batch_shape",
    "column_layouts",
    "leaf_layouts",
    "leaf_name",
    "takes_bytes",
]

_FIXED = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_fixed_size_binary),
    *(pa.types.is_date, pa.types.is_time, pa.types.is_timestamp, pa.types.is_duration),
)
_DIGITS = {4: 9, 8: 18, 16: 38, 32: 76}  # the most that a decimal of so many bytes has
_DEEPEST = 64  # types in types: what Arrow's own readers and writers allow


@dataclass(frozen=True, slots=True)
class _Node:
    """`validity`: buffer numbers of the validity bitmaps that decide whether a value is there, outermost first."""

    type: pa.DataType
    validity: NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class FixedLayout(_Node):
    """Values of `width` bytes in buffer `data`."""

    data: int
    width: int


@dataclass(frozen=True, slots=True)
class BitLayout(_Node):
    """Booleans: one bit each in buffer `data`."""

    data: int


@dataclass(frozen=True, slots=True)
class VariableLayout(_Node):
    """Bytes or text in buffer `data`; offsets of `offset_width` (4 or 8) bytes in buffer `offsets`."""

    offsets: int
    data: int
    offset_width: int


@dataclass(frozen=True, slots=True)
class ListLayout(_Node):
    """Lists over `child`: by offsets as VariableLayout, or of `size` values each (then `offsets` is None)."""

    child: Layout
    offsets: int | None
    offset_width: int
    size: int


@dataclass(frozen=True, slots=True)
class StructLayout(_Node):
    """A struct of named children."""

    children: dict[str, Layout]


@dataclass(frozen=True, slots=True)
class NullLayout(_Node):
    """A column of Arrow's null type: it has no buffers at all."""


Layout = FixedLayout | BitLayout | VariableLayout | ListLayout | StructLayout | NullLayout


@dataclass(frozen=True, slots=True)
class BatchShape:
    """What the message of every record batch of a schema says.

    Attributes:
        buffers: How many buffers there are.
        empty: Numbers of those that have no bytes: validity of columns, and of items in them, that are never null.
        head: Number of the first buffer behind the head: the first data of large columns; None without any.
        tokens: Number of the buffer that holds the ids of the tokens column; None without one.
        token_bytes: Bytes of an id.
    """

    buffers: int
    empty: NDArray[np.int32]
    head: int | None
    tokens: int | None = None
    token_bytes: int = 1

    def head_bytes(self, buffers: NDArray[np.int64], body_bytes: int) -> int:
        """Return where the head of a body ends, from int64 (n, 2): start and length of each buffer."""
        return body_bytes if self.head is None else int(buffers[self.head, 0])

    def token_count(self, buffers: NDArray[np.int64]) -> int:
        """Return how many tokens a body with those buffers has."""
        return 0 if self.tokens is None else int(buffers[self.tokens, 1]) // self.token_bytes


def batch_shape(schema: pa.Schema, columns: Sequence[Column]) -> BatchShape:
    """Return the shape of the record batches of those columns. Raises TypeError as column_layouts()."""
    counter = iter(range(1 << 30))
    kinds = {column.name: column.kind for column in columns}
    large = stored_order(columns, {name: schema.field(name).type for name in kinds})[2]
    empty: list[int] = []
    head = tokens = None
    token_bytes = 1
    for field in schema:
        layout = _layout(field.type, counter, ())
        if head is None and field.name in large:
            head = _first_data(layout)
        if kinds.get(field.name) is Kind.TOKENS and isinstance(layout, ListLayout):
            ids = layout.child
            if isinstance(ids, FixedLayout):
                tokens, token_bytes = ids.data, ids.width
        while not field.nullable and len(layout.validity):
            empty.append(int(layout.validity[-1]))
            if not isinstance(layout, ListLayout):
                break
            field, layout = field.type.value_field, layout.child
    return BatchShape(next(counter), np.array(empty, np.int32), head, tokens, token_bytes)


def _first_data(layout: Layout) -> int | None:
    """Return the number of the first buffer that is neither validity nor offsets; None without one."""
    if isinstance(layout, StructLayout):
        found = (_first_data(child) for child in layout.children.values())
        return next((number for number in found if number is not None), None)
    if isinstance(layout, ListLayout):
        return _first_data(layout.child)
    return None if isinstance(layout, NullLayout) else layout.data


def takes_bytes(dtype: pa.DataType) -> bool:
    """Tell whether each value takes some of the body: of one that doesn't there can be any number in no space."""
    if pa.types.is_struct(dtype):
        return any(takes_bytes(child.type) for child in dtype)
    if pa.types.is_fixed_size_list(dtype):
        return dtype.list_size > 0 and takes_bytes(dtype.value_type)
    if pa.types.is_fixed_size_binary(dtype):
        return bool(dtype.byte_width)
    return not pa.types.is_null(dtype)


def column_layouts(schema: pa.Schema) -> dict[str, Layout]:
    """Return the layout of every column. Raises TypeError for a type that format 1 has no layout for."""
    counter = iter(range(1 << 30))
    return {field.name: _layout(field.type, counter, ()) for field in schema}


def leaf_layouts(schema: pa.Schema) -> dict[str, FixedLayout | VariableLayout]:
    """Return the layouts that kernels fetch from, by leaf_name(): of columns, and of children of structs."""
    leaves: dict[str, FixedLayout | VariableLayout] = {}
    for name, layout in column_layouts(schema).items():
        leaves.update(_leaves(name, layout))
    return leaves


def leaf_name(*path: str) -> str:
    """Return the name of a leaf: its column, then the children of structs. "a.b" could be a column of its own."""
    return "\0".join(path)


def _leaves(name: str, layout: Layout) -> Iterator[tuple[str, FixedLayout | VariableLayout]]:
    if isinstance(layout, StructLayout):
        for child_name, child in layout.children.items():
            yield from _leaves(leaf_name(name, child_name), child)
    elif isinstance(layout, (FixedLayout, VariableLayout)):
        yield name, layout


def _layout(dtype: pa.DataType, counter: Iterator[int], outer: tuple[int, ...], depth: int = 1) -> Layout:
    if depth > _DEEPEST:
        raise TypeError(f"format 1 has no layout for types in types, more than {_DEEPEST} deep")
    if pa.types.is_null(dtype):
        return NullLayout(dtype, np.array(outer, np.int32))
    bitmaps = (*outer, next(counter))
    validity = np.array(bitmaps, np.int32)
    if pa.types.is_struct(dtype):
        children = {child.name: _layout(child.type, counter, bitmaps, depth + 1) for child in dtype}
        if len(children) < dtype.num_fields:
            raise TypeError(f"format 1 has no layout for {dtype}: two fields have one name")
        return StructLayout(dtype, validity, children)
    if pa.types.is_fixed_size_list(dtype):
        return ListLayout(dtype, validity, _layout(dtype.value_type, counter, (), depth + 1), None, 0, dtype.list_size)
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        width = 4 if pa.types.is_list(dtype) else 8
        offsets = next(counter)
        return ListLayout(dtype, validity, _layout(dtype.value_type, counter, (), depth + 1), offsets, width, 0)
    if dtype in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
        width = 4 if dtype in (pa.binary(), pa.string()) else 8
        return VariableLayout(dtype, validity, next(counter), next(counter), width)
    if pa.types.is_boolean(dtype):
        return BitLayout(dtype, validity, next(counter))
    if pa.types.is_decimal(dtype) and abs(dtype.scale) > _DIGITS[dtype.byte_width]:
        raise TypeError(f"format 1 has no layout for {dtype}: its scale is beyond any of its numbers")
    if any(is_of_kind(dtype) for is_of_kind in _FIXED) or dtype == pa.month_day_nano_interval():
        return FixedLayout(dtype, validity, next(counter), dtype.bit_width // 8)
    raise TypeError(f"format 1 has no layout for Arrow type {dtype}")
