"""A sample that is left out, with the reason.

Only the record: what to do about rejects (count, report, refuse) is decided by whoever packs.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Reject"]


@dataclass(frozen=True, slots=True)
class Reject:
    """One sample that is left out.

    All three texts are valid UTF-8, so that a report can hold them: bytes of a file name that aren't UTF-8
    are written as `\\xff`.

    Attributes:
        source: Where the sample was found, for a person: an absolute path, a URL, a row of a table.
        key: The key it would have had.
        reason: Why it is left out, in lower case and without a full stop.
    """

    source: str
    key: str
    reason: str
