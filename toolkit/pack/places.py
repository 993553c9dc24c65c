"""Places in the input as reports name them: from the input's own name on, and nothing of the machine."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from toolkit.sources.names import printable
from toolkit.storage.places import is_there, real_path

__all__ = ["Places", "fixed_head"]

_PATTERN = frozenset("*?[{")


class Places:
    """Shortens the paths of a pack's inputs, wherever they occur in a text: /home/me/photos/a.jpg is photos/a.jpg."""

    def __init__(self, sources: Sequence[str]) -> None:
        """`sources`: the inputs as they were given: folders, files, glob patterns, brace lists."""
        names: dict[str, str] = {}
        for given in sources:
            root = fixed_head(given)
            for form in (given, root, os.path.normpath(root), os.path.abspath(root), real_path(root)):
                name = os.path.basename(os.path.abspath(form))
                if form.rstrip("/") not in ("", ".", ".."):
                    names[printable(form.rstrip("/"))] = printable(name)
        self._names = names
        longest_first = sorted(map(re.escape, names), key=len, reverse=True)
        # A whole path or the start of one: neither the end of a longer path nor the start of a longer name.
        self._paths = re.compile(rf"(?<![^\s'\"(])(?:{'|'.join(longest_first) or '(?!)'})(?=$|[/\s'\"#,:;)])")

    def shorten(self, text: str) -> str:
        """Return the text with every path below an input written from the input's name on."""
        return self._paths.sub(lambda match: self._names[match[0]], text)

    def place(self, text: str) -> str:
        """Return a text that begins with a path, which is never left absolute: at the worst, its last part stays."""
        shortened = self.shorten(text)
        return shortened.rpartition("/")[2] if shortened.startswith("/") else shortened


def fixed_head(given: str) -> str:
    """Return the part of an input that isn't a pattern."""
    if is_there(given):
        return given
    root = given
    while _PATTERN.intersection(root):
        root = os.path.dirname(root)
    return root
