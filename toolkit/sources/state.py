"""What a file was like when it was looked at: a slice is of that file, and of no other under its name."""

from __future__ import annotations

import os
from typing import NamedTuple

from toolkit.errors import SourceError
from toolkit.sources.names import printable
from toolkit.sources.regular import check_regular
from toolkit.storage.files import storage_errors

__all__ = ["FileState", "changed", "check_unchanged", "identity"]


class FileState(NamedTuple):
    """A file's size, times in ns and inode. Time and size can be set back; the change time can't."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        """Return the state that `os.stat` or `os.fstat` tells."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def check_unchanged(path: str, then: FileState, now: FileState) -> None:
    """Raise SourceError when a file isn't what it was."""
    if now != then:
        raise changed(path)


def changed(path: str) -> SourceError:
    """Return the error for a file that was changed between survey and read."""
    return SourceError(f"{printable(path)!r} was changed during the pack: pack again when nothing writes to it")


def identity(path: str) -> tuple[int, int]:
    """Return size and time of a regular file. Raises SourceError: it is none, or StorageError."""
    with storage_errors("read", path):
        status = check_regular(path)
    return status.st_size, status.st_mtime_ns
