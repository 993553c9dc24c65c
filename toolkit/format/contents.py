"""Read the tables of a version, each checked against its sha256 and, once, against what the manifest says of it.

Whoever opens a version gets its classes, schema and shards from here: what comes out of it can be relied on.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from toolkit.errors import CorruptTableError
from toolkit.format.contract import index_fault, schema_fault
from toolkit.format.manifest import Split
from toolkit.format.pin import Version, read_table
from toolkit.format.tables import ShardIndex, parse_label_table, parse_schema_table, parse_shard_tables

__all__ = ["read_classes", "read_index", "read_schema"]


def read_classes(version: Version) -> dict[str, tuple[str, ...]]:
    """Return the class names of every label column, in id order. Raises CorruptTableError, StorageError."""
    classes = {}
    for column in version.manifest.columns:
        if column.label_table is not None:
            names = parse_label_table(read_table(version, column.label_table), column.label_table)
            for split, facts in version.manifest.splits.items():
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
    fault = schema_fault(schema, version.manifest.columns)
    if fault is not None:
        raise _contradiction(version, fault)
    return schema


def read_index(version: Version, split: str) -> ShardIndex:
    """Return the shards of a split. Raises CorruptTableError, StorageError."""
    facts = version.manifest.splits[split]
    index = parse_shard_tables([(ref.sha256, read_table(version, ref.sha256)) for ref in facts.tables])
    fault = index_fault(index) or _sums_fault(facts, index)
    if fault is not None:
        raise _contradiction(version, f"split {split!r}: {fault}")
    return index


def _sums_fault(facts: Split, index: ShardIndex) -> str | None:
    """Say which sum of the manifest isn't that of the shard tables, or None."""
    ends = np.concatenate(([0], np.cumsum(index.table_shards, dtype=np.int64)))
    rows = np.diff(index.batch_start[index.shard_first_batch[ends]])
    for ref, shards, held in zip(facts.tables, index.table_shards, rows.tolist(), strict=True):
        if (ref.shards, ref.rows) != (shards, held):
            return f"table {ref.sha256} has {shards} shards and {held} rows, not {ref.shards} and {ref.rows}"
    held_bytes = int(index.shard_bytes.sum())
    return None if facts.bytes == held_bytes else f"{facts.bytes} bytes, its shard tables say {held_bytes}"


def _contradiction(version: Version, what: str) -> CorruptTableError:
    return CorruptTableError(
        f"the manifest of {version.root} contradicts its tables: {what}. No copy of it is right: pack again"
    )
