"""Rows of an answer as values: Python's own, and what JSON has of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolkit.format.values import python_value

if TYPE_CHECKING:
    import polars as pl

__all__ = ["json_rows", "rows_of"]


def rows_of(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """Return rows as dicts of Python's own values; times beyond those of Python are numpy's."""
    table = frame.to_arrow()
    columns = [[python_value(value) for value in column] for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


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
