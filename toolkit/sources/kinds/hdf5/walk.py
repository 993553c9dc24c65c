"""Find the datasets of an HDF5 file by its links. None is followed out of the file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toolkit.errors import SourceError
from toolkit.sources.arrays.naming import Names
from toolkit.sources.kinds.hdf5.dataset import Hdf5Array, read_dataset
from toolkit.sources.kinds.hdf5.opened import h5py_module, hdf5_errors, opened, state_of
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.options import SourceOptions

__all__ = ["Found", "arrays_in"]

_MOST_OBJECTS = 10_000
_MOST_ARRAYS = 1000
_MOST_DEPTH = 32
_MOST_LINKS = 16  # one behind the other


@dataclass(frozen=True, slots=True)
class Found:
    """What a file holds.

    Attributes:
        arrays: The datasets that are wanted, sorted by name.
        names: The names of all datasets, and of the links to some.
        links: The names of links to groups.
        attributes: How many attributes groups have, and the datasets that are wanted.
    """

    arrays: list[Hdf5Array]
    names: list[str]
    links: list[str]
    attributes: int


def arrays_in(path: str, options: SourceOptions, alive: Callable[[], None] = lambda: None) -> Found:
    """Return what a file holds. `alive` is called again and again meanwhile.

    Raises:
        SourceError: The file is damaged; a dataset, or a link, leads to other files.
        StorageError: It can't be read.
    """
    state = state_of(path)
    shown = repr(printable(path))
    with opened(path, state) as file, hdf5_errors(shown):
        walk = _Walk(file, shown, alive)
        walk.below(file, "", 0)
        to_groups = walk.drop_links_to_groups()
        all_names = [*walk.datasets, *walk.links]
        names = Names(all_names, options)
        chosen = sorted(name for name in all_names if names.is_wanted(name))
        if len(chosen) > _MOST_ARRAYS:
            raise SourceError(
                f"{shown} has {len(chosen)} datasets, and {_MOST_ARRAYS} at the most become columns: rows are the "
                "first index of datasets, and samples that are a dataset each can't be packed. Name some with "
                "--columns"
            )
        places = {name: f"/{name}" if name in walk.datasets else walk.resolved(name) for name in chosen}
        arrays = []
        for name, place in places.items():
            alive()
            arrays.append(read_dataset(name, path, state, place, file[place]))
    return Found(arrays, all_names, to_groups, walk.attributes + sum(array.attributes for array in arrays))


class _Walk:
    """Looks at every link once.

    Attributes:
        datasets: Names of the datasets that are there by hard links.
        links: Names of other links.
        attributes: How many groups have.
    """

    def __init__(self, file: Any, shown: str, alive: Callable[[], None]) -> None:
        self.datasets: set[str] = set()
        self.links: set[str] = set()
        self.attributes = 0
        self._h5py = h5py_module()
        self._file = file
        self._shown = shown
        self._alive = alive
        self._groups: set[int] = set()
        self._left = _MOST_OBJECTS

    def below(self, group: Any, prefix: str, depth: int) -> None:
        """Find what is in a group and below it."""
        address = self._h5py.h5o.get_info(group.id).addr
        if address in self._groups:  # a hard link back
            return
        self._groups.add(address)
        if depth > _MOST_DEPTH:
            raise SourceError(f"{self._shown}: groups lie more than {_MOST_DEPTH} deep in each other")
        self.attributes += len(group.attrs)
        for key in sorted(group):
            self._alive()
            self._left -= 1
            if self._left < 0:
                raise SourceError(f"{self._shown} has more than {_MOST_OBJECTS:,} groups and datasets: not a table")
            name = f"{prefix}{key}"
            if not is_utf8(name):
                raise SourceError(f"{self._shown}: the name {printable(name)!r} is not valid UTF-8: rename it")
            if not isinstance(group.get(key, getlink=True), self._h5py.HardLink):
                self.links.add(name)
                continue
            kind = group.get(key, getclass=True)
            if kind is self._h5py.Group:
                self.below(group[key], f"{name}/", depth + 1)
            elif kind is self._h5py.Dataset:
                self.datasets.add(name)

    def drop_links_to_groups(self) -> list[str]:
        """Return the links that lead to groups of the file: datasets in those are found where they lie."""
        dropped = []
        for name in sorted(self.links):
            self._alive()
            try:
                place = self.resolved(name)
            except SourceError:  # told where it is asked for
                continue
            if self._file.get(place, getclass=True) is not self._h5py.Dataset:
                self.links.remove(name)
                dropped.append(name)
        return dropped

    def resolved(self, name: str) -> str:
        """Return where a link leads within the file. Raises SourceError: it leads out of it, or nowhere."""
        return self._resolved(f"/{name}", name, _MOST_LINKS)

    def _resolved(self, path: str, name: str, links: int) -> str:
        at, place = self._file, ""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        for i, part in enumerate(parts):
            link = at.get(part, getlink=True) if isinstance(at, self._h5py.Group) and part in at else None
            match link:
                case self._h5py.HardLink():
                    at, place = at[part], f"{place}/{part}"
                case self._h5py.SoftLink() if links:
                    beyond = link.path if link.path.startswith("/") else f"{place}/{link.path}"
                    return self._resolved("/".join([beyond, *parts[i + 1 :]]), name, links - 1)
                case self._h5py.ExternalLink():
                    raise SourceError(
                        f"{self._shown}: {name!r} is a link to another file, {printable(str(link.filename))!r}: only "
                        "the file itself is read. Write a copy that has it, or name the arrays to pack with --columns"
                    )
                case _:
                    raise SourceError(
                        f"{self._shown}: {name!r} is a link that leads nowhere ({printable(path)!r}): mend it, or name "
                        "the arrays to pack with --columns"
                    )
        return place or "/"
