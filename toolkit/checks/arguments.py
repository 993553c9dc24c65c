"""Check what a function about a dataset is called with; it answers as toolkit.pack does."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from toolkit.errors import UsageError
from toolkit.escapes import short
from toolkit.options.option import Option, take
from toolkit.options.value_type import ValueType
from toolkit.options.values import Flag, Text, Whole

__all__ = ["argument", "check_flags", "paths", "progress_of", "split_of", "whole"]

_BEYOND = 10**18


def argument(name: str, value: object, takes: ValueType) -> Any:
    """Return a keyword's value in its one form. Raises UsageError, also for None, which stands for no default here."""
    fault = takes.fault(value) if value is None else None
    if fault is not None:
        raise UsageError(f"{name}: {fault.message}")
    if isinstance(value, int) and abs(value) >= _BEYOND:
        raise UsageError(f"{name}: expected a number of at most 18 digits, got {short(value, 40)}")
    return take({name: Option(name=name, value=takes, help="")}, {name: value})[name]


def check_flags(**given: object) -> None:
    """Raise UsageError for one that is neither True nor False: "no" is true."""
    for name, value in given.items():
        argument(name, value, Flag())


def whole(name: str, value: object, least: int = 0) -> int:
    """Return a whole number of at least `least`. Raises UsageError."""
    number: int = argument(name, value, Whole(least))
    return number


def paths(name: str, value: object) -> tuple[str, ...]:
    """Return paths, given as one or as a list of them. Raises UsageError."""
    given = [value] if isinstance(value, str | os.PathLike) else value
    if not isinstance(given, list | tuple):
        raise UsageError(f"{name}: expected a path, or a list of paths, got {short(value, 40, quoted=True)}")
    return tuple(argument(name, os.fspath(one) if isinstance(one, os.PathLike) else one, Text()) for one in given)


def split_of(value: object) -> str | None:
    """Return the name of a split, or None for no choice. Raises UsageError."""
    name: str | None = None if value is None else argument("split", value, Text())
    return name


def progress_of(value: Callable[[int, int], None] | None) -> Callable[[int, int], None]:
    """Return what is told how far it is; for None, what tells nobody. Raises UsageError."""
    if value is None:
        return _silent
    if not callable(value):
        raise UsageError(f"progress: expected a function, got {short(value, 40, quoted=True)}")
    return value


def _silent(done: int, total: int) -> None:
    return None
