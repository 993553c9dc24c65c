"""Hold a folder so that one process at a time writes it; the system lets go when the process dies."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os

from toolkit.storage.files import fsync_directory, refused_link, storage_errors
from toolkit.storage.store import WritingError

__all__ = ["FolderLock"]


class FolderLock:
    """A lock file in a folder, locked. Owns its descriptor until release()."""

    def __init__(self, root: str, name: str, *, make: bool = False) -> None:
        """Lock the folder `root` by its file `name`; `make`: make the folder, and those above it that are missing.

        Raises:
            WritingError: Another process has it.
            UsageError: A link is in the file's place.
            StorageError: The file system refuses.
        """
        self._root = root
        self._path = os.path.join(root, name)
        self._made: list[str] = []
        with storage_errors("create" if make else "lock", root):
            if make:
                self._make()
            self._fd = self._take()

    def sync_root(self) -> None:
        """Fsync the folders that name the root, and those that were made for it. Raises StorageError."""
        # The root's own in any case: a pack that was killed may have made it.
        for parent in dict.fromkeys(os.path.dirname(os.path.realpath(folder)) for folder in (*self._made, self._root)):
            if os.access(parent, os.R_OK):  # what can't be listed can't be synced either
                fsync_directory(parent)

    def release(self, *, undo: bool = False) -> None:
        """Let go; `undo`: remove the lock file of a folder that was made for it, and what folders then are empty."""
        if undo and self._made:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
            with contextlib.suppress(OSError):  # the folders behind one that stays are what leads there
                for folder in reversed(self._made):
                    os.rmdir(folder)
        fcntl.flock(self._fd, fcntl.LOCK_UN)  # a process that was forked meanwhile has the descriptor too
        os.close(self._fd)

    def _make(self) -> None:
        missing = []
        path = self._root
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            # new/ and new/. are there once new is, and a/.. once a is.
            if not os.path.isdir(folder):
                try:
                    os.mkdir(folder)
                except FileExistsError:  # another one, of a folder beside it, made it meanwhile
                    if not os.path.isdir(folder):
                        raise
                    continue
                self._made.append(folder)

    def _take(self) -> int:
        while True:
            try:
                fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise refused_link(self._path, "file") from error
                raise
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                # A writer that failed removes the lock file of a folder that it made: the name may be gone again.
                if os.path.exists(self._path) and os.path.samestat(os.fstat(fd), os.lstat(self._path)):
                    return fd
            except BlockingIOError as error:
                os.close(fd)
                raise WritingError(f"another pack is writing {self._root!r}: wait for it, or stop it") from error
            os.close(fd)
