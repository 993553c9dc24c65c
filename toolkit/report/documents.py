"""Results as JSON documents: one object with the name and version of its schema."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping

from toolkit.escapes import json_text

__all__ = ["builtins_of", "document"]


def document(schema: str, value: object) -> str:
    """Return `value` (a dataclass or mapping) as one line of JSON, led by {"schema": `schema`}."""
    content = builtins_of(value)
    if not isinstance(content, dict):
        raise TypeError(f"a document is an object, not {type(content).__name__}")
    return json_text({"schema": schema, **content})


def builtins_of(value: object) -> object:
    """Return dataclasses and mappings as dicts, sequences as lists, enums by value, other values as they are."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: builtins_of(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): builtins_of(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [builtins_of(item) for item in value]
    if isinstance(value, enum.Enum):
        return builtins_of(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
