"""List the files of one folder of a source, and read small ones of them whole; links stay below the source."""

from __future__ import annotations

import os
from collections.abc import Callable

from toolkit.errors import SourceError
from toolkit.sources.contents import UnfitError
from toolkit.sources.files import refuse, stays_within, walk
from toolkit.sources.names import printable
from toolkit.sources.regular import open_file
from toolkit.sources.skips import Skips
from toolkit.storage.files import storage_errors

__all__ = ["files_below", "read_small", "refuse_outside"]


def files_below(root: str, folder: str, *, follow_links: bool, skips: Skips) -> list[str]:
    """Return the paths of all files below a folder of `root`, relative to `root` with "/", in the order of names.

    Hidden names, loops and broken links are noted and left out.

    Raises:
        SourceError: A link leads out of `root`, and links aren't to be followed.
        StorageError: A folder can't be read.
    """
    stays = (lambda _: True) if follow_links else stays_within([os.path.realpath(root)])
    top = os.path.join(root, folder) if folder else root
    enter = _Enter(stays, root)
    enter(top)
    found = []

    def name_of(path: str) -> str:
        return os.path.relpath(path, root).replace(os.sep, "/")

    def enters(path: str) -> bool:
        return not os.path.islink(path) or enter(path)

    for base, names in walk(top, refuse, enters, lambda reason, path: skips.add(reason, name_of(path))):
        start = name_of(base)
        for name in names:
            path = os.path.join(base, name)
            shown = name if start == "." else f"{start}/{name}"
            if name.startswith("."):
                skips.add("hidden", shown)
            elif not os.path.islink(path):
                found.append(shown)
            elif not os.path.exists(path):
                skips.add("broken_links", shown)
            else:
                enter(path)
                found.append(shown)
    return found


class _Enter:
    """Refuses links that lead out of the source."""

    def __init__(self, stays: Callable[[str], bool], root: str) -> None:
        self._stays = stays
        self._root = root

    def __call__(self, path: str) -> bool:
        if not self._stays(path):
            raise _outside(path, self._root)
        return True


def refuse_outside(path: str, root: str, *, follow_links: bool) -> None:
    """Raise SourceError when a path below `root` leads out of it by a link, and links aren't to be followed."""
    if not follow_links and not stays_within([os.path.realpath(root)])(path):
        raise _outside(path, root)


def _outside(path: str, root: str) -> SourceError:
    return SourceError(
        f"{printable(path)!r} is a link that leads out of {printable(root)!r}, to "
        f"{printable(os.path.realpath(path))!r}: give --follow-links if that is meant"
    )


def read_small(path: str, most: int) -> bytes:
    """Return what a regular file of at most `most` bytes holds.

    Raises:
        UnfitError: It has more.
        SourceError: It is no regular file.
        StorageError: It can't be read.
    """
    with storage_errors("read", path), open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        data = file.readall() if size <= most else b""
    if max(size, len(data)) > most:
        raise UnfitError(f"it has more than {most} bytes, which no such file needs")
    return data
