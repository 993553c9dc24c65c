"""The value of --source-kind: the name of a kind of source."""

from __future__ import annotations

from toolkit.options.values import Choice
from toolkit.sources.registry import names

__all__ = ["KindOfSource"]


class KindOfSource(Choice):
    """One of the kinds that there are when it is asked: a plugin may have brought some, so its type is open."""

    def __init__(self) -> None:
        super().__init__(())

    @property
    def values(self) -> tuple[str, ...]:
        """The names."""
        return tuple(names())

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return "str"
