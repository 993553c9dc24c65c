"""Look at the folder or file that a source is given; say what is near when it isn't there."""

from __future__ import annotations

import os

from toolkit.errors import NotFoundError, StorageError, UsageError, did_you_mean

__all__ = ["not_found", "source_folder"]


def source_folder(root: str | os.PathLike[str]) -> str:
    """Return the absolute path of the folder to scan; links in it stay.

    Raises:
        NotFoundError: It isn't there; names the nearest that is.
        UsageError: It is a file, or no path at all.
        StorageError: Its status can't be read.
    """
    name = os.fsdecode(root)
    if not name or "\0" in name:
        raise UsageError(f"{name!r} is not a path; give the folder that holds the images.")
    base = os.path.abspath(name)
    try:
        os.stat(base)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise not_found(base, "folder") from error
    except OSError as error:
        raise StorageError(f"Can't read {base!r}: {error.strerror or error}.") from error
    if not os.path.isdir(base):
        raise UsageError(f"{base!r} is a file; an image folder is expected. Give the folder it lies in.")
    return base


def not_found(path: str, what: str) -> NotFoundError:
    """Return the error for a path that isn't there, with the nearest name beside it."""
    folder, name = os.path.split(os.path.abspath(path))
    if os.path.islink(path):
        return NotFoundError(f"{path!r} is a broken symbolic link, not a {what}. Mend the link.")
    try:
        siblings = os.listdir(folder)
    except OSError:  # the parent is missing too: no name to suggest
        siblings = []
    return NotFoundError(f"There is no {what} {path!r}.{did_you_mean(name, siblings)}")
