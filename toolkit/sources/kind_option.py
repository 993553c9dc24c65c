"""The value of --source-kind: the name of a kind of source."""

from __future__ import annotations

from typing import Any

from toolkit.options.value_type import Fault
from toolkit.options.values import Choice
from toolkit.sources.registry import known_names, names

__all__ = ["KindOfSource"]


class KindOfSource(Choice):
    """One of the kinds that there are when it is asked: a plugin may have brought some, so its type is open."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def values(self) -> tuple[str, ...]:
        """The names, but for those that plugins add: help and its like don't look for them."""
        return tuple(names())

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return "str"

    def schema(self) -> dict[str, object]:
        """Return the JSON Schema of plain values; with the kinds of plugins that are installed here."""
        return self._with_plugins().schema()

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        return None if isinstance(value, str) and value in self.values else self._with_plugins().fault(value)

    def read(self, given: Any) -> Any:
        """Return the name of a kind. Raises UsageError."""
        return given if given in self.values else self._with_plugins().read(given)

    def _with_plugins(self) -> Choice:
        return Choice(tuple(known_names()))
