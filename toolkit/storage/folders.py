"""List and empty folders without following a link: what lies elsewhere is neither listed nor removed.

A folder is opened once and worked in by its descriptor, so that it can't become a link between the look and the act.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator

from toolkit.errors import UsageError
from toolkit.storage.files import refused_link, storage_errors
from toolkit.storage.store import Entry

__all__ = ["list_folder", "make_folder", "remove_files"]


def list_folder(path: str) -> list[Entry]:
    """Return what is in the folder at `path`, by name; nothing when there is no such folder.

    Raises:
        UsageError: `path` itself is a link, or no folder.
        StorageError: The file system refuses.
    """
    with storage_errors("list", path), _opened(path) as fd:
        return [] if fd is None else [_entry(fd, name) for name in sorted(os.listdir(fd))]


def make_folder(path: str) -> bool:
    """Make a folder below one that is there; tell whether it was missing. Raises as list_folder()."""
    with storage_errors("create", path):
        with _opened(path) as fd:
            if fd is not None:
                return False
        os.mkdir(path)
        return True


def remove_files(path: str, names: Iterable[str], *, durable: bool) -> None:
    """Remove files, or links themselves, from the folder at `path`; those that are gone are passed over.

    `durable`: sync the folder then.

    Raises: As list_folder().
    """
    names = tuple(names)
    if not names:
        return
    with storage_errors("remove files from", path), _opened(path) as fd:
        if fd is None:
            return
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=fd)
        if durable:
            os.fsync(fd)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int | None]:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        if os.path.islink(path):
            raise refused_link(path, "folder") from error
        raise UsageError(f"{path!r} is no folder: move it away") from error
    try:
        yield fd
    finally:
        os.close(fd)


def _entry(folder: int, name: str) -> Entry:
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:  # it went since it was listed
        return Entry(name, None, is_folder=False)
    mode = info.st_mode
    size = info.st_size if stat.S_ISREG(mode) else None
    return Entry(name, size, is_folder=stat.S_ISDIR(mode))
