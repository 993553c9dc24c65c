"""Find the datasets of an HDF5 file by its links. None is followed out of the file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from toolkit.errors import SourceError
from toolkit.sources.arrays.naming import is_wanted
from toolkit.sources.kinds.hdf5.dataset import Hdf5Array, read_dataset
from toolkit.sources.kinds.hdf5.opened import h5py_module, hdf5_errors, opened, state_of
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.skips import Skips

__all__ = ["arrays_in"]

_MOST_OBJECTS = 10_000
_MOST_ARRAYS = 1000
_MOST_DEPTH = 32
_MOST_LINKS = 16  # one behind the other


def arrays_in(path: str, options: SourceOptions, skips: Skips) -> list[Hdf5Array]:
    """Return the datasets of a file that are wanted, sorted by name. Attributes are counted and left out.

    Raises:
        SourceError: The file is damaged; a dataset, or a link, leads to other files.
        StorageError: It can't be read.
    """
    state = state_of(path)
    shown = repr(printable(path))
    with opened(path, state) as file:
        walk = _Walk(file, shown, options, skips)
        with hdf5_errors(shown):
            found = list(walk.below(file, "", 0))
            if len(found) > _MOST_ARRAYS:
                raise SourceError(
                    f"{shown} has {len(found)} datasets, and {_MOST_ARRAYS} at the most become columns: rows are the "
                    "first index of datasets, and samples that are a dataset each can't be packed. Name some with "
                    "--columns"
                )
            return [read_dataset(name, path, state, place, file[place]) for name, place in found]


class _Walk:
    """Looks at every link once."""

    def __init__(self, file: Any, shown: str, options: SourceOptions, skips: Skips) -> None:
        self._h5py = h5py_module()
        self._file = file
        self._shown = shown
        self._options = options
        self._skips = skips
        self._groups: set[int] = set()
        self._left = _MOST_OBJECTS

    def below(self, group: Any, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
        """Yield the name of each dataset in a group and below it, and where it lies."""
        address = self._h5py.h5o.get_info(group.id).addr
        if address in self._groups:  # a hard link back
            return
        self._groups.add(address)
        if depth > _MOST_DEPTH:
            raise SourceError(f"{self._shown}: groups lie more than {_MOST_DEPTH} deep in each other")
        self._skips.count("attributes", len(group.attrs))
        for key in sorted(group):
            self._left -= 1
            if self._left < 0:
                raise SourceError(f"{self._shown} has more than {_MOST_OBJECTS:,} groups and datasets: not a table")
            name = f"{prefix}{key}"
            if not is_utf8(name):
                raise SourceError(f"{self._shown}: the name {printable(name)!r} is not valid UTF-8: rename it")
            yield from self._entry(group, key, name, depth)

    def _entry(self, group: Any, key: str, name: str, depth: int) -> Iterator[tuple[str, str]]:
        if not isinstance(group.get(key, getlink=True), self._h5py.HardLink):
            if self._is_asked_for(name):
                place = self._resolved(f"/{name}", name, _MOST_LINKS)
                if self._file.get(place, getclass=True) is self._h5py.Dataset:
                    yield name, place
                else:  # its datasets are found where they lie
                    self._skips.add("links", name)
            return
        kind = group.get(key, getclass=True)
        if kind is self._h5py.Group:
            yield from self.below(group[key], f"{name}/", depth + 1)
        elif kind is self._h5py.Dataset and is_wanted(name, self._options):
            self._skips.count("attributes", len(group[key].attrs))
            yield name, f"/{name}"

    def _is_asked_for(self, name: str) -> bool:
        asked = self._options.columns or tuple((self._options.map or {}).values())
        return is_wanted(name, self._options) or any(one.startswith(f"{name}/") for one in asked)

    def _resolved(self, path: str, name: str, links: int) -> str:
        """Return where a path leads, by way of links within the file. Raises SourceError: it leads out, or nowhere."""
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
