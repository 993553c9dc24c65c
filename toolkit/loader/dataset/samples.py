"""Single samples as dicts: what ds[i] returns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from toolkit._native.shards.fetch import FetchBuffer
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
from toolkit.format.schema import KEY, Column
from toolkit.loader.dataset.decoded import DecodedColumn
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.dataset.located import Located
from toolkit.loader.dataset.referenced import References
from toolkit.pipelines.media import held_medium

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

_REFERENCE = ("root", "path", "offset", "length", "crc32c")

_Read = Callable[[str, Located], Any]


class Samples:
    """Reads whole samples of a split: the key and the given columns. Media come as their stored bytes, or as the array
    that is stored: raw images as uint8 (height, width, 3).

    Usual types are read natively; any other through Arrow.
    """

    def __init__(self, fetcher: Fetcher, schema: pa.Schema, columns: Sequence[Column]) -> None:
        self._fetcher = fetcher
        self._leaves: list[str] = []
        self._others: dict[str, _Read] = {}
        self._files: list[_File] = []
        self._reader = SampleReader(fetcher.locator)
        layouts, leaves = column_layouts(schema), leaf_layouts(schema)
        if fetcher.key is not None:
            layouts[fetcher.key] = layouts[KEY]
        self._add(KEY, KEY, layouts[KEY], self._value)
        for column in columns:
            name, dtype = column.name, schema.field(column.name).type
            held = held_medium(column.kind, dtype)
            if held is None:
                self._add(name, name, layouts[name], self._value)
            elif held.form.is_decoded:
                self._add(name, name, layouts[name], _ArrayReader(DecodedColumn(fetcher, name, held)))
            else:
                leaf = leaf_name(name, held.form.payload)
                if leaf in leaves:
                    self._add(name, leaf, leaves[leaf], self._value)
                else:  # it lies in another file
                    self._add(name, leaf, None, _PayloadReader(fetcher, leaf))
        # Behind the others: what is read of references is taken out of the sample again.
        for name, payload in list(self._others.items()):
            if isinstance(payload, _PayloadReader) and fetcher.references is not None:
                fields = tuple(leaf_name(name, field) for field in _REFERENCE)
                for field in fields:
                    self._add(field, field, leaves[field], self._value, text=False)
                self._files.append(
                    _File(name, leaf_name(name, "bytes"), fields, self._others.pop(name), fetcher.references)
                )

    def _add(self, name: str, leaf: str, layout: Layout | None, read: _Read, *, text: bool = True) -> None:
        self._leaves.append(leaf)
        match layout:
            case VariableLayout(type=dtype, validity=validity, offsets=offsets, data=data, offset_width=width):
                code = TEXT if text and dtype in (pa.string(), pa.large_string()) else BINARY
                self._reader.add(name, code, validity, offsets, data, width)
            case FixedLayout(type=dtype, validity=validity, data=data, width=width) if dtype in _NUMBERS:
                self._reader.add(name, ord(_NUMBERS[dtype]), validity, 0, data, width)
            case BitLayout(validity=validity, data=data):
                self._reader.add(name, BOOL, validity, 0, data, 0)
            case _:
                self._reader.add(name, OTHER, np.empty(0, np.int32), 0, 0, 0)
                self._others[name] = read

    def read(self, row: int) -> dict[str, Any]:
        """Return row `row` of the split. Raises CorruptShardError."""
        while isinstance(sample := self._reader.read(row), tuple):
            column, status, chunk = sample
            self._fetcher.locate(np.array([row], np.int64))  # opens the shard anew when it was changed, or raises
            if column >= 0:
                raise self._fetcher.corrupt(row, self._leaves[column], status, chunk)
        for file in self._files:
            root, path, offset, length, sums = map(sample.pop, file.fields)
            if path is None and offset is None and length is None:
                continue
            value = None
            if path is not None and offset is not None and length is not None:
                value = file.references.value(self._fetcher, file.leaf, row, (root, path, offset, length, sums))
            if value is None:
                value = file.read(file.name, self._fetcher.locate(np.array([row], np.int64)))
            sample[file.name] = value
        if self._others:
            located = self._fetcher.locate(np.array([row], np.int64))
            for name, read in self._others.items():
                sample[name] = read(name, located)
        return sample

    def _value(self, column: str, located: Located) -> Any:
        return self._fetcher.values(column, located)[0]


@dataclass(frozen=True, slots=True)
class _File:
    """A column of references: its name, those of its leaves in samples, and what says why a value can't be read."""

    name: str
    leaf: str
    fields: tuple[str, ...]
    read: _Read
    references: References


class _PayloadReader:
    """Reads one payload out of the file that it lies in."""

    def __init__(self, fetcher: Fetcher, leaf: str) -> None:
        self._fetcher = fetcher
        self._leaf = leaf

    def __call__(self, column: str, located: Located) -> Any:
        return self._fetcher.bytes(self._leaf, located)[0]


class _ArrayReader:
    """Reads one array of a medium that is stored decoded, into memory of its own."""

    def __init__(self, column: DecodedColumn) -> None:
        self._column = column

    def __call__(self, column: str, located: Located) -> Any:
        payloads = self._column.payloads(located, FetchBuffer())
        array = next(self._column.arrays(located, payloads))
        return None if array is None else array.copy()
