"""File names as the system gives them: bytes that may be no UTF-8, and what can be stored and shown of them."""

from __future__ import annotations

import os

__all__ = ["is_utf8", "printable"]


def is_utf8(name: str) -> bool:
    """Tell whether a file name as the system gave it is valid UTF-8."""
    if name.isascii():
        return True
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def printable(name: str) -> str:
    """Return a file name with bytes that aren't UTF-8 written as `\\xff`, so that it can be stored.

    Other text may have half of a surrogate pair, which stands for no byte: it becomes `\\ud800`.
    """
    if is_utf8(name):
        return name
    try:
        return os.fsencode(name).decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:
        return name.encode("utf-8", "backslashreplace").decode()
