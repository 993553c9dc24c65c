"""HDF5 files as a source of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from toolkit.errors import SourceError
from toolkit.sources.arrays.groups import ArrayGroup, tables_of
from toolkit.sources.arrays.naming import by_split
from toolkit.sources.files import ends_with, find_files
from toolkit.sources.kinds.hdf5.children import Children
from toolkit.sources.kinds.hdf5.dataset import Hdf5Words
from toolkit.sources.kinds.hdf5.looks import SUFFIXES, looks_like_hdf5
from toolkit.sources.kinds.hdf5.opened import h5py_module
from toolkit.sources.kinds.hdf5.table import Hdf5Table
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table

__all__ = ["Hdf5Source"]


class Hdf5Source(TableSource):
    """Datasets of HDF5 files: a row for each first index."""

    kind: ClassVar[str] = "hdf5"
    reasons: ClassVar[tuple[str, ...]] = (*FILE_REASONS, "attributes", "links", "scalars")

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Find the datasets; no values are read."""
        h5py_module()
        groups = []
        children = Children()
        for file in find_files(self.options, ends_with(SUFFIXES), looks_like_hdf5, skips):
            where = repr(printable(file.path))
            if not is_utf8(file.name):
                raise SourceError(f"the file name {where} is not valid UTF-8, which keys are made of: rename it")
            arrays, names = children.arrays_in(file.path, self.options, skips)
            if not arrays:
                raise SourceError(f"{where} holds none of the arrays to pack: no dataset, or none of those asked for")
            groups.append(ArrayGroup(where, {file.path: file}, by_split(arrays, names, self.options, where, skips)))
        made = tables_of(groups, self.options, Hdf5Words())
        return {split: [Hdf5Table(table, children) for table in tables] for split, tables in made.items()}
