"""Read and write files of the local file system so that a kill leaves the old file or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO

from toolkit.errors import StorageError, UsageError
from toolkit.storage.store import TEMPORARY_PREFIX

__all__ = [
    "NoFileError",
    "durable_file",
    "fsync_directory",
    "new_file",
    "open_regular",
    "read_file",
    "read_range",
    "reason_of",
    "refused_link",
    "storage_error",
    "storage_errors",
    "temporary_name",
    "write_durable",
]

_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space and run again",
    errno.EDQUOT: "the disk quota is used up: free some space and run again",
    errno.EFBIG: "the file size limit is reached (ulimit -f): raise it and run again",
    errno.EACCES: "permission denied: check the owner and mode",
    errno.EPERM: "permission denied: check the owner and mode",
    errno.EROFS: "the file system is read-only",
    errno.EMFILE: "too many open files: raise `ulimit -n`",
    errno.EIO: "the device reported an I/O error: check the disk",
}


class NoFileError(OSError):
    """A folder, pipe, socket or device in a file's place, or a file of more bytes than it can have."""


@contextlib.contextmanager
def storage_errors(action: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError inside the block into a StorageError that names `path` and what was being done to it."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(action, os.fspath(path), error) from error


def storage_error(action: str, path: str, error: OSError) -> StorageError:
    """Return the error that names `path`, what was being done to it, and what to do about it."""
    advice = _ADVICE.get(error.errno or 0, error.strerror or str(error))
    return StorageError(f"can't {action} {path!r}: {advice}")


def reason_of(number: int) -> str:
    """Say what an errno means, and what to do about it where that is known."""
    return _ADVICE.get(number, os.strerror(number))


def refused_link(path: str, what: str) -> UsageError:
    """Return the error for a link where a dataset has its own `what`."""
    return UsageError(
        f"{path!r} is a symbolic link: a dataset that is written or cleaned may have none inside, since what they lead "
        f"to is not its own. Remove it, or put the {what} itself there; only the dataset as a whole may be a link"
    )


def new_file(path: str) -> BinaryIO:
    """Create the file at `path` and open it for writing; whatever has that name goes, and is never written to.

    Raises FileExistsError when somebody makes it at the same time; OSError.
    """
    try:
        return _created(path)
    except FileExistsError:
        os.unlink(path)  # of a link, this is the link
        return _created(path)


def _created(path: str) -> BinaryIO:
    # O_EXCL follows no link, not even one that leads nowhere.
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    return os.fdopen(fd, "wb")


def temporary_name(path: str) -> str:
    """Return a name beside `path` for a file that is still being written; unique in this process."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{TEMPORARY_PREFIX}{os.getpid()}-{name}")


def write_durable(path: str, data: bytes | memoryview) -> None:
    """Write `data` to a temporary file, fsync it, rename it to `path`, and fsync the folder."""
    with durable_file(path) as file:
        file.write(data)


@contextlib.contextmanager
def durable_file(path: str) -> Iterator[BinaryIO]:
    """Open a temporary file that is renamed to `path` at the end, synced; with an error inside the block it is gone.

    Raises StorageError.
    """
    temporary = temporary_name(path)
    with storage_errors("write", path):
        try:
            with new_file(temporary) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    fsync_directory(os.path.dirname(path))


def fsync_directory(path: str) -> None:
    """Make the renames inside `path` durable."""
    with storage_errors("sync", path):
        fd = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def open_regular(path: str) -> int:
    """Open a file for reading and return its descriptor, which the caller closes.

    Raises:
        NoFileError: It isn't a regular file: a pipe would be waited for without end.
        OSError: As os.open.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise NoFileError(errno.EINVAL, "it isn't a regular file", path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def read_file(path: str, most: int | None = None) -> bytes:
    """Return what a regular file holds. Raises as open_regular(), and NoFileError for more than `most` bytes."""
    with os.fdopen(open_regular(path), "rb") as file:
        if most is not None and os.fstat(file.fileno()).st_size > most:
            raise NoFileError(errno.EFBIG, f"it has more than {most} bytes", path)
        return file.read()


def read_range(fd: int, offset: int, length: int) -> bytes:
    """Return up to `length` bytes at `offset`; fewer only at the end of the file."""
    pieces = []
    while length > 0:
        piece = os.pread(fd, length, offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
