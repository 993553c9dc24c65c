"""Checked copies of values out of a split's shards: rows in, bytes and numbers out, or an error with the place."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.memory.lease import when_gone
from toolkit._native.shards.body import READ_NULL, READ_OK, READ_TEXT, Body
from toolkit._native.shards.fetch import FetchBuffer, fetch_binary, fetch_bytes, fetch_fixed
from toolkit._native.shards.gather import find_values, gather_values, gather_windows
from toolkit._native.shards.locate import FileIdentity, Locator
from toolkit.errors import CorruptShardError, StorageError, ToolkitError
from toolkit.format.index import ShardIndex
from toolkit.format.layout import BatchShape, FixedLayout, VariableLayout, column_layouts, leaf_layouts
from toolkit.format.reader import ShardReader, Verify, read_failure
from toolkit.format.schema import KEY
from toolkit.format.values import DamagedValueError, python_value, read_rows
from toolkit.loader.dataset.located import Found, Located, Place, Variable
from toolkit.loader.dataset.referenced import Payloads, References, is_of_file
from toolkit.storage.store import Store

__all__ = ["Fetcher"]

_OPEN_SHARDS = 4096  # maps, not descriptors: far below the 65530 that Linux allows a process by default
_KEPT_BODIES = 4096

_Encoded = Sequence[bytes | None]


_numbers = itertools.count()
_fetchers: dict[int, weakref.ref[Fetcher]] = {}  # a WeakSet's callback is Python: it swallows an interrupt


def _renew_locks() -> None:
    """In a forked child: a lock that a worker held at that instant would never be released."""
    for fetcher in filter(None, [known() for known in list(_fetchers.values())]):
        fetcher._lock = threading.Lock()


os.register_at_fork(after_in_child=_renew_locks)


class Fetcher:
    """Reads values of one split. Owns the open shards; safe from any thread."""

    def __init__(
        self,
        store: Store,
        index: ShardIndex,
        schema: pa.Schema,
        shape: BatchShape,
        verify: Verify = Verify.TOUCH,
        key: str | None = None,
        references: References | None = None,
    ) -> None:
        """`key` names a column of the schema that has no buffers: it gives the keys.

        `references` are the columns whose values lie in other files: their payloads are read as if they were stored.
        """
        self._store = store
        self._verify = verify
        self._index = index
        self.key = key
        self.references = references
        self._of_files = frozenset() if references is None else references.leaves
        self._columns = column_layouts(schema)
        self._shape = shape
        layouts = leaf_layouts(schema)
        if key is not None:
            self._columns[key], layouts[key] = self._columns[KEY], layouts[KEY]
        self._fixed = {name: leaf for name, leaf in layouts.items() if isinstance(leaf, FixedLayout)}
        self._variable = {name: leaf for name, leaf in layouts.items() if isinstance(leaf, VariableLayout)}
        self._readers: OrderedDict[int, ShardReader] = OrderedDict()
        self._lock = threading.Lock()
        self._locator: Locator | None = None
        number = next(_numbers)
        _fetchers[number] = weakref.ref(self)
        when_gone(self, functools.partial(_fetchers.pop, number, None))

    @property
    def locator(self) -> Locator:
        """What finds rows, and keeps opened record batches at hand."""
        if self._locator is None:
            table, batch = _unheld(self.open_table), _unheld(self.open_batch)
            self._locator = Locator(self.table_row, table, batch, _unheld(self.want_batches), _KEPT_BODIES)
        return self._locator

    def locate(self, rows: NDArray[np.int64]) -> Located:
        """Open the shards of `rows` (int64, rows of the split) and find the record batch of each.

        Raises:
            CorruptTableError: A shard table is missing or damaged.
            CorruptShardError: A shard is missing, has another size or metadata, or was changed while open.
        """
        inner = np.empty(len(rows), np.int64)
        bodies = self.locator.locate(rows, inner)
        return Located(rows, inner, bodies)

    def locate_readable(self, rows: NDArray[np.int64]) -> tuple[Located, NDArray[np.int64]]:
        """Locate those of `rows` whose shards can be opened; return them, and which of the rows they are."""
        there, inner, bodies = [], [], []
        for i in range(len(rows)):
            try:
                located = self.locate(rows[i : i + 1])
            except CorruptShardError:
                continue
            there.append(i)
            inner.append(int(located.inner[0]))
            bodies.append(located.bodies[0])
        where = np.array(there, np.int64)
        return Located(rows[where], np.array(inner, np.int64), bodies), where

    @property
    def table_row(self) -> NDArray[np.int64]:
        """int64 (tables + 1,): first row of each shard table, and the number of rows."""
        return self._index.table_row

    def open_table(self, number: int) -> tuple[NDArray[np.int64], int]:
        """Read a shard table; return where its record batches begin in it, and the number of the first.

        Raises:
            CorruptTableError: It is missing or damaged.
        """
        return self._index.table(number).batch_start, int(self._index.table_batch[number])

    def open_shard(self, shard: int) -> ShardReader:
        """Return shard number `shard`, open: anew where its file may have changed. Raises as locate()."""
        reader = self._reader(shard)
        if reader.identity.changed():
            reader.check_identity()
            with self._lock:
                if self._readers.get(shard) is reader:
                    del self._readers[shard]
            reader = self._reader(shard)
        return reader

    def open_batch(self, batch: int) -> tuple[Body, FileIdentity]:
        """Open record batch number `batch` of the split; return its body and its file's identity.

        Raises:
            CorruptShardError: As locate().
        """
        reader = self.open_shard(self._index.batch(batch).shard)
        return reader.body(batch), reader.identity

    def want_batches(self, batches: Sequence[int]) -> None:
        """Begin to read the heads of record batches that are about to be opened, together."""
        for batch in batches:
            with contextlib.suppress(ToolkitError):  # whoever opens it says what is wrong
                self.open_shard(self._index.batch(batch).shard).want(batch)

    def fixed(self, leaf: str, located: Located, out: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Copy a fixed-width leaf to `out` (uint8, rows * width); return which rows are null (zeros there)."""
        failed, statuses, chunks = self.take_fixed(leaf, located, out)
        self.check(failed, leaf, located, statuses, chunks)
        null: NDArray[np.bool_] = statuses == READ_NULL
        return null

    def take_fixed(
        self, leaf: str, located: Located, out: NDArray[np.uint8]
    ) -> tuple[int, NDArray[np.int32], NDArray[np.int64]]:
        """Do the same and raise nothing; return how many rows can't be read, READ_ statuses and bad chunks."""
        layout = self._fixed[leaf]
        statuses, chunks = _outcome(located)
        failed = fetch_fixed(
            located.bodies, located.inner, layout.validity, layout.data, layout.width, out, statuses, chunks
        )
        return failed, statuses, chunks

    def variable(self, leaf: str, located: Located, buffer: FetchBuffer) -> Variable:
        """Copy a leaf of bytes or text into `buffer`."""
        if leaf in self._of_files and self.references is not None:
            return self.references.variable(self, leaf, located, buffer)
        layout = self._variable[leaf]
        statuses, chunks = _outcome(located)
        addresses = np.empty(len(located.rows), np.uint64)
        lengths = np.empty(len(located.rows), np.int64)
        failed = fetch_binary(
            located.bodies,
            located.inner,
            layout.validity,
            layout.offsets,
            layout.data,
            layout.offset_width,
            buffer,
            addresses,
            lengths,
            statuses,
            chunks,
        )
        self.check(failed, leaf, located, statuses, chunks)
        return Variable(addresses, lengths, buffer)

    def bytes(self, leaf: str, located: Located) -> list[bytes | None]:
        """Return the values of a leaf of bytes or text, as they are stored; None where null."""
        if leaf in self._of_files and self.references is not None:
            return self.references.bytes(self, leaf, located)
        values, failed, statuses, chunks = self.take_bytes(leaf, located)
        self.check(failed, leaf, located, statuses, chunks)
        return values

    def take_bytes(self, leaf: str, located: Located) -> tuple[Payloads, int, NDArray[np.int32], NDArray[np.int64]]:
        """Do the same and raise nothing; return besides how many can't be read, READ_ statuses and bad chunks."""
        layout = self._variable[leaf]
        statuses, chunks = _outcome(located)
        values, failed = fetch_bytes(
            located.bodies,
            located.inner,
            layout.validity,
            layout.offsets,
            layout.data,
            layout.offset_width,
            statuses,
            chunks,
        )
        return values, failed, statuses, chunks

    def find(self, leaf: str, located: Located) -> Found:
        """Find the values of a leaf of bytes or text; what is not readable has a status that says so."""
        if leaf in self._of_files and self.references is not None:
            return self.references.find(self, leaf, located)
        layout, n = self._variable[leaf], len(located.rows)
        found = Found(np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int32), np.empty(n, np.int64))
        find_values(
            located.bodies,
            located.inner,
            layout.validity,
            layout.offsets,
            layout.data,
            layout.offset_width,
            found.starts,
            found.lengths,
            found.statuses,
            found.chunks,
        )
        return found

    def lengths(self, leaf: str, located: Located) -> NDArray[np.int64]:
        """Return the bytes of each value of a leaf of bytes or text, -1 where null; reads none of them."""
        found = self.find(leaf, located)
        null = found.statuses == READ_NULL
        self.check(int((~null & (found.statuses != READ_OK)).any()), leaf, located, found.statuses, found.chunks)
        return np.where(null, -1, found.lengths)

    def gather(
        self, leaf: str, located: Located, found: Found, run: slice, places: NDArray[np.int64], out: NDArray[np.uint8]
    ) -> None:
        """Copy the values `run` of those found; value i goes to out[places[i] : places[i + 1]], `located` is the run's.

        Raises:
            CorruptShardError: One is not what was packed; its bytes are zeros then.
        """
        if leaf in self._of_files and self.references is not None:
            self.references.gather(self, leaf, located, found, run, places, out)
            return
        statuses, chunks = found.statuses[run], found.chunks[run]
        failed = gather_values(
            located.bodies,
            located.inner,
            found.starts[run],
            places[run.start : run.stop + 1],
            statuses,
            chunks,
            out,
        )
        self.check(failed, leaf, located, statuses, chunks)

    def windows(
        self,
        leaf: str,
        located: Located,
        starts: NDArray[np.int64],
        strides: NDArray[np.int64],
        inside: NDArray[np.int64],
        out: NDArray[np.uint8],
    ) -> None:
        """Copy windows of pictures to `out` (n, height, row bytes), as gather_windows does.

        Raises:
            CorruptShardError: A byte is not what was packed.
        """
        statuses, chunks = _outcome(located)
        failed = gather_windows(located.bodies, located.inner, starts, strides, inside, statuses, chunks, out)
        self.check(failed, leaf, located, statuses, chunks)

    def values(self, column: str, located: Located) -> list[Any]:
        """Return the values of a column of any type as Python objects, None where null; of references as packed."""
        if self.references is not None and column in self.references.columns:
            return list(self.references.packed(self, column, located))
        layout = self._columns[column]
        out: list[Any] = []
        for i, (body, inner) in enumerate(zip(located.bodies, located.inner.tolist(), strict=True)):
            try:
                out.append(python_value(read_rows(body, layout, inner, 1)[0]))
            except DamagedValueError as error:
                raise self.corrupt(int(located.rows[i]), column, error.status, error.chunk) from error
        return out

    def array(self, column: str, batch: int, start: int = 0, count: int | None = None) -> pa.Array:
        """Return a column of record batch number `batch` of the split, or `count` rows from row `start`, as stored.

        Raises CorruptShardError.
        """
        info = self._index.batch(batch)
        body = self.open_shard(info.shard).body(batch)
        try:
            return read_rows(body, self._columns[column], start, info.rows - start if count is None else count)
        except DamagedValueError as error:
            raise self.corrupt(info.start + start, column, error.status, error.chunk) from error

    def keys(self, located: Located) -> list[str]:
        """Return the keys of the rows."""
        return self.texts(KEY, located, self.bytes(KEY, located), "")

    def texts(self, leaf: str, located: Located, values: _Encoded, null: str | None = None) -> list[Any]:
        """Return the values of a leaf of text as str, `null` where null. Raises CorruptShardError."""
        texts: list[str | None] = []
        try:
            texts.extend(null if value is None else value.decode() for value in values)
        except UnicodeDecodeError as error:
            raise self.corrupt(int(located.rows[len(texts)]), leaf, READ_TEXT, -1) from error
        return texts

    def place(self, row: int) -> Place:
        """Return where a row is stored; the key is "?" when it can't be read."""
        key, files = "?", []
        with contextlib.suppress(CorruptShardError):
            located = self.locate(np.array([row], np.int64))
            key = self.keys(located)[0]
            files = [] if self.references is None else self.references.files_of(self, located)
        return Place(self._store.location, self._shard_path(row), row, key, tuple(files))

    def _reader(self, shard: int) -> ShardReader:
        with self._lock:
            reader = self._readers.get(shard)
            if reader is not None:
                self._readers.move_to_end(shard)
                return reader
        opened = ShardReader(self._store, self._index, shard, self._shape, self._verify)
        with self._lock:
            # Two threads may have opened it: both use the first, whose checked chunks count for both.
            reader = self._readers.setdefault(shard, opened)
            while len(self._readers) > _OPEN_SHARDS:
                self._readers.popitem(last=False)
        return reader

    def check(
        self, failed: int, leaf: str, located: Located, statuses: NDArray[np.int32], chunks: NDArray[np.int64]
    ) -> None:
        """Raise the error of the first row that can't be read, where there are any."""
        if failed:
            i = int(np.flatnonzero((statuses != READ_OK) & (statuses != READ_NULL))[0])
            raise self.corrupt(int(located.rows[i]), leaf, int(statuses[i]), int(chunks[i]))

    def corrupt(self, row: int, leaf: str, status: int, chunk: int) -> CorruptShardError | StorageError:
        """Return the error that says why a value of a leaf can't be trusted: a READ_ status and its chunk."""
        if is_of_file(status) and self.references is not None:
            return self.references.error(self, self.locate(np.array([row], np.int64)), leaf, status, chunk)
        # A key that can't be read has no name to give: asking for it again would end here again.
        place = Place(self._store.location, self._shard_path(row), row, "?") if leaf == KEY else self.place(row)
        column = leaf.replace("\0", ".")
        return CorruptShardError(
            f"shard {place.shard}, row {row}, key {place.key!r}, column {column}: {read_failure(status, chunk)}. "
            "Run `toolkit verify --full`, then copy the shard from a good copy or pack again",
            shard=place.shard,
            row=row,
            key=place.key,
            column=column,
        )

    def _shard_path(self, row: int) -> str:
        return self._index.shard(self._index.batch(self._index.batch_of(row)).shard).path


def _unheld(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return what calls a method and doesn't keep its object: that is gone with its last user, and not some day."""
    known = weakref.WeakMethod(method)

    def call(given: Any) -> Any:
        found = known()
        assert found is not None
        return found(given)

    return call


def _outcome(located: Located) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    return np.empty(len(located.rows), np.int32), np.empty(len(located.rows), np.int64)
