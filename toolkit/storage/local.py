"""Read and write files of the local file system so that a kill leaves the old file or the new one."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator

from toolkit.errors import StorageError

__all__ = ["fsync_directory", "read_range", "storage_errors", "temporary_name", "write_durable"]

TEMPORARY_PREFIX = ".tmp-"
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


@contextlib.contextmanager
def storage_errors(action: str, path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an OSError inside the block into a StorageError that names `path` and what was being done to it."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        advice = _ADVICE.get(error.errno or 0, error.strerror or str(error))
        raise StorageError(f"can't {action} {os.fspath(path)!r}: {advice}") from error


def temporary_name(path: str) -> str:
    """Return a name beside `path` for a file that is still being written; unique in this process."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f"{TEMPORARY_PREFIX}{os.getpid()}-{name}")


def write_durable(path: str, data: bytes | bytearray) -> None:
    """Write `data` to a temporary file, fsync it, rename it to `path`, and fsync the folder."""
    temporary = temporary_name(path)
    with storage_errors("write", path):
        try:
            with open(temporary, "wb") as file:
                file.write(data)
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
