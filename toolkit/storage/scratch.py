"""Files of a job's own that nobody else reads: what is too much for memory while it works. They are always local."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from types import TracebackType
from typing import IO, BinaryIO, Self

from toolkit.storage.files import new_file, read_file, storage_errors
from toolkit.storage.store import TEMPORARY_PREFIX

__all__ = ["NamelessFile", "append", "file_bytes", "read_whole", "scratch_folder", "spooled", "take_whole", "written"]

_SPOOLED_BYTES = 1024 * 1024  # at a time
_SPOOL_PREFIX = f"{TEMPORARY_PREFIX}stdin-"
_SETTLED_SECONDS = 600.0  # between making a folder and holding it: its process may be stopped meanwhile


class NamelessFile:
    """A file without a name, in a folder or in memory: it is gone when it is closed, or the process is."""

    def __init__(self, folder: str | None) -> None:
        """Create it; in memory without a folder. Raises StorageError."""
        self._folder = folder or "memory"
        with storage_errors("write", self._folder):
            if folder is None:
                self._file: IO[bytes] = os.fdopen(os.memfd_create("toolkit"), "w+b")
            else:
                self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A full disk was told already; what is left in the buffer is for nobody.
        with contextlib.suppress(OSError):
            self._file.close()

    def write(self, data: bytes) -> None:
        """Add to its end. Raises StorageError."""
        with storage_errors("write", self._folder):
            self._file.write(data)

    def mapped(self) -> bytes | mmap.mmap:
        """Return all that was written, not read into memory. Raises StorageError."""
        with storage_errors("write", self._folder):
            self._file.flush()
            fd = self._file.fileno()
            # Nothing can't be mapped.
            return mmap.mmap(fd, 0, access=mmap.ACCESS_READ) if os.fstat(fd).st_size else b""


@contextlib.contextmanager
def written(path: str) -> Iterator[BinaryIO]:
    """Open a new file for writing; whatever has its name goes, and is never written to. Raises StorageError."""
    with storage_errors("write", path), new_file(path) as file:
        yield file


@contextlib.contextmanager
def scratch_folder(folder: str | None = None, prefix: str = TEMPORARY_PREFIX) -> Iterator[str]:
    """Make a folder, in `folder` or where the system keeps such, that goes at the end of the block."""
    with (
        storage_errors("write", folder or tempfile.gettempdir()),
        tempfile.TemporaryDirectory(prefix=prefix, dir=folder) as made,
    ):
        yield made


@contextlib.contextmanager
def spooled(stream: BinaryIO, name: str) -> Iterator[str]:
    """Write a stream to its end into a file of that name, which goes at the end of the block; yield its path.

    What a killed process left goes at the next call.

    Raises StorageError: the stream can't be read, or the file not be written.
    """
    with storage_errors("write", tempfile.gettempdir()):
        _remove_abandoned(tempfile.gettempdir())
    with scratch_folder(prefix=_SPOOL_PREFIX) as folder, _held(folder):
        path = os.path.join(folder, name)
        with written(path) as file:
            shutil.copyfileobj(stream, file, _SPOOLED_BYTES)
        yield path


@contextlib.contextmanager
def _held(folder: str) -> Iterator[None]:
    """Hold a folder, so that no other process takes it for abandoned."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _remove_abandoned(place: str) -> None:
    """Remove the folders of spooled() that no process holds."""
    for name in os.listdir(place):
        if not name.startswith(_SPOOL_PREFIX):
            continue
        # Another user's, or another process was faster.
        with contextlib.suppress(OSError):
            path = os.path.join(place, name)
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(fd).st_uid == os.getuid() and time.time() - os.fstat(fd).st_mtime > _SETTLED_SECONDS:
                    shutil.rmtree(path)
            finally:
                os.close(fd)


def append(path: str, data: memoryview) -> None:
    """Add to the end of a file, which is made if it isn't there. Raises StorageError."""
    with storage_errors("write", path), open(path, "ab") as file:
        file.write(data)


def file_bytes(path: str) -> int:
    """Return the size of a file. Raises StorageError."""
    with storage_errors("read", path):
        return os.path.getsize(path)


def read_whole(path: str) -> bytes:
    """Return what a file holds. Raises StorageError."""
    with storage_errors("read", path):
        return read_file(path)


def take_whole(path: str) -> bytes:
    """Return what a file holds, and remove it. Raises StorageError."""
    data = read_whole(path)
    with storage_errors("remove", path):
        os.unlink(path)
    return data
