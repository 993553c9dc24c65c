"""Single values that options take: text, words, flags, numbers, and texts of a form."""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolkit.errors import UsageError, did_you_mean
from toolkit.memory.sizes import parse_bytes
from toolkit.options.texts import parse_count, parse_share, parse_whole
from toolkit.options.value_type import Fault, ValueType, expected
from toolkit.storage.places import local_path

__all__ = ["COUNT", "SHARE", "SIZE", "Amount", "Choice", "Flag", "Form", "Text", "Whole"]


@dataclass(frozen=True, eq=False, repr=False)
class Text(ValueType):
    """Text of at least one character; a `path` is relative to the config file, unless it is one of `words`."""

    path: bool = False
    words: tuple[str, ...] = ()

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return "str | os.PathLike[str]" if self.path else "str"

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values."""
        return {"type": "string", "minLength": 1}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        if isinstance(value, str) and value:
            return None
        hint = "" if value is None or value == "" else "; put text in quotes when YAML reads it as something else"
        return expected("a path" if self.path else "text", value, hint)

    def read(self, given: Any) -> Any:
        """Return the value in its one form, of a flag's text or of what fault() passes. Raises UsageError."""
        if given == "":
            raise UsageError(expected("a path" if self.path else "text", given).message)
        return given

    def placed(self, value: Any, folder: str) -> Any:
        """Return a plain value with its paths, if it has any, relative to `folder`. Raises UsageError."""
        if not self.path or value in self.words:
            return value
        return os.path.join(folder, local_path(value, "give a path"))


@dataclass(frozen=True, eq=False, repr=False)
class Choice(ValueType):
    """One of some words, or a member of an Enum, which is written as its value; those in `but` can't be given."""

    of: tuple[str, ...] | type[enum.Enum]
    but: tuple[enum.Enum, ...] = ()

    @property
    def values(self) -> tuple[str, ...]:
        """The words."""
        return self.of if isinstance(self.of, tuple) else tuple(one.value for one in self.of if one not in self.but)

    @property
    def metavar(self) -> str:
        """What stands for the value in a command's help."""
        return "|".join(self.values)

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return f"Literal[{', '.join(_quoted(value) for value in self.values)}]"

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values."""
        return {"type": "string", "enum": list(self.values)}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        if isinstance(value, str) and value in self.values:
            return None
        near = did_you_mean(value, self.values) if isinstance(value, str) else ""
        # YAML reads off and null as values of their own.
        in_yaml = "" if isinstance(value, str) else "; put the word in quotes"
        found = expected(f"one of {', '.join(self.values)}", value, in_yaml)
        return found._replace(message=f"{found.message}.{near}") if near else found

    def read(self, given: Any) -> Any:
        """Return the value in its one form, of a flag's text or of what fault() passes. Raises UsageError."""
        if given not in self.values:
            raise UsageError(
                f"{given!r} is not one of {', '.join(self.values)}.{did_you_mean(str(given), self.values)}"
            )
        return given if isinstance(self.of, tuple) else self.of(given)

    def plain(self, value: Any) -> object:
        """Return the value as JSON has it."""
        return value.value if isinstance(value, enum.Enum) else value


@dataclass(frozen=True, eq=False, repr=False)
class Form(ValueType):
    """Text of a form, and what reads it: `said` says which form."""

    pattern: str
    said: str
    parse: Callable[[str], Any]

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return "str"

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values."""
        return {"type": "string", "pattern": self.pattern}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        if isinstance(value, str) and re.search(self.pattern, value, re.ASCII):
            return None
        return expected(self.said, value)

    def read(self, given: Any) -> Any:
        """Return the value in its one form, of a flag's text or of what fault() passes. Raises UsageError."""
        return self.parse(given)

    def plain(self, value: Any) -> object:
        """Return the value as JSON has it."""
        return None if value is None else str(value)


class Flag(ValueType):
    """true or false."""

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return "bool"

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values."""
        return {"type": "boolean"}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        return None if isinstance(value, bool) else expected("true or false", value)


@dataclass(frozen=True, eq=False, repr=False)
class Whole(ValueType):
    """A whole number."""

    least: int
    metavar: str | None = "N"

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return "int"

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values."""
        return {"type": "integer", "minimum": self.least}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        if _is_whole(value, self.least):
            return None
        return expected(f"a whole number of at least {self.least}", value)

    def read(self, given: Any) -> Any:
        """Return the value in its one form, of a flag's text or of what fault() passes. Raises UsageError."""
        return parse_whole(str(given), self.least)


@dataclass(frozen=True, eq=False, repr=False)
class Amount(ValueType):
    """A whole number, or text of a form: `said` says which, as in "text as in 256MiB"; `parse` reads both as text."""

    least: int
    pattern: str
    said: str
    parse: Callable[[str], int | float]
    metavar: str | None = None

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return "int | str"

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values."""
        return {"anyOf": [{"type": "integer", "minimum": self.least}, {"type": "string", "pattern": self.pattern}]}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        if _is_whole(value, self.least) or (isinstance(value, str) and re.search(self.pattern, value, re.ASCII)):
            return None
        return expected(f"a whole number of at least {self.least}, or {self.said}", value)

    def read(self, given: Any) -> Any:
        """Return the value in its one form, of a flag's text or of what fault() passes. Raises UsageError."""
        return self.parse(str(given))


class _Share(Amount):
    """A number, or a share of all: 1%."""

    def plain(self, value: Any) -> object:
        """Return the value as JSON has it."""
        if not isinstance(value, float):
            return value
        from decimal import Decimal  # late: few have a share, and `toolkit --help` has none

        # Twelve digits: 0.29 * 100 is 28.999999999999996 in binary.
        return f"{Decimal(f'{value * 100:.12g}'):f}%"


SIZE = Amount(
    1,
    r"^ *([0-9]+(\.[0-9]+)?|\.[0-9]+) *([KMGTkmgt][Ii]?)?[Bb]? *$",
    "text with a unit as in 100MB, 256MiB",
    parse_bytes,
    "SIZE",
)
SHARE = _Share(0, r"^ *[0-9]+((\.[0-9]+)? *%)? *$", "a share as in 1%", parse_share, "N|P%")
COUNT = Amount(1, r"^(auto|[1-9][0-9]{0,5})$", "auto", parse_count, "N|auto")


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
