"""Count records that are refused, and stop when there are more than may be."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.errors import RejectsError
from toolkit.pack.report import rejects_text
from toolkit.sources.names import printable
from toolkit.sources.reject import Reject

__all__ = ["Allowance", "Refused", "record_name"]


@dataclass(frozen=True, slots=True)
class Refused:
    """A record that is left out: its number, the place of its split in the list of splits, and the reject."""

    number: int
    split: int
    reject: Reject


class Allowance:
    """How many records may be refused: a number is looked at with each, a share of all at the end. For any thread."""

    def __init__(self, allowed: int | float, before: Sequence[Reject] = ()) -> None:
        """`before` were refused by the pack that this one goes on with."""
        self._allowed = allowed if isinstance(allowed, int) else None
        self._rejects = list(before) if self._allowed is not None else []
        self._lock = threading.Lock()

    def refuse(self, number: int, key: str, split: int, reason: str) -> Refused:
        """Count a record, and return it as one that is left out. Raises RejectsError."""
        return self.count(Refused(number, split, Reject(record_name(number), printable(key), printable(reason))))

    def count(self, refused: Refused) -> Refused:
        """Count a record that is left out. Raises RejectsError."""
        if self._allowed is None:
            return refused
        with self._lock:
            self._rejects.append(refused.reject)
            if len(self._rejects) <= self._allowed:
                return refused
            noun = "record" if len(self._rejects) == 1 else "records"
            raise RejectsError(
                f"{len(self._rejects)} {noun} rejected, {self._allowed} allowed:{rejects_text(self._rejects[-5:])}\n"
                "Nothing is committed. Mend the record, or allow some to be left out by max_rejects="
            )


def record_name(number: int) -> str:
    """Return what a record is called in messages."""
    return f"record {number}"
