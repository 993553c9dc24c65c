"""Find below which root each file lies, and by which path: what a dataset holds names no place of this machine.

A root is the folder of an input. Links are resolved here, once: whoever reads follows none below a root.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from toolkit.format.arrays import to_array
from toolkit.pack.places import fixed_head
from toolkit.sources.in_place import Places, check_place
from toolkit.sources.names import printable
from toolkit.sources.path_arrays import folder_starts, repeated, without_heads
from toolkit.storage.places import links_in, real_folder, real_path

__all__ = ["Located", "Roots"]

_NAME = "source"
_ROWS_A_FOLDER = 8  # with fewer, one by one is as fast


@dataclass(frozen=True, slots=True)
class Located(Places):
    """Places whose `files` are paths below roots.

    Attributes:
        roots: string: the names of those roots; null where there is no value.
    """

    roots: pa.Array


class _Folder(NamedTuple):
    """A folder that files lie in: its root's name, what a path below that begins with, and which files are links."""

    root: str | None
    head: str
    links: frozenset[str]


class Roots:
    """The roots of a pack's inputs. Used by every packing thread at once.

    Attributes:
        places: Their real folders, by name, in the order of the inputs.
    """

    def __init__(self, sources: Sequence[str], known: Mapping[str, str], taken: Sequence[str] = ()) -> None:
        """Name the folders of the inputs: source, source-2 and so on.

        Args:
            sources: The inputs as they were given.
            known: Roots that have their names already.
            taken: Names that no other root may have.
        """
        names = {place: name for name, place in known.items()}
        used = {*known, *taken}
        self.places: dict[str, str] = {}
        for given in sources:
            place = real_folder(fixed_head(given) or ".")
            check_place(place)
            if place not in names:
                names[place] = next(name for name in map(_name, itertools.count(1)) if name not in used)
                used.add(names[place])
            self.places[names[place]] = place
        # The longest first: a file lies below the nearest of roots that lie in each other.
        self._heads = sorted(((_head(place), name) for name, place in self.places.items()), reverse=True, key=_length)
        self._folders: dict[str, _Folder] = {}

    def located(self, places: Places) -> tuple[Located, dict[int, str]]:
        """Return the places below their roots; and for rows whose files lie below none, why that can't be."""
        plain = self._plain(places.files)
        if plain is not None:
            return _located(places, *plain), {}
        roots: list[str | None] = []
        paths: list[str | None] = []
        outside: dict[int, str] = {}
        before, root, path = None, None, None
        for row, file in enumerate(places.files.to_pylist()):
            if file is None:
                roots.append(None)
                paths.append(None)
                continue
            if file != before:  # many rows of a tar lie in one
                before, (root, path) = file, self._locate(file)
            if root is None:
                outside[row] = (
                    f"a link leads to it from {printable(os.path.dirname(file))!r}, and no SOURCE holds "
                    f"{printable(path or '')!r}: give the folder that it lies in as another SOURCE"
                )
            roots.append(root)
            paths.append(path)
        return _located(places, to_array(roots, pa.string()), to_array(paths, pa.string())), outside

    def _plain(self, files: pa.Array) -> tuple[pa.Array, pa.Array] | None:
        """Return roots and paths, folder by folder in place of one by one; None where a link or a null is in the way.

        Most files have plain paths, and lie beside the one before.
        """
        rows = len(files)
        if not rows or files.null_count:
            return None
        starts, lengths = folder_starts(files)
        if len(starts) > rows // _ROWS_A_FOLDER + 1:
            return None
        names, cuts = [], np.empty(rows, np.int64)
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), rows], strict=True):
            folder = files[start].as_py().rpartition("/")[0]
            root, head, links = self._found(folder)
            if root is None or links or not _head(folder).endswith(f"/{head}"):
                return None
            names.append(root)
            cuts[start:stop] = lengths[start] + 1 - len(head.encode())
        if len(set(names)) == 1:
            return repeated(names[0], rows), without_heads(files, cuts)
        counts = np.diff([*starts, rows]).tolist()
        roots = [name for name, count in zip(names, counts, strict=True) for _ in range(count)]
        return to_array(roots, pa.string()), without_heads(files, cuts)

    def _locate(self, file: str) -> tuple[str | None, str]:
        """Return the name of a file's root and its path below, or None and its real path."""
        folder, _, name = file.rpartition("/")
        found = self._found(folder)
        if name not in found.links:
            return found.root, found.head + name
        return self._below(real_path(file))

    def _found(self, folder: str) -> _Folder:
        found = self._folders.get(folder)
        if found is None:
            found = self._folders[folder] = self._folder(folder)
        return found

    def _folder(self, folder: str) -> _Folder:
        root, head = self._below(_head(real_path(folder or "/")))
        return _Folder(root, head, links_in(folder or "/"))

    def _below(self, real: str) -> tuple[str | None, str]:
        for head, name in self._heads:
            if real.startswith(head):
                return name, real[len(head) :]
        return None, real


def _located(places: Places, roots: pa.Array, paths: pa.Array) -> Located:
    given = {one.name: getattr(places, one.name) for one in fields(Places)}
    return Located(**{**given, "files": paths}, roots=roots)


def _name(number: int) -> str:
    return _NAME if number == 1 else f"{_NAME}-{number}"


def _head(folder: str) -> str:
    return folder if folder.endswith("/") else f"{folder}/"


def _length(root: tuple[str, str]) -> int:
    return len(root[0])
