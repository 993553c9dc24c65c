"""Count what a source passes over on purpose, by reason, with the first names of each.

Only the record: a sample that can't be packed is a Reject, and what can't be understood is an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

__all__ = ["FILE_REASONS", "MOST_NAMES", "Skips"]

MOST_NAMES = 1000  # of each reason; all are counted

FILE_REASONS = ("excluded", "hidden", "loops", "not_regular", "broken_links", "other_kinds")
"""Why a file below a folder isn't read, whatever kind the source is of."""


class Skips:
    """What was passed over. Reasons are words for programs; how a person reads them is up to toolkit.report."""

    def __init__(self, reasons: Iterable[str] = ()) -> None:
        """`reasons` are told with 0 if nothing comes of them."""
        self._counts = dict.fromkeys(reasons, 0)
        self._names: dict[str, list[str]] = {}

    def add(self, reason: str, name: str) -> None:
        """Count one, called `name`: its path below the source."""
        self.count(reason, 1)
        names = self._names.setdefault(reason, [])
        if len(names) < MOST_NAMES:
            names.append(name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace"))

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
