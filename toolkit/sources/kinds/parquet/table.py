"""A Parquet file as a table: its row groups are the pieces, and the folders k=v that it lies in are fields."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from toolkit.format.arrays import to_array
from toolkit.format.kinds import Kind
from toolkit.format.schema import is_list_of_ids
from toolkit.pipelines.media import media
from toolkit.sources.kinds.parquet.files import (
    Footer,
    batch_rows,
    open_parquet,
    partition_types,
    read_group,
    share_of,
    stored,
)
from toolkit.sources.options import SourceOptions
from toolkit.sources.state import FileState, check_unchanged
from toolkit.sources.tables.plan import LABEL_FIELD
from toolkit.sources.tables.table import Table, TableFacts
from toolkit.storage.files import storage_errors

__all__ = ["ParquetTable", "is_pandas_index", "make_tables"]

_LIST_FEATURES = ("List", "LargeList", "Sequence")  # of Hugging Face; its older files have the last
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


class ParquetTable(Table):
    """A file, by its footer. What is kept of it is its size, times and inode: one that was changed since is refused."""

    def __init__(
        self,
        footer: Footer,
        fields: pa.Schema,
        partitions: Mapping[str, pa.DataType],
        facts: TableFacts,
        share: float = 1.0,
    ) -> None:
        """Take what stands in the footer.

        Args:
            footer: Of the file.
            fields: Those of its columns that are fields.
            partitions: Type of each field that folder names give.
            facts: What is known of the fields.
            share: How much of the file's bytes is read.
        """
        self.file = footer.file
        self.facts = facts
        self.schema = pa.schema([*fields, *(pa.field(name, dtype) for name, dtype in partitions.items())])
        self.pieces = tuple((rows, math.ceil(size * share)) for rows, size in footer.groups)
        self._footer = footer
        self._fields = fields
        self._constants = {
            name: pa.scalar(int(value) if value is not None and pa.types.is_integer(dtype) else value, dtype)
            for name, dtype in partitions.items()
            for value in [footer.partitions[name]]
        }

    @property
    def footer(self) -> Footer:
        """What the file says about itself."""
        return self._footer

    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Read row groups."""
        stored_fields = [name for name in fields if name not in self._constants]
        sizes = batch_rows(self._footer, stored_fields)
        with open_parquet(self.file.path, len(stored_fields)) as file:
            self.check_unchanged()
            for group in range(first, first + count):
                for batch in read_group(file, self.file, group, stored_fields, sizes[group]):
                    yield self._with_constants(self._with_ids(batch), fields)

    def different(self, field: str) -> Iterator[pa.Array]:
        """Yield the values of a field; of a folder's name, the one that there is."""
        if field in self._constants:
            yield to_array([self._constants[field].as_py()], self._constants[field].type)
        else:
            yield from super().different(field)

    def fingerprint(self, first: int, count: int) -> str:
        """Return the file's state."""
        return repr(self._footer.state)

    def check_unchanged(self) -> None:
        """Compare the file's state."""
        with storage_errors("read", self.file.path):
            now = FileState.of(os.stat(self.file.path))
        check_unchanged(self.file.path, self._footer.state, now)

    def narrowed_as(self, first: Footer, fields: Sequence[str]) -> ParquetTable:
        """Return the table for reading these fields, which take as much of it as they take of the file `first`."""
        share = share_of(first, [name for name in fields if name not in self._constants])
        types = {name: value.type for name, value in self._constants.items()}
        return ParquetTable(self._footer, self._fields, types, self.facts, share)

    def _with_ids(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with lists of ids of classes as their columns have them."""
        for number, name in enumerate(batch.schema.names):
            if name in self.facts.classes and is_list_of_ids(dtype := self._fields.field(name).type):
                # Not safe: an id beyond int64 becomes one that no class has.
                batch = batch.set_column(number, pa.field(name, dtype), batch.column(number).cast(dtype, safe=False))
        return batch

    def _with_constants(self, batch: pa.RecordBatch, fields: Sequence[str]) -> pa.RecordBatch:
        if not self._constants:
            return batch
        arrays = [
            pa.repeat(self._constants[name], batch.num_rows) if name in self._constants else batch.column(name)
            for name in fields
        ]
        return pa.RecordBatch.from_arrays(arrays, names=list(fields))


def is_pandas_index(name: str, options: SourceOptions) -> bool:
    """Tell whether a field holds an index of pandas and no option asks for it: such are left out."""
    asked = {options.key, *(options.map or {}).values(), *(options.columns or ()), *options.rename}
    return _PANDAS_INDEX.fullmatch(name) is not None and name not in asked


def make_tables(first: Footer, footers: Sequence[Footer], options: SourceOptions) -> list[ParquetTable]:
    """Return the tables of all files. `first` is the file whose metadata count.

    Raises:
        SourceError: A column's type can't be stored.
    """
    partitions = {name: t for name, t in partition_types(footers).items() if name not in first.schema.names}
    facts = _facts(first, options)
    tables = []
    for footer in footers:
        # The columns of a file without rows don't matter.
        names = footer.schema.names if footer.rows or footer is first else ()
        fields = [
            pa.field(name, _type_of(footer, name, is_ids=name in facts.classes))
            for name in names
            if not is_pandas_index(name, options)
        ]
        classes = {name: said for name in facts.classes if (said := _class_names(footer, name)) is not None}
        tables.append(ParquetTable(footer, pa.schema(fields), partitions, replace(facts, classes=classes)))
    return tables


def _facts(footer: Footer, options: SourceOptions) -> TableFacts:
    """Return what Hugging Face's metadata tell of the fields."""
    kinds: dict[str, Kind] = {}
    classes: dict[str, tuple[str, ...]] = {}
    for name in footer.schema.names:
        dtype = stored(footer, name)
        feature = footer.features.get(name, {}).get("_type")
        told = [medium.stored.kind for medium in media() if feature == medium.stored.source_form.feature]
        names = _class_names(footer, name)
        if names is not None:
            classes[name] = names
        elif feature is not None and pa.types.is_struct(dtype):
            kinds[name] = told[0] if told else Kind.VALUE
        elif feature is not None and told and dtype in (pa.binary(), pa.large_binary()):
            kinds[name] = told[0]
        elif name == LABEL_FIELD and options.image_column is None and dtype in (pa.string(), pa.large_string()):
            kinds[name] = Kind.TEXT  # Parquet files have texts of any length under that name
    return TableFacts(kinds=kinds, classes=classes)


def _class_names(footer: Footer, field: str) -> tuple[str, ...] | None:
    """Return the class names of a ClassLabel feature in the file's metadata, or of a list of such."""
    if field not in footer.schema.names:
        return None
    feature: object = footer.features.get(field, {})
    dtype = stored(footer, field)
    if _is_list(dtype) and isinstance(feature, Mapping) and feature.get("_type") in _LIST_FEATURES:
        feature, dtype = feature.get("feature"), dtype.value_type
    if not isinstance(feature, Mapping) or feature.get("_type") != "ClassLabel" or not pa.types.is_integer(dtype):
        return None
    names = feature.get("names")
    return tuple(map(str, names)) if isinstance(names, list) and names else None


def _type_of(footer: Footer, field: str, *, is_ids: bool) -> pa.DataType:
    """Return the type of a field: of lists of ids of classes, the one that can have a label table."""
    dtype = stored(footer, field)
    if not is_ids or not _is_list(dtype) or not pa.types.is_integer(dtype.value_type):
        return dtype
    return pa.large_list(pa.int64()) if pa.types.is_large_list(dtype) else pa.list_(pa.int64())


def _is_list(dtype: pa.DataType) -> bool:
    return any(is_of(dtype) for is_of in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))
