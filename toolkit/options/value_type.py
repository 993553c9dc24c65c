"""What every type of value can do: check, read, and say what it takes in JSON Schema and in types.

A value comes as the text of a flag, or plainly: from YAML or from Python. fault() is asked of plain ones before read().
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

__all__ = ["Fault", "ValueType", "expected", "shown"]

_SHOWN_CHARACTERS = 40


class Fault(NamedTuple):
    """Why a plain value isn't taken, and where inside it: () for the whole, ("image",) for an entry, (2,) for an item.

    `in_yaml` is what helps when the value was written in YAML.
    """

    path: tuple[str | int, ...]
    message: str
    in_yaml: str = ""


class ValueType(ABC):
    """What an option takes."""

    @property
    def metavar(self) -> str | None:
        """What stands for the value in a command's help; None where the flag's own type says enough."""
        return None

    @property
    @abstractmethod
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""

    @abstractmethod
    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values."""

    @abstractmethod
    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""

    def read(self, given: Any) -> Any:
        """Return the value in its one form, of a flag's text or of what fault() passes. Raises UsageError."""
        return given

    def load(self, value: Any, *, reads: bool) -> Any:
        """Return what a job holds for the value; `reads`: of a file, what is in it, and else what could be."""
        return value

    def plain(self, value: Any) -> object:
        """Return the value as JSON has it."""
        return value

    def placed(self, value: Any, folder: str) -> Any:
        """Return a plain value with its paths, if it has any, relative to `folder`. Raises UsageError."""
        return value


def expected(what: str, value: object, in_yaml: str = "") -> Fault:
    """Return the fault of a plain value that isn't `what`."""
    return Fault((), f"expected {what}, got {shown(value)}", in_yaml)


def shown(value: object) -> str:
    """Return a plain value for a message, cut when it is long."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    text = repr(value) if isinstance(value, str | int | float) else str(value)
    text = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
    kind = type(value)
    # YAML has dates too; of what only Python has, the text may look right: True of NumPy.
    known = kind.__module__ in ("builtins", "datetime")
    return text if known else f"{text} of type {kind.__module__}.{kind.__qualname__}"
