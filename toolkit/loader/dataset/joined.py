"""Splits one after the other: rows of several in one row space, read through one fetcher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.shards.body import Body
from toolkit._native.shards.locate import FileIdentity
from toolkit.errors import CorruptShardError, StorageError
from toolkit.format.reader import Verify
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.dataset.located import Place
from toolkit.loader.dataset.opened import Opened
from toolkit.loader.dataset.referenced import References
from toolkit.loader.dataset.split_files import JoinedSplitFiles

__all__ = ["JoinedSplits", "starts"]


class JoinedSplits:
    """Splits with the same stored columns, as one Stored: the rows of each follow those of the one before."""

    def __init__(self, parts: Sequence[Opened]) -> None:
        self.parts = tuple(parts)
        self.rows = sum(part.rows for part in parts)
        self.schema: pa.Schema = parts[0].schema
        self.classes = parts[0].classes
        self.columns = parts[0].columns
        self.derived = parts[0].derived
        self.split = "+".join(dict.fromkeys(part.split for part in parts))
        self.fetcher: Fetcher = JoinedFetcher(self.parts)

    def verified(self, verify: Verify) -> JoinedSplits:
        """Return the same splits, all read with these checks."""
        return JoinedSplits([part.verified(verify) for part in self.parts])

    @property
    def key(self) -> str | None:
        """The name of the column that gives the key, or None."""
        return self.parts[0].key

    def renamed(self, renames: Mapping[str, str]) -> JoinedSplits:
        """Return the same splits, with columns called otherwise, whatever each of them stores them as."""
        return JoinedSplits([part.renamed(renames) for part in self.parts])

    def with_key(self, name: str) -> JoinedSplits:
        """Return the same splits, with a column that gives the keys."""
        return JoinedSplits([part.with_key(name) for part in self.parts])


class JoinedFetcher(Fetcher):
    """Checked reads of joined splits. Their record batches are laid out alike, so a part of a batch may mix them."""

    def __init__(self, parts: Sequence[Opened]) -> None:
        first = parts[0]
        self._starts = starts([part.rows for part in parts])
        files = [part.references.files for part in parts if part.references is not None]
        references = None
        if first.references is not None:
            references = References(first.references.columns, first.columns, JoinedSplitFiles(files, self._starts))
        super().__init__(
            first.version.store, first.index, first.schema, first.shape, key=first.key, references=references
        )
        self._fetchers = [part.fetcher for part in parts]
        self._first_batch = starts([part.index.batches for part in parts])
        self._first_table = starts([len(part.index) for part in parts])
        rows = [part.index.table_row[:-1] + first for part, first in zip(parts, self._starts, strict=True)]
        self._table_row = np.append(np.concatenate(rows), sum(part.rows for part in parts))

    @property
    def table_row(self) -> NDArray[np.int64]:
        """int64 (tables + 1,): first row of each shard table, and the number of rows, over all splits."""
        return self._table_row

    def open_table(self, number: int) -> tuple[NDArray[np.int64], int]:
        """Read shard table number `number` over all splits. Raises CorruptTableError."""
        owner = int(np.searchsorted(self._first_table, number, side="right")) - 1
        begins, first = self._fetchers[owner].open_table(number - int(self._first_table[owner]))
        return begins, first + int(self._first_batch[owner])

    def open_batch(self, batch: int) -> tuple[Body, FileIdentity]:
        """Open record batch number `batch` over all splits. Raises CorruptShardError."""
        owner = int(np.searchsorted(self._first_batch, batch, side="right")) - 1
        return self._fetchers[owner].open_batch(batch - int(self._first_batch[owner]))

    def want_batches(self, batches: Sequence[int]) -> None:
        """Begin to read the heads of record batches that are about to be opened, together."""
        for batch in batches:
            owner = int(np.searchsorted(self._first_batch, batch, side="right")) - 1
            self._fetchers[owner].want_batches([batch - int(self._first_batch[owner])])

    def place(self, row: int) -> Place:
        """Return where a row is stored: its own dataset, and the row of its own split."""
        owner, own = self._own(row)
        return owner.place(own)

    def corrupt(self, row: int, leaf: str, status: int, chunk: int) -> CorruptShardError | StorageError:
        """Return the error that says why a value can't be trusted, with the row of its own split."""
        owner, own = self._own(row)
        return owner.corrupt(own, leaf, status, chunk)

    def _own(self, row: int) -> tuple[Fetcher, int]:
        owner = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._fetchers[owner], row - int(self._starts[owner])


def starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    """Return int64 (n,): where each of n parts begins that lie one after the other."""
    ends = np.cumsum(np.array(sizes, np.int64))
    return ends - np.array(sizes, np.int64)
