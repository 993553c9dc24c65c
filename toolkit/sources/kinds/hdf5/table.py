"""A table of datasets that is read in another process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from toolkit.sources.arrays.table import ArrayTable
from toolkit.sources.kinds.hdf5.children import Children
from toolkit.sources.tables.table import Table

__all__ = ["Hdf5Table"]


class Hdf5Table(Table):
    """A table of arrays whose rows come from another process."""

    def __init__(self, table: ArrayTable, children: Children) -> None:
        self.file = table.file
        self.schema = table.schema
        self.pieces = table.pieces
        self.facts = table.facts
        self.rejects = table.rejects
        self._table = table
        self._children = children

    def read(self, fields: Sequence[str], first: int, count: int) -> Iterator[pa.RecordBatch]:
        """Have the arrays read side by side."""
        return self._children.read(self._table, fields, first, count)

    @property
    def shown(self) -> str:
        """The path, for messages, and the split if the file holds several."""
        return self._table.shown

    def fingerprint(self, first: int, count: int) -> str:
        """Return the state of the file, and which rows these are."""
        return self._table.fingerprint(first, count)

    def narrowed(self, fields: Sequence[str]) -> Hdf5Table:
        """Return the table of these fields alone: datasets that aren't read cost nothing."""
        return Hdf5Table(self._table.narrowed(fields), self._children)
