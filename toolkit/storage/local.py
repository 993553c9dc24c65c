"""The store that is a folder of the local file system: a kill at any instant leaves the old object or the new one.

Writers refuse links inside it, readers follow them; the folder itself may be named by a link.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable
from dataclasses import dataclass

from toolkit.errors import ExistsError, NotFoundError, StorageError, UsageError
from toolkit.storage.background import BackgroundFile
from toolkit.storage.files import (
    NoFileError,
    fsync_directory,
    open_regular,
    read_file,
    read_range,
    storage_error,
    storage_errors,
    write_durable,
)
from toolkit.storage.folders import list_folder, make_folder, remove_files
from toolkit.storage.lock import FolderLock
from toolkit.storage.store import Entry, NoObjectError, ObjectInfo

__all__ = ["LocalStore", "find_local", "read_error", "siblings"]


@dataclass(frozen=True, slots=True)
class LocalStore:
    """A folder; it need not be there yet. A WritableStore."""

    root: str

    @property
    def location(self) -> str:
        """The folder's path, as it was given."""
        return self.root

    def place(self, name: str) -> str:
        """Return the path of an object, or of the folder itself for ""."""
        return os.path.join(self.root, name) if name else self.root

    def local_path(self, name: str) -> str:
        """Return the path of an object."""
        return os.path.join(self.root, name)

    def info(self, name: str) -> ObjectInfo | None:
        """Return what is known of a name; None when there is nothing, and for a link that leads nowhere."""
        path = self.place(name)
        with storage_errors("look at", path):
            try:
                found = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
        is_link = stat.S_ISLNK(found.st_mode)
        if is_link:
            try:
                found = os.stat(path)
            except OSError:
                return None
        nbytes = found.st_size if stat.S_ISREG(found.st_mode) else None
        return ObjectInfo(nbytes, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns), is_link)

    def read(self, name: str, most: int | None = None) -> bytes:
        """Return a whole file. Raises NotFoundError, NoObjectError, StorageError."""
        path = self.place(name)
        try:
            return read_file(path, most)
        except OSError as error:
            raise read_error(path, error) from error

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes at `offset`. Raises as read()."""
        path = self.place(name)
        try:
            fd = open_regular(path)
            try:
                return read_range(fd, offset, length)
            finally:
                os.close(fd)
        except OSError as error:
            raise read_error(path, error) from error

    def entries(self, folder: str = "", *, follow: bool = False) -> list[Entry]:
        """Return what is in a folder, by name. Raises UsageError, StorageError."""
        path = self.place(folder)
        if folder and not follow:
            return list_folder(path)
        if not os.path.isdir(path):
            if not folder and os.path.exists(path):
                raise UsageError(f"{path!r} is a file: give a folder for the dataset")
            return []
        return list_folder(os.path.realpath(path))

    def lock(self, name: str, *, make: bool = False) -> FolderLock:
        """Take the lock file `name`. Raises ExistsError, UsageError for a link in its place, StorageError."""
        return FolderLock(self.root, name, make=make)

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Write a temporary file, fsync it, rename it, and fsync the folder. Raises StorageError."""
        write_durable(self.place(name), data)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file where nothing has its name. Raises StorageError."""
        if os.path.lexists(self.place(name)):
            return False
        self.write(name, data)
        return True

    def swap(self, name: str, data: bytes, expected: ObjectInfo | None) -> None:
        """Write a file that is still the same. Raises ExistsError, StorageError."""
        if self.info(name) != expected:  # nobody who holds the lock comes between this and the rename
            raise ExistsError(
                f"{self.place(name)!r} was changed while it was about to be replaced: see who writes there, and run "
                "again"
            )
        self.write(name, data)

    def stream(self, temporary: str) -> _LocalStream:
        """Create the file of that name, to be written on a thread of its own. Raises StorageError."""
        return _LocalStream(self, self.place(temporary))

    def move(self, name: str, new_name: str) -> None:
        """Rename a file. Raises StorageError."""
        path = self.place(new_name)
        with storage_errors("publish", path):
            os.replace(self.place(name), path)

    def delete(self, names: Iterable[str], *, durable: bool = False) -> None:
        """Remove files, or links themselves, folder by folder. Raises UsageError, StorageError."""
        by_folder: dict[str, list[str]] = {}
        for name in names:
            folder, _, last = name.rpartition("/")
            by_folder.setdefault(folder, []).append(last)
        for folder, lasts in by_folder.items():
            path = self.place(folder)
            remove_files(path if folder else os.path.realpath(path), lasts, durable=durable)

    def sync(self, folder: str = "") -> None:
        """Fsync a folder. Raises StorageError."""
        fsync_directory(self.place(folder))

    def make_folder(self, folder: str) -> bool:
        """Make a folder. Raises UsageError, StorageError."""
        return make_folder(self.place(folder))

    def remove_folder(self, folder: str = "") -> None:
        """Remove a folder if it is empty."""
        with contextlib.suppress(OSError):
            os.rmdir(self.place(folder))

    def delete_folder(self, folder: str, by_way_of: str | None = None) -> None:
        """Remove a folder with all that is in it, by descriptors: no link is followed. Raises StorageError."""
        path = self.place(folder)
        with storage_errors("remove", path):
            if not os.path.isdir(path):
                return
            if by_way_of is not None:
                os.rename(path, self.place(by_way_of))
                self.sync()
                path = self.place(by_way_of)
            shutil.rmtree(path)


class _LocalStream(BackgroundFile):
    """A file of a LocalStore that has no name of its own yet."""

    def __init__(self, store: LocalStore, path: str) -> None:
        super().__init__(path)
        self._store = store

    def publish(self, name: str) -> None:
        """Rename the closed file. Raises StorageError."""
        path = self._store.place(name)
        with storage_errors("publish", path):
            os.replace(self.path, path)


def find_local(path: str) -> tuple[LocalStore, str] | None:
    """Return the store of a folder and "", or of a file that of its folder and the file's name; None for neither."""
    if os.path.isfile(path):
        folder, name = os.path.split(os.path.abspath(path))
        return LocalStore(folder), name
    return (LocalStore(os.path.abspath(path)), "") if os.path.isdir(path) else None


def siblings(path: str) -> list[str]:
    """Return the names that lie where `path` would lie; none where they can't be listed."""
    with contextlib.suppress(OSError):
        return os.listdir(os.path.dirname(os.path.abspath(path)))
    return []


def read_error(path: str, error: OSError) -> NotFoundError | StorageError:
    """Return what a Store raises of an object whose file can't be read."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotFoundError(f"{path!r} isn't there")
    if isinstance(error, NoFileError):
        return NoObjectError(path, error.strerror or str(error))
    return storage_error("read", path, error)
