"""Count what a source passes over on purpose, by reason, with the first names of each.

Only the record: a sample that can't be packed is a Reject, and what can't be understood is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from toolkit.sources.names import printable

__all__ = ["FILE_REASONS", "MOST_NAMES", "WORDS", "Skips"]

MOST_NAMES = 1000  # of each reason; all are counted

FILE_REASONS = ("excluded", "hidden", "loops", "not_regular", "broken_links", "other_kinds")
"""Why a file below a folder isn't read, whatever kind the source is of."""

WORDS = {
    "broken_links": ("broken link", "broken links"),
    "empty": ("file without a sample", "files without a sample"),
    "excluded": ("file left out by --include or --exclude", "files left out by --include or --exclude"),
    "hidden": ("hidden name", "hidden names"),
    "loops": ("link back to a folder above", "links back to a folder above"),
    "missing_files": ("row without its file", "rows without their files"),
    "not_regular": ("pipe, socket or device", "pipes, sockets and devices"),
    "other_kinds": ("file of another kind", "files of other kinds"),
    "unlisted": ("file that no row names", "files that no row names"),
}
"""Reasons that kinds of sources share, in words: one, and many of them. Further ones stand in a kind's SourceSpec."""


class Skips:
    """What was passed over. Reasons are words for programs; WORDS and SourceSpec.skips have them for people."""

    def __init__(self, reasons: Iterable[str] = ()) -> None:
        """`reasons` are told with 0 if nothing comes of them."""
        self._counts = dict.fromkeys(reasons, 0)
        self._names: dict[str, list[str]] = {}

    def add(self, reason: str, name: str) -> None:
        """Count one, called `name`: its path below the source."""
        self.count(reason, 1)
        names = self._names.setdefault(reason, [])
        if len(names) < MOST_NAMES:
            names.append(printable(name))

    def count(self, reason: str, number: int) -> None:
        """Count what has no names of its own."""
        self._counts[reason] = self._counts.get(reason, 0) + number

    @property
    def counts(self) -> Mapping[str, int]:
        """How many there were, by reason."""
        return self._counts

    @property
    def names(self) -> Mapping[str, tuple[str, ...]]:
        """The first names of each reason that has any, sorted; printable."""
        return {reason: tuple(sorted(names)) for reason, names in sorted(self._names.items())}
