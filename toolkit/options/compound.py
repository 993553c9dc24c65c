"""Values of several parts: lists of texts, and mappings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.options.texts import parse_names, parse_pairs
from toolkit.options.value_type import Fault, ValueType, expected, shown
from toolkit.options.values import Text

__all__ = ["Names", "Pairs", "TextOrNames"]


class Names(ValueType):
    """A list of texts; with commas between them in a flag."""

    @property
    def metavar(self) -> str:
        """What stands for the value in a command's help."""
        return "NAME,..."

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return "Sequence[str]"

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values."""
        return {"type": "array", "items": Text().schema()}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        if not isinstance(value, list):
            return expected("a list of texts, as in [a, b]", value)
        faults = (_inside(number, Text().fault(item)) for number, item in enumerate(value))
        return next((fault for fault in faults if fault is not None), None)

    def read(self, given: Any) -> Any:
        """Return the value in its one form, of a flag's text or of what fault() passes. Raises UsageError."""
        return parse_names(given) if isinstance(given, str) else tuple(given)

    def plain(self, value: Any) -> object:
        """Return the value as JSON has it."""
        return None if value is None else list(value)


class TextOrNames(ValueType):
    """Text of at least one character, or a list of such."""

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return "str | Sequence[str]"

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values."""
        return {"anyOf": [Text().schema(), Names().schema()]}

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        return Names().fault(value) if isinstance(value, list) else Text().fault(value)

    def read(self, given: Any) -> Any:
        """Return the value in its one form, of a flag's text or of what fault() passes. Raises UsageError."""
        return Text().read(given)


@dataclass(frozen=True, eq=False, repr=False)
class Pairs(ValueType):
    """A mapping of texts to `values`; NAME=VALUE,... in a flag. `example` is one in YAML."""

    values: ValueType
    example: str

    @property
    def metavar(self) -> str:
        """What stands for the value in a command's help."""
        return "NAME=VALUE,..."

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return f"Mapping[str, {self.values.annotation}]"

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values."""
        return {
            "type": "object",
            "propertyNames": {"minLength": 1},
            "additionalProperties": self.values.schema(),
        }

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        if not isinstance(value, Mapping):
            return expected(f"a mapping, as in {self.example}", value)
        for name, item in value.items():
            if not (isinstance(name, str) and name):
                return Fault((), f"expected names that are text, got {shown(name)}", "; put it in quotes")
            fault = self.values.fault(item)
            if fault is not None:
                return _inside(name, fault)
        return None

    def read(self, given: Any) -> Any:
        """Return the value in its one form, of a flag's text or of what fault() passes. Raises UsageError."""
        pairs = parse_pairs(given) if isinstance(given, str) else given
        return {name: self.values.read(value) for name, value in pairs.items()}

    def plain(self, value: Any) -> object:
        """Return the value as JSON has it."""
        return None if value is None else {name: self.values.plain(one) for name, one in value.items()}


def _inside(place: str | int, fault: Fault | None) -> Fault | None:
    return None if fault is None else fault._replace(path=(place, *fault.path))
