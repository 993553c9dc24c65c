"""Long rows of like cases: a kill at every call, a flip of every byte. A run takes a part of them, `make matrices` all.

A part is every third case and the last ones, so that each place of the code is still met.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

__all__ = ["some_of"]

T = TypeVar("T")

_EACH = 3
_LAST = 4


def some_of(cases: Sequence[T], each: int = _EACH) -> list[T]:
    """Return the cases that this run takes, in order; `each`: so many stand for one."""
    if os.environ.get("EVERY_CASE"):
        return list(cases)
    return [case for number, case in enumerate(cases) if number % each == 0 or number >= len(cases) - _LAST]
