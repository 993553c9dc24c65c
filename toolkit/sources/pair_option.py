"""The value of --pair: the columns of paired files, each with the patterns that its files are called by."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.errors import UsageError
from toolkit.options.compound import Pairs, TextOrNames

__all__ = ["PairPatterns", "parse_patterns"]

_UNNAMED = "image"  # the column of the first pattern, if that names none
_COLUMN = re.compile(r"[^/{}=.]+(?==)")


class PairPatterns(Pairs):
    """A mapping of columns to a pattern or several; image=images/{}.jpg,mask=masks/{}.png in a flag.

    In a flag, several patterns of a column are so many parts that name it, and the first part needs no name.
    """

    def __init__(self) -> None:
        super().__init__(TextOrNames(), "{image: 'images/{}.jpg', mask: 'masks/{}.png'}")

    @property
    def metavar(self) -> str:
        """What stands for the value in a command's help."""
        return "[COLUMN=]PATTERN..."

    def read(self, given: Any) -> Any:
        """Return {"image": ("images/{}.jpg",), …} of a text or a mapping. Raises UsageError."""
        return parse_patterns(given) if isinstance(given, str) else _of_mapping(given)

    def plain(self, value: Any) -> object:
        """Return the value as JSON has it."""
        return None if value is None else {column: list(patterns) for column, patterns in value.items()}


def parse_patterns(text: str) -> dict[str, tuple[str, ...]]:
    """Return {"image": ("images/{}.jpg",), …} for images/{}.jpg,mask=masks/{}.png. Raises UsageError."""
    found: dict[str, tuple[str, ...]] = {}
    for part in _parts(text):
        match = _COLUMN.match(part)
        if match is None and found:
            raise UsageError(f"{part!r} is not COLUMN=PATTERN, as in mask=masks/{{}}.png: only the first needs no name")
        column = _UNNAMED if match is None else match[0].strip()
        pattern = part if match is None else part[match.end() + 1 :].strip()
        if not column or not pattern:
            raise UsageError(f"{part!r} is not COLUMN=PATTERN, as in mask=masks/{{}}.png")
        found[column] = (*found.get(column, ()), pattern)
    return found


def _of_mapping(given: Mapping[str, str | Sequence[str]]) -> dict[str, tuple[str, ...]]:
    return {column: (one,) if isinstance(one, str) else tuple(one) for column, one in given.items()}


def _parts(text: str) -> list[str]:
    """Cut at the commas that stand in no braces. Raises UsageError: a part is empty."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += letter
    parts = [part.strip() for part in parts]
    if not all(parts):
        raise UsageError(f"{text!r} has an empty part: give text between commas, or leave the option out")
    return parts
