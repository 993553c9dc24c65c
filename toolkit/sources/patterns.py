"""Glob patterns on the names of input files: which are taken. Knows names only, reads nothing."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Sequence

__all__ = ["Patterns"]

_MAGIC = re.compile(r"[*?\[]")


class Patterns:
    """A file is taken when its name matches one of `include`, if there are any, and none of `exclude`.

    Names are paths below the source with "/" between parts; `*` matches "/" too, as in fnmatch. A pattern of `exclude`
    that matches a folder leaves out all that is in it.
    """

    def __init__(self, include: Sequence[str], exclude: Sequence[str]) -> None:
        """Compile the patterns."""
        left_out = [pattern.rstrip("/") for pattern in exclude]
        self._include = _compiled(include)
        self._exclude = _compiled([*left_out, *(f"{pattern}/*" for pattern in left_out)])
        self._folders = _compiled([*left_out, *(one.removesuffix("/*") for one in left_out)])
        self._starts = [_literal_start(pattern) for pattern in include]

    def __bool__(self) -> bool:
        """Tell whether there is any pattern."""
        return self._include is not None or self._exclude is not None

    def takes(self, name: str) -> bool:
        """Tell whether the file of that name is taken."""
        if self._include is not None and not self._include.match(name):
            return False
        return self._exclude is None or not self._exclude.match(name)

    def may_take_below(self, folder: str) -> bool:
        """Tell whether a file below the folder may be taken: False only where that is certain."""
        if self._folders is not None and self._folders.match(folder):
            return False
        inside = f"{folder}/"
        return not self._starts or any(start.startswith(inside) or inside.startswith(start) for start in self._starts)


def _compiled(patterns: Iterable[str]) -> re.Pattern[str] | None:
    text = "|".join(map(fnmatch.translate, patterns))
    return re.compile(text) if text else None


def _literal_start(pattern: str) -> str:
    match = _MAGIC.search(pattern)
    return pattern[: match.start()] if match else pattern
