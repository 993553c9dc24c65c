"""Declare the fields of steps: bounds, default, and how the argument that a field comes from is written."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass
from typing import Any

from toolkit.pipelines.check import (
    MAX_INT,
    BadArgumentError,
    a_choice,
    a_dtype,
    a_flag,
    a_number,
    a_pair,
    a_shape,
    a_text,
    an_int,
)

__all__ = [
    "Argument",
    "argument",
    "choice",
    "draw_name",
    "dtype",
    "flag",
    "number",
    "number_or_pair",
    "pair",
    "shape",
    "whole",
    "whole_or_pair",
]

_KEY = "argument"


@dataclass(frozen=True, slots=True)
class Argument:
    """What a word's argument may be.

    Attributes:
        check: check(name, value) returns the value in its one form, or raises BadArgumentError.
        annotation: Its type, as it is written in code.
        keyword: It is only taken by name.
        least, most: Bounds of a number, or of both ends of a range; None where there are none.
    """

    check: Callable[[str, Any], Any]
    annotation: str
    keyword: bool = False
    least: float | None = None
    most: float | None = None

    @staticmethod
    def of(field: dataclasses.Field[Any]) -> Argument | None:
        """Return what a field was declared with; None of a field that no argument is taken for as it is."""
        found = field.metadata.get(_KEY)
        return found if isinstance(found, Argument) else None


def argument(
    check: Callable[[str, Any], Any],
    annotation: str,
    default: Any = MISSING,
    *,
    keyword: bool = False,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """Declare a field with a check of its own, which keeps the bounds if there are any."""
    return _field(Argument(check, annotation, keyword, least, most), default)


def whole(default: Any = MISSING, *, least: int = 1, most: int = MAX_INT, keyword: bool = False) -> Any:
    """Declare an int within bounds."""
    return _field(
        Argument(lambda name, value: an_int(name, value, least=least, most=most), "int", keyword, least, most), default
    )


def number(
    default: Any = MISSING,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    keyword: bool = False,
    optional: bool = False,
) -> Any:
    """Declare a finite float within bounds; `optional`: or None."""

    def check(name: str, value: Any) -> Any:
        return None if optional and value is None else a_number(name, value, least=least, most=most)

    return _field(Argument(check, _or_none("float", optional), keyword, least, most), default)


def pair(default: Any = MISSING, *, least: float, most: float = math.inf, keyword: bool = False) -> Any:
    """Declare (low, high), both within bounds."""
    return _field(
        Argument(
            lambda name, value: a_pair(name, value, least=least, most=most),
            "tuple[float, float]",
            keyword,
            least,
            most,
        ),
        default,
    )


def number_or_pair(default: Any = MISSING, *, least: float, most: float = math.inf, keyword: bool = False) -> Any:
    """Declare a float, or (low, high) that it is drawn between; a pair of equal ends is the number."""

    def check(name: str, value: Any) -> float | tuple[float, float]:
        if not isinstance(value, (tuple, list)):
            return a_number(name, value, least=least, most=most)
        low, high = a_pair(name, value, least=least, most=most)
        return low if low == high else (low, high)

    return _field(Argument(check, "float | tuple[float, float]", keyword, least, most), default)


def whole_or_pair(default: Any = MISSING, *, least: int, most: int, keyword: bool = False) -> Any:
    """Declare an int, or (low, high) that it is drawn from, both among them; a pair of equal ends is the number."""

    def check(name: str, value: Any) -> int | tuple[int, int]:
        if not isinstance(value, (tuple, list)):
            return an_int(name, value, least=least, most=most)
        a_pair(name, value, least=least, most=most)
        low, high = (an_int(name, end, least=least, most=most) for end in value)
        return low if low == high else (low, high)

    return _field(Argument(check, "int | tuple[int, int]", keyword, least, most), default)


def flag(default: Any = MISSING, *, keyword: bool = False) -> Any:
    """Declare a bool."""
    return _field(Argument(a_flag, "bool", keyword), default)


def choice(kind: type[enum.Enum], default: Any = MISSING, *, keyword: bool = False, optional: bool = False) -> Any:
    """Declare a member of an Enum, which is written as its value; `optional`: or None."""

    def check(name: str, value: Any) -> enum.Enum | None:
        return None if optional and value is None else a_choice(kind, name, value)

    return _field(Argument(check, _or_none("str", optional), keyword), default)


def dtype(default: Any = MISSING, *, also: tuple[str, ...] = (), optional: bool = False) -> Any:
    """Declare the name of a dtype; `optional`: or None."""

    def check(name: str, value: Any) -> Any:
        return None if optional and value is None else a_dtype(value, also=also)

    return _field(Argument(check, _or_none("str", optional)), default)


def shape(default: Any = MISSING, *, optional: bool = False) -> Any:
    """Declare sizes, None where any will do; `optional`: or None for all of them."""

    def check(name: str, value: Any) -> Any:
        return None if optional and value is None else a_shape(name, value)

    return _field(Argument(check, _or_none("tuple[int | None, ...]", optional)), default)


def draw_name() -> Any:
    """Declare what a step draws by in place of its ordinal; None: by that."""

    def check(name: str, value: Any) -> str | None:
        if isinstance(value, str) and not value:
            raise BadArgumentError(f"{name} must be a text, got {value!r}")
        return None if value is None else a_text(name, value)

    return _field(Argument(check, "str | None", keyword=True), None)


def _field(made: Argument, default: Any) -> Any:
    return dataclasses.field(default=default, metadata={_KEY: made})


def _or_none(annotation: str, optional: bool) -> str:
    return f"{annotation} | None" if optional else annotation
