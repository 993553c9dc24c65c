"""Read the tables of a version, each checked against its sha256 and, once, against what the manifest says of it.

Whoever opens a version gets its classes, schema and shards from here: what comes out of it can be relied on.
"""

from __future__ import annotations

import pyarrow as pa

from toolkit.errors import CorruptTableError
from toolkit.format.contract import schema_fault, table_fault
from toolkit.format.index import ShardIndex
from toolkit.format.manifest import TableRef
from toolkit.format.pin import Version, read_table
from toolkit.format.schema import Kind
from toolkit.format.tables import ShardTable, parse_label_table, parse_schema_table, parse_shard_table

__all__ = ["read_classes", "read_index", "read_schema"]


def read_classes(version: Version) -> dict[str, tuple[str, ...]]:
    """Return the class names of every column that has a label table, in id order.

    Raises CorruptTableError, StorageError.
    """
    classes = {}
    for column in version.manifest.columns:
        if column.kind in (Kind.LABEL, Kind.VALUE) and column.label_table is not None:
            names = parse_label_table(read_table(version, column.label_table), column.label_table)
            for split, facts in version.manifest.splits.items() if column.kind is Kind.LABEL else ():
                counted = len(facts.labels[column.name].counts)
                if counted != len(names):
                    raise _contradiction(
                        version, f"split {split!r} counts {counted} classes of {column.name!r}, there are {len(names)}"
                    )
            classes[column.name] = names
    return classes


def read_schema(version: Version) -> pa.Schema:
    """Return the schema of every shard. Raises CorruptTableError, StorageError."""
    digest = version.manifest.schema
    schema = parse_schema_table(read_table(version, digest), digest)
    fault = schema_fault(schema, version.manifest.columns, version.manifest.derived, version.manifest.requires)
    if fault is not None:
        raise _contradiction(version, fault)
    return schema


def read_index(version: Version, split: str) -> ShardIndex:
    """Return the shards of a split. Reads nothing: its tables raise CorruptTableError, StorageError when they are."""
    refs = version.manifest.splits[split].tables

    def read(number: int) -> ShardTable:
        ref = refs[number]
        table = parse_shard_table(read_table(version, ref.sha256), ref.sha256)
        fault = _sums_fault(ref, table) or table_fault(table)
        if fault is not None:
            raise _contradiction(version, f"split {split!r}, table {ref.sha256}: {fault}")
        return table

    return ShardIndex(refs, read)


def _sums_fault(ref: TableRef, table: ShardTable) -> str | None:
    """Say which number of the manifest isn't that of the shard table, or None."""
    for what, said, held in (
        ("shards", ref.shards, table.shards),
        ("record batches", ref.batches, table.batches),
        ("rows", ref.rows, int(table.batch_start[-1])),
        ("tokens", ref.tokens, int(table.batch_token_start[-1])),
        ("bytes", ref.bytes, int(table.shard_bytes.sum())),
    ):
        if said != held:
            return f"it has {held} {what}, the manifest says {said}"
    return None


def _contradiction(version: Version, what: str) -> CorruptTableError:
    return CorruptTableError(
        f"the manifest of {version.root} contradicts its tables: {what}. No copy of it is right: pack again"
    )
