"""What stands for values that stay where they are, so that a changed file is told from the one that was indexed."""

from __future__ import annotations

import enum

__all__ = ["Trust"]


class Trust(enum.Enum):
    """How a value that is read is known for what was indexed."""

    HASH = "hash"
    """By sums of its bytes: every file is read once when it is indexed."""

    STAT = "stat"
    """By its file's size and time: nothing is read, and nothing is said of what the file holds."""
