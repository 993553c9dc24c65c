"""Rows of an answer as values: Python's own, and what JSON has of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolkit.format.values import python_value

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["json_rows", "rows_of"]


def rows_of(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as dicts of Python's own values; times beyond those of Python are numpy's."""
    columns = [[python_value(value) for value in _in_microseconds(column)] for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _in_microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times of day as Python has them, where nothing is lost: polars has them in nanoseconds."""
    import pyarrow as pa

    if column.type != pa.time64("ns"):
        return column
    try:
        return column.cast(pa.time64("us"))
    except pa.ArrowInvalid:
        return column


def json_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows as JSON has them: bytes in hexadecimal digits, times as text, NaN and infinities as null."""
    return [{name: _plain(value) for name, value in row.items()} for row in rows]


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value)
