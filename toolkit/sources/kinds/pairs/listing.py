"""Find the paired files of a folder: by names alone, in columns of paths, not an object each.

Opens nothing and looks at no file's status: that is for whoever reads them.
"""

from __future__ import annotations

import os
from array import array
from typing import Any

import numpy as np
import pyarrow as pa

from toolkit.sources.files import refuse, walk
from toolkit.sources.kinds.pairs.patterns import Patterns
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.patterns import Patterns as Globs
from toolkit.sources.reject import Reject
from toolkit.sources.skips import Skips
from toolkit.storage.files import storage_errors

__all__ = ["Listed", "list_pairs"]

NOT_UTF8 = "name is not valid UTF-8"


class Listed:
    """The files of one column: their paths below the source, and their stems, as large_string arrays."""

    def __init__(self) -> None:
        self._paths, self._stems = bytearray(), bytearray()
        self._path_ends, self._stem_ends = array("q", [0]), array("q", [0])

    def __len__(self) -> int:
        return len(self._path_ends) - 1

    def add(self, path: str, stem: str) -> None:
        """Take note of a file."""
        self._paths += path.encode()
        self._path_ends.append(len(self._paths))
        self._stems += stem.encode()
        self._stem_ends.append(len(self._stems))

    @property
    def paths(self) -> pa.Array:
        """Their paths."""
        return _texts(self._paths, self._path_ends)

    @property
    def stems(self) -> pa.Array:
        """What they have in common with the other files of their sample."""
        return _texts(self._stems, self._stem_ends)


def list_pairs(
    top: str, patterns: Patterns, globs: Globs, skips: Skips
) -> tuple[tuple[Listed, ...], tuple[Reject, ...]]:
    """Return the files of each column below `top`, and those whose names can't be keys.

    What is passed over is noted: hidden names, what --include and --exclude leave out, and what fits no pattern; a
    folder in which nothing can fit counts once.

    Raises:
        SourceError: A file fits two patterns.
        StorageError: A folder can't be read.
    """
    listed = tuple(Listed() for _ in patterns.columns)
    rejects = []

    def name_of(path: str) -> str:
        return os.path.relpath(path, top).replace(os.sep, "/")

    def enter(folder: str) -> bool:
        name = name_of(folder)
        if os.path.basename(folder) == "__MACOSX":
            skips.add("hidden", name)
        elif not globs.may_take_below(name):
            skips.add("excluded", name)
        elif not patterns.may_match_below(name):
            skips.add("no_pattern", f"{name}/")
        else:
            return True
        return False

    with storage_errors("read", top):
        for folder, files in walk(top, refuse, enter, lambda reason, path: skips.add(reason, name_of(path))):
            above = "" if folder == top else f"{name_of(folder)}/"
            for file in files:
                path = above + file
                if file.startswith("."):
                    skips.add("hidden", path)
                elif not globs.takes(path):
                    skips.add("excluded", path)
                elif (found := patterns.match(path)) is None:
                    skips.add("no_pattern", path)
                elif not is_utf8(path):
                    source = printable(os.path.join(os.path.abspath(top), path))
                    rejects.append(Reject(source, printable(path), NOT_UTF8))
                else:
                    listed[found[0]].add(path, found[1])
    return listed, tuple(rejects)


def _texts(text: bytearray, ends: array[Any]) -> pa.Array:
    offsets = pa.py_buffer(np.frombuffer(ends, np.int64).copy())
    return pa.Array.from_buffers(pa.large_string(), len(ends) - 1, [None, offsets, pa.py_buffer(bytes(text))])
