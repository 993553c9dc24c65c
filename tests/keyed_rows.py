"""Rows for datasets of any columns, as commit_rows takes them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def keyed(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """Return columns with the keys k0, k1, …"""
    rows = len(next(iter(columns.values())))
    fields: list[Any] = [pa.field("__key__", pa.string(), nullable=False)]
    fields += [(name, array.type) for name, array in columns.items()]
    keys = pa.array([f"k{i}" for i in range(rows)], pa.string())
    return pa.RecordBatch.from_arrays([keys, *columns.values()], schema=pa.schema(fields))
