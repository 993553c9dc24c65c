"""Where the files of a split's references lie: descriptors of their roots, and what stands for sums without any."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit.format.index import ShardIndex
from toolkit.format.unhashed import FileStats
from toolkit.storage.roots import Roots
from toolkit.storage.roots_file import ROOT_NAME
from toolkit.storage.store import Store

__all__ = ["JoinedSplitFiles", "OneSplitFiles", "SplitFiles"]

_NO_FILE = (1 << 63) - 1  # bytes that no file has
_OPEN_STATS = 256  # maps of small files


class SplitFiles(Protocol):
    """What a reader of references asks about rows of a split, or of several joined ones. Safe from any thread."""

    def folders(self, rows: NDArray[np.int64], roots: Sequence[bytes | None]) -> NDArray[np.int32]:
        """Return a descriptor of each row's root, -1 where it has none that can be.

        Raises:
            UsageError, NotFoundError: A root may not be followed, or isn't there; the message says how to name it.
        """

    def folder(self, row: int, root: bytes) -> int:
        """Return a descriptor of one row's root. Raises as folders()."""

    def stats(self, column: int, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return int64 (rows, 2): size and time of the files of column number `column`; None where sums must do.

        Raises:
            CorruptTableError: What has them is missing or damaged.
        """

    def stat(self, column: int, row: int) -> tuple[int, int] | None:
        """Return the same of one row. Raises as stats()."""

    def looks(self, row: int) -> bool:
        """Tell whether a value without sums must begin as a pack would have it."""

    def path(self, row: int, root: str, path: str) -> str:
        """Say where a file of a row's root lies, for messages."""


class OneSplitFiles:
    """The files of one split's references.

    Attributes:
        roots: Where the folders are.
    """

    def __init__(
        self, store: Store, index: ShardIndex, roots: Roots, *, columns: int, unhashed: bool, looks: bool = True
    ) -> None:
        """There are so many columns of references; `unhashed`: their values may have no sums; `looks`: as looks()."""
        self.roots = roots
        self._store = store
        self._index = index
        self._columns = columns
        self._unhashed = unhashed
        self._looks = looks
        self._stats: OrderedDict[int, FileStats] = OrderedDict()
        self._starts: dict[int, NDArray[np.int64]] = {}
        # As lists, for one row at a time.
        self._first_row: list[int] = index.table_row.tolist()
        self._first_shard: list[int] = index.table_shard.tolist()

    def folders(self, rows: NDArray[np.int64], roots: Sequence[bytes | None]) -> NDArray[np.int32]:
        """Return a descriptor of each row's root."""
        known = {name: _descriptor(self.roots, name) for name in set(roots)}
        return np.fromiter(map(known.__getitem__, roots), np.int32, len(roots))

    def folder(self, row: int, root: bytes) -> int:
        """Return a descriptor of one row's root."""
        return _descriptor(self.roots, root)

    def stats(self, column: int, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return sizes and times; one that can't be is never that of a file."""
        if not self._unhashed:
            return None
        found = np.empty((len(rows), 2), np.int64)
        tables = np.searchsorted(self._index.table_row, rows, side="right") - 1
        for number in np.unique(tables).tolist():
            starts = self._shards(number)
            here = np.flatnonzero(tables == number)
            inner = rows[here] - self._index.table_row[number]
            shards = np.searchsorted(starts, inner, side="right") - 1
            for shard in np.unique(shards).tolist():
                of = shards == shard
                opened = self._open(int(self._index.table_shard[number]) + shard)
                found[here[of]] = opened.read(inner[of] - starts[shard])[:, column]
        found[found[:, 0] < 0] = _NO_FILE
        return found

    def stat(self, column: int, row: int) -> tuple[int, int] | None:
        """Return size and time of one row's file."""
        if not self._unhashed:
            return None
        number = bisect_right(self._first_row, row) - 1
        starts, inner = self._shards(number), row - self._first_row[number]
        shard = int(starts.searchsorted(inner, side="right")) - 1
        size, mtime_ns = self._open(self._first_shard[number] + shard).one(inner - int(starts[shard]), column)
        return (size if size >= 0 else _NO_FILE), mtime_ns

    def looks(self, row: int) -> bool:
        """Tell whether a value without sums must begin as a pack would have it."""
        return self._looks

    def path(self, row: int, root: str, path: str) -> str:
        """Say where a file of a root lies, for messages."""
        return self.roots.path(root, path)

    def _shards(self, number: int) -> NDArray[np.int64]:
        """Return the first row of each shard of a table, and the number of its rows."""
        starts = self._starts.get(number)
        if starts is None:
            table = self._index.table(number)
            starts = self._starts[number] = table.batch_start[table.shard_first_batch]
        return starts

    def _open(self, shard: int) -> FileStats:
        opened = self._stats.get(shard)
        if opened is None:
            info = self._index.shard(shard)
            opened = self._stats.setdefault(shard, FileStats(self._store, info.path, self._columns, info.rows))
            with contextlib.suppress(KeyError):  # another thread took the last one
                while len(self._stats) > _OPEN_STATS:
                    self._stats.popitem(last=False)
        return opened


class JoinedSplitFiles:
    """The files of joined splits: each row's are those of its own."""

    def __init__(self, parts: Sequence[SplitFiles], starts: NDArray[np.int64]) -> None:
        """The rows of part k begin at starts[k]."""
        self._parts = parts
        self._starts = starts

    def folders(self, rows: NDArray[np.int64], roots: Sequence[bytes | None]) -> NDArray[np.int32]:
        """Return a descriptor of each row's root."""
        out = np.empty(len(rows), np.int32)

        def ask(part: SplitFiles, own: NDArray[np.int64], here: NDArray[np.int64]) -> None:
            out[here] = part.folders(own, [roots[i] for i in here.tolist()])

        self._each(rows, ask)
        return out

    def folder(self, row: int, root: bytes) -> int:
        """Return a descriptor of one row's root."""
        owner = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._parts[owner].folder(row - int(self._starts[owner]), root)

    def stats(self, column: int, rows: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return sizes and times; -1 where a part has none."""
        out = np.full((len(rows), 2), -1, np.int64)

        def ask(part: SplitFiles, own: NDArray[np.int64], here: NDArray[np.int64]) -> None:
            found = part.stats(column, own)
            if found is not None:
                out[here] = found

        self._each(rows, ask)
        return out

    def stat(self, column: int, row: int) -> tuple[int, int] | None:
        """Return size and time of one row's file."""
        owner = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._parts[owner].stat(column, row - int(self._starts[owner]))

    def looks(self, row: int) -> bool:
        """Tell whether a value without sums must begin as a pack would have it."""
        return self._parts[int(np.searchsorted(self._starts, row, side="right")) - 1].looks(row)

    def path(self, row: int, root: str, path: str) -> str:
        """Say where a file of a row's root lies, for messages."""
        owner = int(np.searchsorted(self._starts, row, side="right")) - 1
        return self._parts[owner].path(row - int(self._starts[owner]), root, path)

    def _each(
        self, rows: NDArray[np.int64], ask: Callable[[SplitFiles, NDArray[np.int64], NDArray[np.int64]], None]
    ) -> None:
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        for owner in np.unique(owners).tolist():
            here = np.flatnonzero(owners == owner)
            ask(self._parts[owner], rows[here] - int(self._starts[owner]), here)


def _descriptor(roots: Roots, name: bytes | None) -> int:
    text = "" if name is None else name.decode("ascii", "replace")
    return -1 if ROOT_NAME.fullmatch(text) is None else roots.descriptor(text)
