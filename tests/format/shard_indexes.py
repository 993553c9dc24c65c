"""Shard indexes over tables that no manifest names: made of records, each table through its own bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from toolkit.format.index import ShardIndex
from toolkit.format.manifest import TableRef
from toolkit.format.shard import ShardRecord
from toolkit.format.tables import ShardTable, encode_shard_table, parse_shard_table, sha256


def ref_of(records: Sequence[ShardRecord], table: bytes = b"") -> TableRef:
    """Return what a manifest says of a table of these shards."""
    return TableRef(
        sha256=sha256(table),
        shards=len(records),
        batches=sum(len(record.batches) for record in records),
        rows=sum(record.rows for record in records),
        bytes=sum(record.file_bytes for record in records),
        tokens=sum(record.tokens for record in records),
    )


def index_of(*tables: Sequence[ShardRecord], on_read: Callable[[int], object] = lambda number: None) -> ShardIndex:
    """Return the index over tables of these shards; `on_read` hears the number of each table that is read."""
    files = [encode_shard_table(records) for records in tables]

    def read(number: int) -> ShardTable:
        on_read(number)
        return parse_shard_table(files[number], f"t{number}")

    return ShardIndex([ref_of(*pair) for pair in zip(tables, files, strict=True)], read)
