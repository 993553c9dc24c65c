"""Names of the user's functions: the same in every process, whatever compiles them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

__all__ = ["function_identity", "function_name"]


def function_name(function: Callable[..., Any]) -> str:
    """Return the name that people know a function by."""
    if isinstance(function, functools.partial):
        return f"partial({function_name(function.func)})"
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return str(name).rpartition("<locals>.")[2]


def function_identity(function: Callable[..., Any]) -> list[str]:
    """Return what counts of a function in describe(): module, name, a partial's arguments. Its code doesn't count."""
    if isinstance(function, functools.partial):
        named = [f"{name}={value!r}" for name, value in sorted(function.keywords.items())]
        return [*function_identity(function.func), *map(repr, function.args), *named]
    owner = function if hasattr(function, "__qualname__") else type(function)
    return [str(owner.__module__), str(owner.__qualname__)]
