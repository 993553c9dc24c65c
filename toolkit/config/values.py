"""What values a key takes in YAML: how each is checked, and how it is said in JSON Schema."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from toolkit.errors import did_you_mean

__all__ = ["Amount", "Choice", "Fault", "Flag", "Form", "Names", "Pairs", "Text", "TextOrNames", "ValueType", "Whole"]

_SHOWN_CHARACTERS = 40


class Fault(NamedTuple):
    """Why a value isn't taken, and where inside it: () for the whole, ("image",) for an entry, (2,) for an item."""

    path: tuple[str | int, ...]
    message: str


class ValueType(ABC):
    """What a key takes."""

    @abstractmethod
    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of the values."""

    @abstractmethod
    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a value from YAML, or None."""


@dataclass(frozen=True)
class Text(ValueType):
    """Text of at least one character; a `path` is relative to the config file, unless it is one of `words`."""

    path: bool = False
    words: tuple[str, ...] = ()

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of the values."""
        return {"type": "string", "minLength": 1}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a value from YAML, or None."""
        if isinstance(value, str) and value:
            return None
        what = "a path" if self.path else "text"
        hint = "" if value is None or value == "" else "; put text in quotes when YAML reads it as something else"
        return _expected(what, value, hint)


@dataclass(frozen=True)
class Choice(ValueType):
    """One of some words."""

    values: tuple[str, ...]

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of the values."""
        return {"type": "string", "enum": list(self.values)}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a value from YAML, or None."""
        if isinstance(value, str) and value in self.values:
            return None
        # YAML reads off and null as values of their own.
        hint = f".{did_you_mean(value, self.values)}" if isinstance(value, str) else "; put the word in quotes"
        return _expected(f"one of {', '.join(self.values)}", value, hint.removesuffix("."))


@dataclass(frozen=True)
class Form(ValueType):
    """Text of a form: `said` says which."""

    pattern: str
    said: str

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of the values."""
        return {"type": "string", "pattern": self.pattern}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a value from YAML, or None."""
        if isinstance(value, str) and re.search(self.pattern, value, re.ASCII):
            return None
        return _expected(self.said, value)


@dataclass(frozen=True)
class Flag(ValueType):
    """true or false."""

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of the values."""
        return {"type": "boolean"}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a value from YAML, or None."""
        return None if isinstance(value, bool) else _expected("true or false", value)


@dataclass(frozen=True)
class Whole(ValueType):
    """A whole number."""

    least: int

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of the values."""
        return {"type": "integer", "minimum": self.least}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a value from YAML, or None."""
        if _is_whole(value, self.least):
            return None
        return _expected(f"a whole number of at least {self.least}", value)


@dataclass(frozen=True)
class Amount(ValueType):
    """A whole number, or text of a form: `said` says which, as in "text as in 256MiB"."""

    least: int
    pattern: str
    said: str

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of the values."""
        return {"anyOf": [{"type": "integer", "minimum": self.least}, {"type": "string", "pattern": self.pattern}]}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a value from YAML, or None."""
        if _is_whole(value, self.least) or (isinstance(value, str) and re.search(self.pattern, value, re.ASCII)):
            return None
        return _expected(f"a whole number of at least {self.least}, or {self.said}", value)


@dataclass(frozen=True)
class Names(ValueType):
    """A list of texts."""

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of the values."""
        return {"type": "array", "items": Text().schema()}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a value from YAML, or None."""
        if not isinstance(value, list):
            return _expected("a list of texts, as in [a, b]", value)
        return next(
            (_inside(number, Text().fault(item)) for number, item in enumerate(value) if Text().fault(item)), None
        )


@dataclass(frozen=True)
class TextOrNames(ValueType):
    """Text of at least one character, or a list of such."""

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of the values."""
        return {"anyOf": [Text().schema(), Names().schema()]}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a value from YAML, or None."""
        return Names().fault(value) if isinstance(value, list) else Text().fault(value)


@dataclass(frozen=True)
class Pairs(ValueType):
    """A mapping of texts to `values`."""

    values: Text | Choice | TextOrNames
    example: str

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of the values."""
        return {
            "type": "object",
            "propertyNames": {"minLength": 1},
            "additionalProperties": self.values.schema(),
        }

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a value from YAML, or None."""
        if not isinstance(value, Mapping):
            return _expected(f"a mapping, as in {self.example}", value)
        for name, item in value.items():
            if not (isinstance(name, str) and name):
                return Fault((), f"expected names that are text, got {_shown(name)}; put it in quotes")
            fault = self.values.fault(item)
            if fault is not None:
                return _inside(name, fault)
        return None


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _inside(place: str | int, fault: Fault | None) -> Fault | None:
    return None if fault is None else Fault((place, *fault.path), fault.message)


def _expected(what: str, value: object, hint: str = "") -> Fault:
    return Fault((), f"expected {what}, got {_shown(value)}{hint}")


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    text = repr(value) if isinstance(value, str | int | float) else str(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
