"""The shards and record batches of a split, by number: a shard table is read when something of it is asked for.

What the tables add up to stands in the manifest, so opening a split of a million shards reads none of them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.format.manifest import TableRef
from toolkit.format.tables import ShardTable

__all__ = ["BatchInfo", "ShardIndex", "ShardInfo"]


class ShardInfo(NamedTuple):
    """A shard: its path inside the dataset, what its file must be, and the numbers of its record batches."""

    path: str
    rows: int
    file_bytes: int
    tokens: int
    sha256: bytes
    nonbody_sha256: bytes
    batches: range


class BatchInfo(NamedTuple):
    """A record batch: its shard, its number there, first row and token in the split, and its place in the file."""

    shard: int
    number: int
    start: int
    rows: int
    token_start: int
    tokens: int
    offset: int
    metadata_bytes: int
    head_bytes: int
    body_bytes: int
    metadata_sha256: bytes

    @property
    def body_offset(self) -> int:
        """Where its body begins in the file."""
        return self.offset + self.metadata_bytes


class ShardIndex:
    """The shards of a split. Rows, tokens, shards and record batches are counted from 0 over all its tables.

    Safe from any thread: two of them may read a table at the same time, and keep the same one.

    Attributes:
        shards, batches, rows, bytes, tokens: What there is in all.
        table_shard, table_batch, table_row, table_token: int64 (tables + 1,): the first of each table, and how many
            there are.
    """

    def __init__(self, refs: Sequence[TableRef], read: Callable[[int], ShardTable]) -> None:
        """`read` returns table number i, checked; it is called when something of that table is asked for."""
        self.table_shard = _starts([ref.shards for ref in refs])
        self.table_batch = _starts([ref.batches for ref in refs])
        self.table_row = _starts([ref.rows for ref in refs])
        self.table_token = _starts([ref.tokens for ref in refs])
        ends = (self.table_shard, self.table_batch, self.table_row, self.table_token)
        self.shards, self.batches, self.rows, self.tokens = (int(starts[-1]) for starts in ends)
        self.bytes = sum(ref.bytes for ref in refs)
        # As lists, for one number at a time: numpy takes as long to be called as the rest of it.
        self._first_shard: list[int] = self.table_shard.tolist()
        self._first_batch: list[int] = self.table_batch.tolist()
        self._first_row: list[int] = self.table_row.tolist()
        self._read = read
        self._tables: dict[int, ShardTable] = {}

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self.table_row) - 1

    def table(self, number: int) -> ShardTable:
        """Return a table. Raises CorruptTableError, StorageError."""
        table = self._tables.get(number)
        return table if table is not None else self._tables.setdefault(number, self._read(number))

    def read_all(self) -> None:
        """Read every table now, also one that has no shards. Raises as table()."""
        for number in range(len(self)):
            self.table(number)

    def tables(self) -> Iterator[ShardTable]:
        """Yield every table. Raises as table()."""
        return map(self.table, range(len(self)))

    def shard(self, number: int) -> ShardInfo:
        """Return what is known of a shard. Raises as table()."""
        table, place, inner = self._find(self._first_shard, number)
        first = self._first_batch[place]
        batches = (first + int(table.shard_first_batch[inner + i]) for i in (0, 1))
        return ShardInfo(
            path=table.shard_path(inner),
            rows=int(table.shard_rows[inner]),
            file_bytes=int(table.shard_bytes[inner]),
            tokens=int(table.shard_tokens[inner]),
            sha256=table.sha256[inner].as_py(),
            nonbody_sha256=table.nonbody_sha256[inner].as_py(),
            batches=range(*batches),
        )

    def batch(self, number: int) -> BatchInfo:
        """Return what is known of a record batch. Raises as table()."""
        table, place, inner = self._find(self._first_batch, number)
        shard = int(table.batch_shard[inner])
        return BatchInfo(
            shard=self._first_shard[place] + shard,
            number=inner - int(table.shard_first_batch[shard]),
            start=self._first_row[place] + int(table.batch_start[inner]),
            rows=int(table.batch_rows[inner]),
            token_start=int(self.table_token[place] + table.batch_token_start[inner]),
            tokens=int(table.batch_tokens[inner]),
            offset=int(table.batch_offset[inner]),
            metadata_bytes=int(table.batch_metadata_bytes[inner]),
            head_bytes=int(table.batch_head_bytes[inner]),
            body_bytes=int(table.batch_body_bytes[inner]),
            metadata_sha256=table.metadata_sha256[inner].as_py(),
        )

    def batch_of(self, row: int) -> int:
        """Return the number of the record batch that holds a row. Raises as table()."""
        table, place, inner = self._find(self._first_row, row)
        return self._first_batch[place] + int(table.batch_start.searchsorted(inner, side="right")) - 1

    def shard_tokens(self) -> NDArray[np.int64]:
        """Return int64 (shards,): the tokens of every shard; reads all tables. Raises as table()."""
        return np.concatenate([np.empty(0, np.int64), *(table.shard_tokens for table in self.tables())])

    def paths(self) -> Iterator[str]:
        """Yield the path of every shard; reads all tables. Raises as table()."""
        for table in self.tables():
            yield from table.paths.to_pylist()

    def _find(self, starts: list[int], number: int) -> tuple[ShardTable, int, int]:
        """Return the table that has number `number` of what `starts` counts, its own number, and the place inside."""
        place = bisect_right(starts, number) - 1
        return self.table(place), place, number - starts[place]


def _starts(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(np.array(sizes, np.int64)))).astype(np.int64)
