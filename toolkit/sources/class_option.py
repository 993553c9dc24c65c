"""The value of --classes: a file of class names, or in YAML and Python the names themselves."""

from __future__ import annotations

from typing import Any

from toolkit.options.compound import Names, TextOrNames
from toolkit.options.value_type import Fault
from toolkit.options.values import Text
from toolkit.sources.classes import read_classes

__all__ = ["ClassNames"]

_UNREAD = ("a class",)


class ClassNames(TextOrNames):
    """The path of a file with a name a line, or a list of names; a job holds the names."""

    @property
    def metavar(self) -> str:
        """What stands for the value in a command's help."""
        return "FILE"

    @property
    def annotation(self) -> str:
        """The type of plain values, as it is written in Python."""
        return "str | os.PathLike[str] | Sequence[str]"

    def fault(self, value: object) -> Fault | None:
        """Return what is wrong with a plain value, or None."""
        return Names().fault(value) if isinstance(value, list) else Text(path=True).fault(value)

    def load(self, value: Any, *, reads: bool) -> Any:
        """Return the names. Raises NotFoundError, UsageError and StorageError, as read_classes() does."""
        if not isinstance(value, str):
            return tuple(value)
        return read_classes(value) if reads else _UNREAD

    def plain(self, value: Any) -> object:
        """Return the value as JSON has it."""
        return value if value is None or isinstance(value, str) else list(value)

    def placed(self, value: Any, folder: str) -> Any:
        """Return a plain value with its paths, if it has any, relative to `folder`. Raises UsageError."""
        return Text(path=True).placed(value, folder) if isinstance(value, str) else value
