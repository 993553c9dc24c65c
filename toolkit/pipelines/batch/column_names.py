"""Names of columns, as batch steps take them: one, or several."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.escapes import short
from toolkit.pipelines.check import BadArgumentError, a_text

__all__ = ["column_names"]


def column_names(name: str, value: object) -> tuple[str, ...]:
    """Return names, each once. Raises BadArgumentError."""
    if isinstance(value, str):
        return (a_text(name, value),)
    if not isinstance(value, Sequence) or not value or len(set(map(repr, value))) != len(value):
        raise BadArgumentError(f"{name} must be names of columns, each once, got {short(value, 80, quoted=True)}")
    return tuple(a_text(name, one) for one in value)
