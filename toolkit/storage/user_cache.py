"""Files of this user's own that can be made again: in his cache folder, written whole, summed, and never too many.

Nobody else's files are believed: the folder and each file belong to the user, are open to nobody else, and no link
stands in their place. What is torn, damaged or someone else's counts as not there. Safe with many processes: a file
gets its name when it is whole, and whoever reads one that goes meanwhile has all of it or nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator

from toolkit.errors import StorageError, UsageError

__all__ = ["UserCache"]

_SUM_BYTES = 32
_TEMPORARY = ".tmp-"
_ABANDONED_SECONDS = 3600  # a writer that was killed leaves its file behind


class UserCache:
    """A folder of files by name, below the user's cache folder; the least recently used go first.

    Attributes:
        folder: Its path. It is made when something is written.
    """

    def __init__(self, name: str, most_files: int, most_bytes: int) -> None:
        """Take the folder toolkit/NAME of $XDG_CACHE_HOME, or of ~/.cache."""
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(base):  # as the XDG base directory specification has it
            base = os.path.join(os.path.expanduser("~"), ".cache")
        self._base, self._parts = base, ("toolkit", name)
        self._most_files, self._most_bytes = most_files, most_bytes
        self.folder = os.path.join(base, *self._parts)

    def read(self, name: str) -> bytes | None:
        """Return what was written by that name, or None. Raises UsageError: the folder may be another user's."""
        with self._opened(make=False) as folder:
            if folder is None:
                return None
            try:
                fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
            except OSError:
                return None
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode) or not _is_own(found) or found.st_size > self._most_bytes:
                os.close(fd)
                return None
            with os.fdopen(fd, "rb") as file:
                held = file.read(self._most_bytes + 1)
            data, digest = held[:-_SUM_BYTES], held[-_SUM_BYTES:]
            if hashlib.sha256(data).digest() != digest:
                return None
            with contextlib.suppress(OSError):  # it is used: others go before it
                os.utime(name, dir_fd=folder, follow_symlinks=False)
            return data

    def write(self, name: str, data: bytes) -> bool:
        """Write a file, whole or not at all, and remove others while there are too many. False: it is too large.

        Raises:
            UsageError: The folder may be another user's.
            StorageError: The file system refuses.
        """
        if len(data) + _SUM_BYTES > self._most_bytes:
            return False
        with self._opened(make=True) as folder:
            if folder is None:
                raise StorageError(f"{self.folder} can't be made")
            temporary = f"{_TEMPORARY}{os.getpid()}-{secrets.token_hex(8)}"
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=folder), "wb") as file:
                    file.write(data)
                    file.write(hashlib.sha256(data).digest())
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=folder)
                raise StorageError(f"can't write {os.path.join(self.folder, name)}: {error.strerror}") from error
            self._shrink(folder, name)
        return True

    def _shrink(self, folder: int, kept: str) -> None:
        """Remove what writers left behind, and the least recently used files of too many; never the one `kept`."""
        now, files, total = time.time(), [], 0
        for name in os.listdir(folder):
            try:
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:  # another process removed it
                continue
            if name.startswith(_TEMPORARY):
                if now - found.st_mtime > _ABANDONED_SECONDS:
                    _remove(name, folder)
            elif stat.S_ISREG(found.st_mode):
                files.append((name == kept, found.st_mtime_ns, name, found.st_size))
                total += found.st_size
        files.sort()
        for is_kept, _, name, size in files[: len(files) - 1]:
            if is_kept or (len(files) <= self._most_files and total <= self._most_bytes):
                break
            _remove(name, folder)
            files.pop()
            total -= size

    @contextlib.contextmanager
    def _opened(self, *, make: bool) -> Iterator[int | None]:
        """Give a descriptor of the folder for the block; None where there is none and `make` is false, or none can be.

        Raises:
            UsageError: It, or the one that it lies in, is another user's, open to others, or a link.
        """
        if make:
            with contextlib.suppress(OSError):
                os.makedirs(self._base, mode=0o700, exist_ok=True)
        path, fd = self._base, -1
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            try:
                fd = os.open(self._base, flags)
                for part in self._parts:
                    path = os.path.join(path, part)
                    if make:
                        with contextlib.suppress(FileExistsError):
                            os.mkdir(part, 0o700, dir_fd=fd)
                    inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=fd)
                    os.close(fd)
                    fd = inner
            except FileNotFoundError:
                yield None
                return
            except (NotADirectoryError, OSError) as error:
                if os.path.islink(path):
                    raise UsageError(f"{path} is a symbolic link: what it leads to isn't trusted. Remove it") from error
                if make:
                    raise StorageError(f"can't make {path}: {error.strerror}") from error
                yield None
                return
            found = os.fstat(fd)
            if not _is_own(found):
                raise UsageError(
                    f"{path} belongs to another user, or others may write into it: what lies there isn't trusted. "
                    f"Remove it, or chmod 700 {path}"
                )
            yield fd
        finally:
            if fd >= 0:
                os.close(fd)


def _is_own(found: os.stat_result) -> bool:
    return found.st_uid == os.geteuid() and not stat.S_IMODE(found.st_mode) & 0o022


def _remove(name: str, folder: int) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=folder)
