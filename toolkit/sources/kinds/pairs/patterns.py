"""Patterns of paired files: which column a path belongs to, and what it has in common with those of its sample.

A pattern is a path below the source in which `{}` stands for the stem, any text of one character or more, folders too,
and `{a,b}` for a or b. All else stands for itself; only the extension's capitals don't matter. Knows no file system.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toolkit.errors import SourceError, UsageError
from toolkit.sources.names import printable

__all__ = ["Pattern", "Patterns", "read_patterns"]

_STEM = "{}"
_CHOICE = re.compile(r"\{([^{}]+)\}")
_MOST_CHOICES = 256


@dataclass(frozen=True, slots=True)
class Pattern:
    """What one way to call a column's files is: `before` the stem and `behind` it, literally."""

    column: int
    before: str
    behind: str

    @property
    def length(self) -> int:
        """How much of a path it says."""
        return len(self.before) + len(self.behind)

    @property
    def extension(self) -> str:
        """What files are called behind their last dot, in lower case: "" where the pattern has none."""
        return _extension(self.behind)[1:].lower()

    @property
    def text(self) -> str:
        """The pattern as it is written."""
        return f"{self.before}{_STEM}{self.behind}"

    def stem(self, path: str) -> str | None:
        """Return the stem of a path that the pattern matches, or None."""
        if len(path) <= self.length or not path.startswith(self.before):
            return None
        if not path.endswith(self.behind):
            extension = _extension(self.behind)
            rest = path[: len(path) - len(extension)]
            if not rest.endswith(self.behind[: len(self.behind) - len(extension)]):
                return None
            if path[len(rest) :].lower() != extension.lower():
                return None
        return path[len(self.before) : len(path) - len(self.behind)]

    def path(self, stem: str) -> str:
        """Return the path of a stem's file."""
        return f"{self.before}{stem}{self.behind}"


@dataclass(frozen=True)
class Patterns:
    """The patterns of all columns.

    Attributes:
        columns: Names of the columns, in order.
        every: All patterns: those of a column behind each other, as they were given.
    """

    columns: tuple[str, ...]
    every: tuple[Pattern, ...]

    def of(self, column: int) -> list[Pattern]:
        """Return those of a column."""
        return [pattern for pattern in self.every if pattern.column == column]

    def match(self, path: str) -> tuple[int, str] | None:
        """Return the column that a path belongs to, and its stem: by the pattern that says most of it; None: by none.

        Raises:
            SourceError: Patterns of two columns say as much.
        """
        best: Pattern | None = None
        found = ""
        rival: Pattern | None = None
        for pattern in self.every:
            stem = pattern.stem(path)
            if stem is None:
                continue
            if best is None or pattern.length > best.length:
                best, found, rival = pattern, stem, None
            elif pattern.length == best.length and pattern.column != best.column:
                rival = pattern
        if best is None:
            return None
        if rival is not None:
            raise SourceError(
                f"{printable(path)!r} fits two patterns equally: {self.columns[best.column]}={best.text} and "
                f"{self.columns[rival.column]}={rival.text}. Say more in one of them, or leave the file out with "
                "--exclude"
            )
        return best.column, found

    def may_match_below(self, folder: str) -> bool:
        """Tell whether a file below the folder may match: False only where that is certain."""
        inside = f"{folder}/"
        return any(one.before.startswith(inside) or inside.startswith(one.before) for one in self.every)


def read_patterns(given: Mapping[str, Sequence[str]]) -> Patterns:
    """Return the patterns of --pair.

    Raises:
        UsageError: One is no pattern, or there is none.
    """
    every = []
    for column, (name, texts) in enumerate(given.items()):
        if not texts:
            raise UsageError(f"--pair {name}: there is no pattern, as in {name}=images/{{}}.jpg")
        for text in texts:
            every += [Pattern(column, *one) for one in _read(text)]
    if not every:
        raise UsageError("--pair: there is no pattern, as in --pair 'images/{}.jpg' 'mask=masks/{}.png'")
    seen: dict[tuple[str, str], Pattern] = {}
    for pattern in every:
        first = seen.setdefault((pattern.before, pattern.behind), pattern)
        if first is not pattern:
            raise UsageError(f"--pair has the pattern {pattern.text!r} twice: give each once")
    return Patterns(tuple(given), tuple(every))


def _read(text: str) -> list[tuple[str, str]]:
    """Return what stands before and behind the stem, for each choice. Raises UsageError."""
    plain = text.removeprefix("./")
    if plain.startswith("/") or ".." in plain.split("/") or "\0" in plain:
        raise UsageError(f"--pair {text!r}: patterns are paths below SOURCE, without '..'")
    if plain.count(_STEM) != 1:
        raise UsageError(
            f"--pair {text!r}: a pattern has {{}} once, for what the files of a sample have in common, as in "
            "images/{}.jpg"
        )
    if any(letter in plain for letter in "*?"):
        raise UsageError(f"--pair {text!r}: patterns have no wildcards but {{}}, which stands for folders too")
    before, behind = plain.split(_STEM)
    choices = [(one, other) for one in _chosen(before, text) for other in _chosen(behind, text)]
    if len(choices) > _MOST_CHOICES:
        raise UsageError(f"--pair {text!r} stands for more than {_MOST_CHOICES} patterns")
    return choices


def _chosen(text: str, whole: str) -> list[str]:
    """Return what a text with {a,b} stands for, in order. Raises UsageError."""
    match = _CHOICE.search(text)
    if match is None:
        if "{" in text or "}" in text:
            raise UsageError(f"--pair {whole!r}: a brace has no other one; {{}} is the stem, {{jpg,png}} a choice")
        return [text]
    ends = _chosen(text[match.end() :], whole)
    found = [text[: match.start()] + one.strip() + end for one in match[1].split(",") for end in ends]
    if len(found) > _MOST_CHOICES:
        raise UsageError(f"--pair {whole!r} stands for more than {_MOST_CHOICES} patterns")
    return found


def _extension(behind: str) -> str:
    """Return the last dot of what stands behind a stem and what follows it; "" without one."""
    base = behind.rpartition("/")[2]
    dot = base.rfind(".")
    return "" if dot < 0 else base[dot:]
