"""What text files are called, and so what their lines are: their content doesn't tell."""

from __future__ import annotations

from toolkit.sources.file_names import PACKED

__all__ = ["LINES", "PACKED", "PLAIN", "is_lines", "is_plain", "looks_like_text"]

LINES = (".jsonl", ".ndjson", ".json")
PLAIN = (".txt", ".text", ".md")

_LINE_SUFFIXES = tuple(stem + packed for stem in LINES for packed in PACKED)
_PLAIN_SUFFIXES = tuple(stem + packed for stem in PLAIN for packed in PACKED)


def looks_like_text(path: str) -> bool:
    """Tell whether a file is called as text files are."""
    return is_lines(path) or is_plain(path)


def is_lines(path: str) -> bool:
    """Tell whether the name says that each line is a document."""
    return path.lower().endswith(_LINE_SUFFIXES)


def is_plain(path: str) -> bool:
    """Tell whether the name says that the file is a document."""
    return path.lower().endswith(_PLAIN_SUFFIXES)
