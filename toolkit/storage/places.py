"""Read paths as people write them: `~` is the home folder, and a URL is refused instead of becoming a folder `s3:`."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from toolkit.errors import UsageError
from toolkit.storage.files import storage_errors

__all__ = ["is_there", "links_in", "local_path", "real_folder", "real_path"]

_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)", re.DOTALL)


def local_path(given: str, instead: str) -> str:
    """Return the path with a leading ~ or ~user expanded, as a shell does; it need not be there.

    Args:
        given: A path.
        instead: What to do about a URL, for the error: "copy it here and give its folder".

    Raises:
        UsageError: It is a URL, has a NUL character, or is ~user and there is no such user.
    """
    if "\0" in given:
        raise UsageError(f"{given!r} has a NUL character, which no path can have: take it out")
    url = _URL.match(given)
    if url is not None and url["scheme"].lower() == "file":
        raise UsageError(f"{given!r} is a URL: give the path {unquote('/' + url['rest'].partition('/')[2])!r}")
    if url is not None:
        raise UsageError(f"{given!r} is a URL, and only local files are read and written: {instead}")
    expanded = os.path.expanduser(given)
    if given.startswith("~") and expanded == given and not is_there(given):
        raise UsageError(
            f"{given!r}: there is no user {given[1:].partition('/')[0]!r}; a folder of that name is ./{given}"
        )
    return expanded


def is_there(path: str) -> bool:
    """Tell whether something has this path, be it a link that leads nowhere."""
    return os.path.lexists(path)


def real_path(path: str) -> str:
    """Return the one absolute path, without links, that `path` leads to; it need not be there."""
    return os.path.realpath(path)


def real_folder(path: str) -> str:
    """Return the one absolute path, without links, of the folder that `path` is, or that the file there lies in."""
    real = os.path.realpath(path)
    return real if os.path.isdir(real) else os.path.dirname(real)


def links_in(folder: str) -> frozenset[str]:
    """Return the names of the links in a folder. Raises StorageError: it can't be read."""
    with storage_errors("read", folder), os.scandir(folder) as entries:
        return frozenset(entry.name for entry in entries if entry.is_symlink())
