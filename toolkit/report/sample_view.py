"""A sample as JSON that a person can read: bytes by their length, pixels by their shape, labels with their name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["sample_document"]


def sample_document(sample: Mapping[str, Any], class_names: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Return the sample with every value as JSON has it."""
    document = {}
    for column, value in sample.items():
        if column in class_names and value is not None:
            document[column] = _named(value, class_names[column])
        else:
            document[column] = _plain(value)
    return document


def class_name(names: Sequence[str], label: int) -> str | None:
    """Return the name of a class, or None when there is no such class."""
    return names[label] if 0 <= label < len(names) else None


def _named(value: Any, names: Sequence[str]) -> Any:
    """Return an id, or each of a list of ids, with its name."""
    if isinstance(value, int):
        return {"id": value, "name": class_name(names, value)}
    return [None if one is None else _named(one, names) for one in value]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": len(value)}
    if hasattr(value, "shape") and value.shape:  # an array; importing numpy for this would be a waste
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)
