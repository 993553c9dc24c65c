"""Where each value of a schema lies among the buffers of a record batch.

Arrow writes buffers depth first: validity, then offsets, then data, children behind their parent
(https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["FixedLayout", "VariableLayout", "buffer_count", "leaf_layouts"]


@dataclass(frozen=True, slots=True)
class FixedLayout:
    """A fixed-width leaf: buffer numbers of its validity bitmaps (outermost first) and of its data."""

    validity: NDArray[np.int32]
    data: int
    width: int
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class VariableLayout:
    """A leaf of bytes or text: buffer numbers of validity, offsets and data; offsets are 4 or 8 bytes wide."""

    validity: NDArray[np.int32]
    offsets: int
    data: int
    offset_width: int
    type: pa.DataType


def leaf_layouts(schema: pa.Schema) -> dict[str, FixedLayout | VariableLayout]:
    """Return the layout of every leaf by dotted name: "label", "image.bytes", "image.path"."""
    counter = iter(range(1 << 30))
    leaves: dict[str, FixedLayout | VariableLayout] = {}
    for field in schema:
        leaves.update(_walk(field.name, field.type, counter, ()))
    return leaves


def buffer_count(schema: pa.Schema) -> int:
    """Return how many buffers a record batch of this schema has."""
    return 1 + max(leaf.data for leaf in leaf_layouts(schema).values())


def _walk(
    name: str, dtype: pa.DataType, counter: Iterator[int], outer: tuple[int, ...]
) -> Iterator[tuple[str, FixedLayout | VariableLayout]]:
    validity = (*outer, next(counter))
    if pa.types.is_struct(dtype):
        for child in dtype:
            yield from _walk(f"{name}.{child.name}", child.type, counter, validity)
        return
    bitmaps = np.array(validity, np.int32)
    if dtype in (pa.binary(), pa.string()):
        yield name, VariableLayout(bitmaps, next(counter), next(counter), 4, dtype)
    elif dtype in (pa.large_binary(), pa.large_string()):
        yield name, VariableLayout(bitmaps, next(counter), next(counter), 8, dtype)
    elif pa.types.is_fixed_size_binary(dtype) or (pa.types.is_primitive(dtype) and dtype.bit_width % 8 == 0):
        yield name, FixedLayout(bitmaps, next(counter), dtype.bit_width // 8, dtype)
    else:
        raise TypeError(f"format 1 has no layout for Arrow type {dtype}")
