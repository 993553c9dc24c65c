"""The answer to a query as a table for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.escapes import short
from toolkit.report.tables import View, table
from toolkit.report.text import count

__all__ = ["query_views"]

_WIDEST = 120
_HEX_BYTES = 32
_NUMBERS = ("Int", "UInt", "Float", "Decimal")


def query_views(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> list[View]:
    """Return rows as a table: long texts and lists cut, long bytes as their size, numbers to the right.

    Args:
        columns: The columns, each with its type in polars.
        rows: Their values.
    """
    right = {number for number, dtype in enumerate(columns.values()) if dtype.startswith(_NUMBERS)}
    return [table(list(columns), [[_cell(row[name]) for name in columns] for row in rows], right=right)]


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bytes):
        return value.hex() if len(value) <= _HEX_BYTES else f"<{count(len(value), 'byte')}>"
    if isinstance(value, Mapping):
        return short("{" + ", ".join(f"{name}: {_cell(item)}" for name, item in value.items()) + "}", _WIDEST)
    if isinstance(value, list | tuple):
        more = f" ({len(value):,} items)" if len(value) > _WIDEST else ""
        return short("[" + ", ".join(map(_cell, value[:_WIDEST])) + "]", _WIDEST) + more
    return short(value, _WIDEST)
