"""Checks of arguments where they are written: each returns the value in its one form, or says what is wrong with it."""

from __future__ import annotations

import enum
import math
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from toolkit.errors import did_you_mean
from toolkit.escapes import short

__all__ = [
    "DTYPES",
    "MAX_INT",
    "BadArgumentError",
    "a_choice",
    "a_dtype",
    "a_flag",
    "a_function",
    "a_number",
    "a_pair",
    "a_shape",
    "a_size",
    "a_text",
    "an_int",
]

DTYPES = (
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
)
_LARGEST = sys.float_info.max
MAX_INT = (1 << 31) - 1
_Member = TypeVar("_Member", bound=enum.Enum)


class BadArgumentError(Exception):
    """An argument that can't be. Whoever knows slot and step says where."""


def an_int(name: str, value: object, *, least: int = 1, most: int = MAX_INT) -> int:
    """Return an int in least..most."""
    is_large = False
    if isinstance(value, int) and not isinstance(value, bool):
        if least <= value <= most:
            return value
        is_large = value > most
    kind = "a positive int" if least == 1 else f"an int of {least} or more"
    if most != MAX_INT or is_large:
        kind = f"an int in {least}..{most}"
    raise BadArgumentError(f"{name} must be {kind}, got {_shown(value)}")


def a_number(name: str, value: object, *, least: float = -math.inf, most: float = math.inf) -> float:
    """Return a finite float in least..most; -0.0 is 0.0, since what is equal must be written and hashed alike."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _LARGEST:
        raise BadArgumentError(f"{name} must be a finite number, got {_shown(value)}")
    if not least <= value <= most:
        bounds = f"{least:g} or more" if most == math.inf else f"within {least:g}..{most:g}"
        raise BadArgumentError(f"{name} must be {bounds}, got {_shown(value)}")
    return float(value) + 0.0


def a_pair(name: str, value: object, *, least: float, most: float = math.inf) -> tuple[float, float]:
    """Return (low, high), low <= high."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise BadArgumentError(f"{name} must be (low, high), got {_shown(value)}")
    low, high = (a_number(name, end, least=least, most=most) for end in value)
    if low > high:
        raise BadArgumentError(f"{name} must be (low, high), got {_shown(value)}: the first is the larger one")
    return low, high


def a_size(value: object, *, most: int) -> tuple[int, int]:
    """Return (height, width) of a size that is one number or a pair."""
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise BadArgumentError(f"a size is one number or (height, width), got {_shown(value)}")
        return an_int("height", value[0], most=most), an_int("width", value[1], most=most)
    size = an_int("size", value, most=most)
    return size, size


def a_shape(name: str, value: object) -> tuple[int | None, ...]:
    """Return a tuple of sizes, None where any size will do."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = (value,)
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        raise BadArgumentError(f"{name} must be a tuple of sizes, as (3, 224, 224), got {_shown(value)}")
    return tuple(None if size is None else an_int(f"a size of {name}", size, least=0) for size in value)


def a_choice(kind: type[_Member], name: str, value: object) -> _Member:
    """Return the member whose value it is: a text."""
    try:
        return kind(value if isinstance(value, (str, kind)) else None)
    except ValueError:
        known = [str(member.value) for member in kind]
        hint = did_you_mean(value, known) if isinstance(value, str) else ""
        raise BadArgumentError(f"{name} must be one of {', '.join(known)}, got {_shown(value)}.{hint}") from None


def a_text(name: str, value: object) -> str:
    """Return a text that can be encoded: half of a surrogate pair is no character."""
    if not isinstance(value, str):
        raise BadArgumentError(f"{name} must be a text, got {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadArgumentError(
            f"{name} must be a text that UTF-8 can hold, got {_shown(value)}: leave out its lone surrogates"
        ) from None
    return value


def a_flag(name: str, value: object) -> bool:
    """Return a bool. 0 and 1 are rejected."""
    if not isinstance(value, bool):
        raise BadArgumentError(f"{name} must be True or False, got {_shown(value)}")
    return value


def a_dtype(value: object, *, also: tuple[str, ...] = ()) -> str:
    """Return the name of a dtype, given as text, numpy's type or its dtype."""
    name = value if isinstance(value, str) else getattr(value, "name", None) or getattr(value, "__name__", None)
    known = (*DTYPES, *also)
    if name not in known:
        raise BadArgumentError(
            f"dtype must be one of {', '.join(known)}, got {_shown(value)}.{did_you_mean(str(name), known)}"
        )
    return str(name)


def a_function(value: object) -> Callable[..., object]:
    """Return a callable."""
    if not callable(value):
        raise BadArgumentError(f"expected a function, got {_shown(value)}")
    return value


def _shown(value: object) -> str:
    return short(value, 80, quoted=True)
