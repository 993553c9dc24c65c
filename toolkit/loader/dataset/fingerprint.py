"""A hash of what a function does, as far as it can be seen: its code, and the constants and functions that it uses."""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import os
import re
import sys
import types
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["code_hash", "function_name", "python_name"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(...))
_DEEPEST = 16
_MOST_BYTES = 1 << 28  # of an array: a larger one may be a file that is mapped
_CACHED = type(functools.cache(len))
_SAID = (  # whose text says all of them
    range,
    slice,
    bytearray,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    decimal.Decimal,
    fractions.Fraction,
)
_LIKE: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (dict, dict),
    (types.MappingProxyType, dict),
    (set, frozenset),
    (frozenset, frozenset),
    (tuple, tuple),
    (list, list),
    (deque, list),
    (str, str),
    (bytes, bytes),
    (int, int),
    (float, float),
)
_UNSEEN = frozenset({"__dict__", "__weakref__", "__doc__", "__module__", "__firstlineno__", "__static_attributes__"})


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

    What it holds besides code is seen where that is plain: numbers, texts, times, patterns, arrays of numpy, tuples,
    lists, sets and dicts of them; and functions, classes and their objects that stand beside it in its module. Of
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
    look = _Look(function.__module__, seen)
    said = [_code(function.__code__, function.__doc__)]
    said.append(look.value((function.__defaults__, function.__kwdefaults__)))
    for cell in function.__closure__ or ():
        try:
            said.append(look.value(cell.cell_contents))
        except ValueError:  # it is empty yet
            said.append("empty")
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            said.append(f"{name}={look.value(function.__globals__[name])}")
    return repr(said)


def _names(code: types.CodeType) -> set[str]:
    """Return the names that code, and code in it, may take from the module."""
    inner = (_names(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inner)


def _code(code: types.CodeType, doc: str | None = None) -> str:
    held = list(code.co_consts)
    if held and doc is not None and held[0] == doc:
        held[0] = None  # as without documentation, which does nothing
    plain = _Look("", set())
    constants = [_code(one) if isinstance(one, types.CodeType) else plain.value(one) for one in held]
    return repr((code.co_code.hex(), code.co_names, code.co_varnames, code.co_freevars, code.co_argcount, constants))


class _Look:
    """Says values as texts: the same for equal ones in any process, and of what can't be seen into, its type."""

    def __init__(self, module: str, seen: set[int]) -> None:
        self._module, self._seen = module, seen

    def value(self, value: Any, depth: int = 0) -> str:
        """Return the text of a value that a function uses."""
        kind = type(value)
        if kind in _PLAIN:
            return repr(value)
        if depth >= _DEEPEST:
            return _named(kind)
        if isinstance(value, types.ModuleType):
            return f"module {value.__name__}"
        if isinstance(value, types.FunctionType):
            # Functions beside it, not libraries.
            return _function(value, self._seen) if self._is_beside(value) else _named(value)
        if isinstance(value, type):
            return self._class(value, depth)
        if isinstance(value, types.BuiltinFunctionType):
            owner = value.__self__
            return f"{_named(value)} of {'' if isinstance(owner, types.ModuleType) else self.value(owner, depth + 1)}"
        held = self._held(value)
        if held is None:
            return _named(kind)
        inner = self._items(held, depth + 1)
        return inner if kind is type(held) else f"{_named(kind)} {inner}"

    def _items(self, held: Any, depth: int) -> str:
        if type(held) in (tuple, list):
            return f"{type(held).__name__}{[self.value(one, depth) for one in held]}"
        if type(held) in (set, frozenset):
            return f"set{sorted(self.value(one, depth) for one in held)}"
        if type(held) is dict:
            return f"dict{[(self.value(key, depth), self.value(one, depth)) for key, one in held.items()]}"
        return self.value(held, depth)

    def _held(self, value: Any) -> Any:
        """Return what a value holds, as plainer values; None where that isn't known."""
        if isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            said = [str(array.dtype), array.shape]
            if array.dtype.hasobject or array.nbytes > _MOST_BYTES:
                return said
            return [*said, hashlib.sha256(array.tobytes()).hexdigest()]
        if isinstance(value, enum.Enum):
            return [value.name, value.value]
        if isinstance(value, functools.partial):
            return [value.func, value.args, value.keywords]
        if isinstance(value, types.MethodType):
            return [value.__func__, value.__self__]
        if isinstance(value, re.Pattern):
            return [value.pattern, value.flags]
        if isinstance(value, property | classmethod | staticmethod):
            return [getattr(value, name, None) for name in ("__func__", "fget")]
        if isinstance(value, os.PathLike):
            return [os.fspath(value)]
        if isinstance(value, _SAID):
            return [repr(value)]
        if isinstance(value, _CACHED):
            return [value.__wrapped__]
        for base, like in _LIKE:
            if isinstance(value, base):
                return [like(value), self._of_its_own(value)] if type(value) not in (base, like) else like(value)
        return self._of_its_own(value)

    def _of_its_own(self, value: Any) -> Any:
        """Return what an object of a class beside the function holds, and its class."""
        if not self._is_beside(type(value)) or id(value) in self._seen:
            return None
        self._seen.add(id(value))
        return [type(value), dict(sorted(getattr(value, "__dict__", {}).items()))]

    def _class(self, value: type, depth: int) -> str:
        if not self._is_beside(value) or id(value) in self._seen:
            return _named(value)
        self._seen.add(id(value))
        members = {name: one for name, one in sorted(vars(value).items()) if name not in _UNSEEN}
        return f"{_named(value)} {[self.value(one, depth + 1) for one in value.__bases__]} " + self._items(
            members, depth + 1
        )

    def _is_beside(self, value: Any) -> bool:
        return bool(getattr(value, "__module__", None) == self._module)


def _named(value: Any) -> str:
    return f"<{value.__module__}.{value.__qualname__}>"
