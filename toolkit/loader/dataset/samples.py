"""Single samples as dicts: what ds[i] returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from toolkit._native.shards.chunks import FetchBuffer
from toolkit._native.shards.samples import BINARY, BOOL, OTHER, TEXT, SampleReader
from toolkit.format.layout import (
    BitLayout,
    FixedLayout,
    Layout,
    VariableLayout,
    column_layouts,
    leaf_layouts,
    leaf_name,
)
from toolkit.format.schema import IMAGE_TYPE, KEY, Column, Kind
from toolkit.loader.dataset.fetch import Fetcher, Located
from toolkit.loader.dataset.raw_images import raw_images, raw_pixels

__all__ = ["Samples"]

# How the struct module calls the numbers that read back as Python's own.
_NUMBERS = {
    pa.int8(): "b",
    pa.uint8(): "B",
    pa.int16(): "h",
    pa.uint16(): "H",
    pa.int32(): "i",
    pa.uint32(): "I",
    pa.int64(): "q",
    pa.uint64(): "Q",
    pa.float32(): "f",
    pa.float64(): "d",
}


class Samples:
    """Reads whole samples of a split: the key and the given columns. Images come as their stored bytes, raw ones as
    uint8 (height, width, 3).

    Usual types are read natively; any other through Arrow.
    """

    def __init__(self, fetcher: Fetcher, schema: pa.Schema, columns: Sequence[Column]) -> None:
        self._fetcher = fetcher
        self._leaves: list[str] = []
        self._others: dict[str, Callable[[str, Located], Any]] = {}
        self._reader = SampleReader(fetcher.locator)
        layouts, leaves = column_layouts(schema), leaf_layouts(schema)
        images = {column.name for column in columns if column.kind is Kind.IMAGE}
        for name in (KEY, *(column.name for column in columns)):
            encoded = name in images and schema.field(name).type == IMAGE_TYPE
            leaf = leaf_name(name, "bytes") if encoded else name
            self._leaves.append(leaf)
            self._add(name, leaves[leaf] if leaf in leaves else layouts[name], name in images)

    def _add(self, name: str, layout: Layout, image: bool) -> None:
        match layout:
            case VariableLayout(type=dtype, validity=validity, offsets=offsets, data=data, offset_width=width):
                code = TEXT if dtype in (pa.string(), pa.large_string()) else BINARY
                self._reader.add(name, code, validity, offsets, data, width)
            case FixedLayout(type=dtype, validity=validity, data=data, width=width) if dtype in _NUMBERS:
                self._reader.add(name, ord(_NUMBERS[dtype]), validity, 0, data, width)
            case BitLayout(validity=validity, data=data):
                self._reader.add(name, BOOL, validity, 0, data, 0)
            case _:
                self._reader.add(name, OTHER, np.empty(0, np.int32), 0, 0, 0)
                self._others[name] = self._raw_image if image else self._value

    def read(self, row: int) -> dict[str, Any]:
        """Return row `row` of the split. Raises CorruptShardError."""
        while isinstance(sample := self._reader.read(row), tuple):
            column, status, chunk = sample
            self._fetcher.locate(np.array([row], np.int64))  # opens the shard anew when it was changed, or raises
            if column >= 0:
                raise self._fetcher.corrupt(row, self._leaves[column], status, chunk)
        if self._others:
            located = self._fetcher.locate(np.array([row], np.int64))
            for name, read in self._others.items():
                sample[name] = read(name, located)
        return sample

    def _value(self, column: str, located: Located) -> Any:
        return self._fetcher.values(column, located)[0]

    def _raw_image(self, column: str, located: Located) -> Any:
        pixels = raw_pixels(self._fetcher, column, located, FetchBuffer())
        image = next(raw_images(self._fetcher, column, located, pixels))
        return None if image is None else image.copy()
