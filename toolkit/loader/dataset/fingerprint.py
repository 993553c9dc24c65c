"""A hash of what a function does, as far as it can be seen: its code, and the constants and functions that it uses."""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Callable
from typing import Any

__all__ = ["code_hash", "function_name", "python_name"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))


def function_name(function: Callable[..., Any]) -> str | None:
    """Return the name that a function has in any process; None of one that has none: lambdas, objects, partials."""
    if not isinstance(function, types.FunctionType) or "<lambda>" in function.__qualname__:
        return None
    module = function.__module__
    if module == "__main__":  # of scripts there are many
        module = getattr(sys.modules.get("__main__"), "__file__", None) or module
    return f"{module}:{function.__qualname__}"


def code_hash(function: types.FunctionType) -> str:
    """Return the hash: equal for equal code of one version of Python.

    What it holds besides code is seen where that is plain: numbers, texts, tuples, lists, sets and dicts of them. Of
    anything else, and of what other modules do, nothing is seen.
    """
    seen: set[int] = set()
    return hashlib.sha256(_function(function, seen).encode()).hexdigest()


def python_name() -> str:
    """Return what code hashes can be compared within: bytecode is another in each version."""
    return f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]}"


def _function(function: types.FunctionType, seen: set[int]) -> str:
    if id(function) in seen:
        return "again"
    seen.add(id(function))
    said = [_code(function.__code__, function.__doc__)]
    said.append(_value((function.__defaults__, function.__kwdefaults__), function, seen))
    for cell in function.__closure__ or ():
        try:
            said.append(_value(cell.cell_contents, function, seen))
        except ValueError:  # it is empty yet
            said.append("empty")
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            said.append(f"{name}={_value(function.__globals__[name], function, seen)}")
    return repr(said)


def _names(code: types.CodeType) -> set[str]:
    """Return the names that code, and code in it, may take from the module."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inner)


def _code(code: types.CodeType, doc: str | None = None) -> str:
    held = list(code.co_consts)
    if held and doc is not None and held[0] == doc:
        held[0] = None  # as without documentation, which does nothing
    constants = [_code(one) if isinstance(one, types.CodeType) else _plain(one) for one in held]
    return repr((code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, constants))


def _value(value: object, of: types.FunctionType, seen: set[int]) -> str:
    if isinstance(value, types.FunctionType):
        # Functions beside it, not libraries.
        beside = value.__module__ == of.__module__
        return _function(value, seen) if beside else f"{value.__module__}.{value.__qualname__}"
    return _plain(value)


def _plain(value: object, depth: int = 0) -> str:
    """Return a text that is the same for equal plain values in any process; of others their type."""
    if type(value) in _PLAIN:
        return repr(value)
    if depth < 16 and type(value) in (tuple, list):
        return f"{type(value).__name__}{[_plain(one, depth + 1) for one in value]}"  # type: ignore[attr-defined]
    if depth < 16 and type(value) in (set, frozenset):
        return f"set{sorted(_plain(one, depth + 1) for one in value)}"  # type: ignore[attr-defined]
    if depth < 16 and type(value) is dict:
        return f"dict{[(_plain(key, depth + 1), _plain(one, depth + 1)) for key, one in value.items()]}"
    return f"<{type(value).__module__}.{type(value).__qualname__}>"
