"""Datasets one after the other: rows of several splits in one row space, read through one fetcher."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.chunks import Body
from toolkit._native.locate import FileIdentity
from toolkit.errors import CorruptShardError, UsageError
from toolkit.format.reader import Verify
from toolkit.format.tables import parse_shard_tables
from toolkit.loader.dataset import Dataset
from toolkit.loader.fetch import Fetcher, Place
from toolkit.loader.opened import Opened
from toolkit.loader.selection import Joined
from toolkit.loader.views import view_hash

__all__ = ["JoinedSplits", "concat"]


def concat(datasets: Sequence[Dataset]) -> Dataset:
    """Return the samples of several datasets, or views, one after the other; of any manifests, with equal columns.

    Raises:
        UsageError: There is none, or their columns, types or class names differ; the message says in what.
    """
    parts = list(datasets)
    if not parts or not all(isinstance(part, Dataset) for part in parts):
        raise UsageError("concat takes a list of datasets: toolkit.concat([a, b])")
    for part in parts[1:]:
        _check_alike(parts[0], part)
    all_stored = [part.stored for part in parts]
    sizes, rows = [len(part) for part in parts], [stored.rows for stored in all_stored]
    selection = Joined(sum(sizes), tuple(part.selection for part in parts), _starts(sizes), _starts(rows))
    joined = JoinedSplits([opened for stored in all_stored for opened in stored.parts])
    return Dataset(joined, parts[0].columns, selection, view_hash("concat", *(part.view for part in parts)))


class JoinedSplits:
    """Splits with the same stored columns, as one Stored: the rows of each follow those of the one before."""

    def __init__(self, parts: Sequence[Opened]) -> None:
        self.parts = tuple(parts)
        self.rows = sum(part.rows for part in parts)
        self.schema: pa.Schema = parts[0].schema
        self.classes = parts[0].classes
        self.split = "+".join(dict.fromkeys(part.split for part in parts))
        self.fetcher: Fetcher = JoinedFetcher(self.parts)

    def verified(self, verify: Verify) -> JoinedSplits:
        """Return the same splits, all read with these checks."""
        return JoinedSplits([part.verified(verify) for part in self.parts])


class JoinedFetcher(Fetcher):
    """Checked reads of joined splits. Their record batches are laid out alike, so a part of a batch may mix them."""

    def __init__(self, parts: Sequence[Opened]) -> None:
        super().__init__("", parse_shard_tables([]), parts[0].schema)
        self._fetchers = [part.fetcher for part in parts]
        self._starts = _starts([part.rows for part in parts])
        batches = [fetcher.batch_start for fetcher in self._fetchers]
        shifted = [starts[:-1] + first for starts, first in zip(batches, self._starts, strict=True)]
        self._batch_start = np.append(np.concatenate(shifted), sum(part.rows for part in parts))
        self._first_batch = _starts([len(starts) - 1 for starts in batches])

    @property
    def batch_start(self) -> NDArray[np.int64]:
        """int64 (batches + 1,): first row of each record batch, and the number of rows, over all splits."""
        return self._batch_start

    def open_batch(self, batch: int) -> tuple[Body, FileIdentity]:
        """Open record batch number `batch` over all splits. Raises CorruptShardError."""
        owner = int(np.searchsorted(self._first_batch, batch, side="right")) - 1
        return self._fetchers[owner].open_batch(batch - int(self._first_batch[owner]))

    def place(self, row: int) -> Place:
        """Return where a row is stored: its own dataset, and the row of its own split."""
        owner, own = self._own(row)
        return owner.place(own)

    def corrupt(self, row: int, leaf: str, status: int, chunk: int) -> CorruptShardError:
        """Return the error that says why a value can't be trusted, with the row of its own split."""
        owner, own = self._own(row)
        return owner.corrupt(own, leaf, status, chunk)

    def _own(self, row: int) -> tuple[Fetcher, int]:
        owner = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._fetchers[owner], row - int(self._starts[owner])


def _check_alike(first: Dataset, other: Dataset) -> None:
    for what, mine, theirs in (
        ("read the columns", [c.name for c in first.columns], [c.name for c in other.columns]),
        ("store the columns", first.schema.names, other.schema.names),
        ("store the types", [str(t) for t in first.schema.types], [str(t) for t in other.schema.types]),
        ("have the kinds", [c.kind.value for c in first.columns], [c.kind.value for c in other.columns]),
    ):
        if mine != theirs:
            raise UsageError(f"concat: the datasets {what} {', '.join(mine)} and {', '.join(theirs)}: make them equal")
    for column, names in first.class_names.items():
        if names != other.class_names[column]:
            theirs = other.class_names[column]
            pairs = zip_longest(names, theirs, fillvalue=None)
            number, pair = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
            raise UsageError(
                f"concat: id {number} of {column} is {pair[0]!r} in one dataset and {pair[1]!r} in the other: pack "
                "both with the same --classes FILE"
            )


def _starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    ends = np.cumsum(np.array(sizes, np.int64))
    return ends - np.array(sizes, np.int64)
