"""Gather rows of Python values into an Arrow table, some thousands at a time: as Python's objects they take tenfold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from toolkit.format.arrays import to_array

__all__ = ["Gathered"]

_ROWS = 4096


class Gathered:
    """Rows that become a table."""

    def __init__(self, schema: pa.Schema) -> None:
        """Take rows of `schema`."""
        self._schema = schema
        self._rows: list[Sequence[Any]] = []
        self._batches: list[pa.RecordBatch] = []
        self._done = 0

    def __len__(self) -> int:
        """Count the rows."""
        return self._done + len(self._rows)

    def add(self, row: Sequence[Any]) -> None:
        """Add a row: a value for each field, of its type already; None is null."""
        self._rows.append(row)
        if len(self._rows) == _ROWS:
            self._flush()

    def table(self) -> pa.Table:
        """Return all rows."""
        self._flush()
        return pa.Table.from_batches(self._batches, self._schema)

    def _flush(self) -> None:
        if self._rows:
            arrays = [
                to_array(values, field.type)
                for values, field in zip(zip(*self._rows, strict=True), self._schema, strict=True)
            ]
            self._batches.append(pa.RecordBatch.from_arrays(arrays, schema=self._schema))
            self._done += len(self._rows)
            self._rows = []
