"""One option: what its declaration says beside its name and type, and the check that follows from both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from toolkit.errors import UsageError, did_you_mean
from toolkit.escapes import short

__all__ = ["Declared", "Option"]

_MOST = (1 << 63) - 1  # of what counts something
_SHOWN = 80  # characters of a value that an error shows


@dataclass(frozen=True)
class Option:
    """What stands beside an option's name and type: `name: Annotated[type, Option(default, doc)]`.

    Attributes:
        default: Its value when it is left out.
        doc: What it means, for help().
        least: The least that a whole number may be.
        above: What any other number must be above.
        check: Raises UsageError for a value that the type alone doesn't tell; gets the option's name and the value.
        hints: What to say to values that other libraries take, as in (True, "say shuffle='full'").
    """

    default: Any
    doc: str
    least: int | None = None
    above: float | None = None
    check: Callable[[str, Any], object] | None = None
    hints: tuple[tuple[object, str], ...] = ()


@dataclass(frozen=True)
class Declared:
    """An option with its name and type.

    Attributes:
        name: What it is called.
        types: What it may be: the members of a union.
        text: The type, as it is written in the declaration.
        option: The rest.
    """

    name: str
    types: tuple[Any, ...]
    text: str
    option: Option

    @classmethod
    def of(cls, name: str, hint: Any, text: str) -> Declared:
        """Return what Annotated[type, Option(...)] declares; `text` is its source."""
        declared, option = hint.__origin__, hint.__metadata__[0]
        types = get_args(declared) if get_origin(declared) in (Union, UnionType) else (declared,)
        return cls(name, types, text.removeprefix("Annotated[").split(", Option(")[0], option)

    def check(self, value: Any) -> None:
        """Raise UsageError when the option can't be `value`."""
        option = self.option
        if value is None and NoneType in self.types:
            return
        if option.check is not None:
            option.check(self.name, value)
            return
        if any(self._fits(kind, value) for kind in self.types):
            return
        words = [word for kind in self.types for word in get_args(kind) if get_origin(kind) is Literal]
        hint = did_you_mean(value, words) if isinstance(value, str) else ""
        hint = next((f" {said}" for strange, said in option.hints if _same(strange, value)), hint)
        beyond = ", below 2**63" if isinstance(value, int) and value > _MOST else ""
        wanted = " or ".join(self._wanted(kind, beyond) for kind in self.types if kind is not NoneType)
        got = short(value, _SHOWN, quoted=True)
        raise UsageError(f"{self.name} must be {wanted}, got {got}{'.' if hint else ''}{hint}")

    def _fits(self, kind: Any, value: Any) -> bool:
        option = self.option
        if kind is Any:
            return True
        if get_origin(kind) is Literal:
            return isinstance(value, str) and value in get_args(kind)
        if kind is bool or isinstance(value, bool):
            return kind is bool and isinstance(value, bool)
        if kind is int:
            return isinstance(value, int) and (option.least is None or option.least <= value <= _MOST)
        if kind is float:
            counted = isinstance(value, float) or (isinstance(value, int) and value <= _MOST)
            return counted and (option.above is None or value > option.above)
        return isinstance(value, get_origin(kind) or kind)

    def _wanted(self, kind: Any, beyond: str) -> str:
        option = self.option
        if get_origin(kind) is Literal:
            words = get_args(kind)
            return repr(words[0]) if len(words) == 1 else f"one of {', '.join(words)}"
        if kind is bool:
            return "True or False"
        if kind is int:
            return "an int" if option.least is None else f"an int of at least {option.least}{beyond}"
        if kind is float:
            return "a number" if option.above is None else f"a number above {option.above:g}"
        return f"a {getattr(kind, '__name__', kind)}"


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other  # True is no 1
