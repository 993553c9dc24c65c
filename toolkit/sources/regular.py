"""Open regular files only: a named pipe would be waited for without end, and a device may never come to one."""

from __future__ import annotations

import os
import stat
from io import FileIO

from toolkit.errors import SourceError
from toolkit.sources.names import printable

__all__ = ["check_regular", "open_file", "open_regular"]

_TYPES = {
    stat.S_IFIFO: "a named pipe (FIFO)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def check_regular(path: str) -> os.stat_result:
    """Return the status of what `path` leads to. Raises SourceError when that is no regular file, or OSError."""
    return _checked(path, os.stat(path))


def open_regular(path: str) -> int:
    """Return a descriptor to read `path`. Raises SourceError when it is no regular file, or OSError."""
    check_regular(path)  # first, since opening a device may do something already
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        _checked(path, os.fstat(fd))
    except BaseException:
        os.close(fd)
        raise
    return fd


def open_file(path: str) -> FileIO:
    """Return `path` opened to read, without a buffer. Raises as open_regular()."""
    return FileIO(open_regular(path), "rb")


def _checked(path: str, status: os.stat_result) -> os.stat_result:
    if not stat.S_ISREG(status.st_mode):
        what = _TYPES.get(stat.S_IFMT(status.st_mode), "something else")
        raise SourceError(f"{printable(path)!r} is {what}, and inputs are regular files: write it to a file first")
    return status
