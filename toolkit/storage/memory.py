"""The store that is memory: objects are memfd files, which have paths and are gone with their last user.

They belong to the process, and to those that it forks; /proc/self/fd names them, so what reads local files reads them.
What is finished is sealed: nobody changes it any more. Nothing of it is on any disk, so a kill leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import os
import threading
import uuid
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from toolkit.errors import ExistsError, NotFoundError, StorageError
from toolkit.storage.files import read_range, storage_error, storage_errors
from toolkit.storage.store import Entry, NoObjectError, ObjectInfo, WritingError

__all__ = ["MemoryFullError", "MemoryStore", "Origin", "open_memory"]

_SCHEME = "memory"
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_stores: weakref.WeakValueDictionary[str, MemoryStore] = weakref.WeakValueDictionary()
_numbers = itertools.count()


class MemoryFullError(StorageError):
    """More bytes than a store may hold; none of them were kept."""


class Origin(Protocol):
    """What a store was made of. It can be pickled."""

    @property
    def lasts(self) -> bool:
        """Whether it is there for other processes too, so that the store needn't travel."""

    def made(self, name: str) -> MemoryStore:
        """Return a store of that name, made of the same. Asked only of what lasts."""

    def pack(self, store: MemoryStore, dataset: str | os.PathLike[str], options: Mapping[str, Any]) -> Any:
        """Make a lasting dataset of what the store was made of."""

    def __str__(self) -> str:
        """Say in a few words what it is."""


class MemoryStore:
    """Objects in memory, by name. A WritableStore. A process holds one descriptor for each object.

    Pickled, it is made of its origin again where it arrives, if that lasts; else its objects travel. In the process
    that has it, and in those that were forked, it is itself.

    Attributes:
        origin: What it was made of, if that is known.
    """

    def __init__(self, limit: int | None = None, origin: Origin | None = None, name: str | None = None) -> None:
        """`limit`: bytes of all objects together; `name`: that of a store in another process, whose place it takes."""
        self.origin = origin
        self._name = name or uuid.uuid4().hex
        self._limit = limit
        self._used = 0
        self._objects: dict[str, _Object] = {}
        self._folders: set[str] = set()
        self._changing = threading.Lock()
        self._writer = threading.Lock()
        _stores[self._name] = self

    def __reduce__(self) -> tuple[Any, ...]:
        if self.origin is not None and self.origin.lasts:
            return _made_again, (self._name, self.origin)
        return _copied, (self._name, self.origin, {name: self.read(name) for name in sorted(self._objects)})

    @property
    def location(self) -> str:
        """The URL that toolkit.storage.stores opens it by, in this process, as long as somebody has it."""
        return f"{_SCHEME}://{self._name}"

    @property
    def used_bytes(self) -> int:
        """Bytes of all objects."""
        return self._used

    def place(self, name: str) -> str:
        """Return the URL of an object, or of the store for ""."""
        return f"{self.location}/{name}" if name else self.location

    def local_path(self, name: str) -> str | None:
        """Return the path of an object, in this process, as long as the store is there; None for the store itself."""
        found = self._objects.get(name)
        return (f"/proc/self/fd/{'none' if found is None else found.fd}") if name else None

    def info(self, name: str) -> ObjectInfo | None:
        """Return what is known of a name; None when there is nothing."""
        found = self._objects.get(name)
        if found is not None:
            return ObjectInfo(found.bytes, found.number)
        return ObjectInfo(None, name) if name in self._folders else None

    def read(self, name: str, most: int | None = None) -> bytes:
        """Return a whole object. Raises NotFoundError, NoObjectError."""
        found = self._found(name)
        if most is not None and found.bytes > most:
            raise NoObjectError(self.place(name), f"it has more than {most} bytes")
        return read_range(found.fd, 0, found.bytes)

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes at `offset`. Raises NotFoundError, NoObjectError."""
        return read_range(self._found(name).fd, offset, length)

    def entries(self, folder: str = "", *, follow: bool = False) -> list[Entry]:
        """Return what is in a folder, by name."""
        start = f"{folder}/" if folder else ""
        names = [(name, None) for name in self._folders] + [(name, one.bytes) for name, one in self._objects.items()]
        below = [(name[len(start) :], nbytes) for name, nbytes in names if name.startswith(start)]
        return [Entry(name, nbytes, nbytes is None) for name, nbytes in sorted(below) if "/" not in name]

    def lock(self, name: str, *, make: bool = False) -> _MemoryLock:
        """Become the one writer. Raises WritingError."""
        if not self._writer.acquire(blocking=False):
            raise WritingError(f"another pack is writing {self.location!r}: wait for it, or stop it")
        return _MemoryLock(self._writer)

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Make `data` the object. Raises MemoryFullError, StorageError."""
        made, view = _Object(self.place(name)), memoryview(data)
        self._grow(view.nbytes)
        try:
            made.append(view)
            made.seal()
        except BaseException:
            self._grow(-view.nbytes)
            raise
        self._put(name, made)

    def create(self, name: str, data: bytes) -> bool:
        """Write an object where there is none. Raises as write()."""
        if self.info(name) is not None:
            return False
        self.write(name, data)
        return True

    def swap(self, name: str, data: bytes, expected: ObjectInfo | None) -> None:
        """Write an object that is still the same. Raises ExistsError, and as write()."""
        if self.info(name) != expected:
            raise ExistsError(f"{self.place(name)!r} was changed while it was about to be replaced: run again")
        self.write(name, data)

    def stream(self, temporary: str) -> _MemoryStream:
        """Begin an object. Raises StorageError."""
        if self.info(temporary) is not None:
            raise storage_error("create", self.place(temporary), FileExistsError(errno.EEXIST, "it is there already"))
        return _MemoryStream(self, temporary)

    def move(self, name: str, new_name: str) -> None:
        """Give an object another name. Raises NotFoundError."""
        self._found(name)
        with self._changing:
            moved = self._objects.pop(name)
            replaced = self._objects.get(new_name)
            self._objects[new_name] = moved
            self._used -= 0 if replaced is None else replaced.bytes

    def delete(self, names: Iterable[str], *, durable: bool = False) -> None:
        """Remove objects; those that are gone are passed over."""
        with self._changing:
            for name in names:
                found = self._objects.pop(name, None)
                self._used -= 0 if found is None else found.bytes

    def sync(self, folder: str = "") -> None:
        """Do nothing: nothing here outlives the process."""

    def make_folder(self, folder: str) -> bool:
        """Make a folder; tell whether it was missing."""
        missing = folder not in self._folders
        self._folders.add(folder)
        return missing

    def remove_folder(self, folder: str = "") -> None:
        """Remove a folder that is empty."""
        if not self.entries(folder):
            self._folders.discard(folder)

    def delete_folder(self, folder: str, by_way_of: str | None = None) -> None:
        """Remove a folder with all that is in it."""
        start = f"{folder}/"
        self.delete([name for name in list(self._objects) if name.startswith(start)])
        self._folders -= {name for name in list(self._folders) if name == folder or name.startswith(start)}

    def _found(self, name: str) -> _Object:
        found = self._objects.get(name)
        if found is not None:
            return found
        if name in self._folders:
            raise NoObjectError(self.place(name), "it is a folder")
        raise NotFoundError(f"{self.place(name)!r} isn't there")

    def _put(self, name: str, made: _Object) -> None:
        """Give a sealed object its name; its bytes are counted already."""
        with self._changing:
            replaced = self._objects.get(name)
            self._objects[name] = made
            self._used -= 0 if replaced is None else replaced.bytes

    def _grow(self, nbytes: int) -> None:
        """Count bytes that are about to be kept. Raises MemoryFullError: they are too many."""
        with self._changing:
            if nbytes > 0 and self._limit is not None and self._used + nbytes > self._limit:
                raise MemoryFullError(f"{self.location!r} may hold {self._limit:,} bytes, and there are more")
            self._used += nbytes


def open_memory(url: str) -> tuple[MemoryStore, str]:
    """Return the store that a URL lies in, and the object's name. Raises NotFoundError: it is gone."""
    name, _, inside = url.partition("://")[2].partition("/")
    store = _stores.get(name)
    if store is None:
        raise NotFoundError(f"no dataset at {url!r}: what was opened at once lives in its process, while it is in use")
    return store, inside


def _made_again(name: str, origin: Origin) -> MemoryStore:
    return _stores.get(name) or origin.made(name)


def _copied(name: str, origin: Origin | None, objects: Mapping[str, bytes]) -> MemoryStore:
    known = _stores.get(name)
    if known is not None:
        return known
    store = MemoryStore(origin=origin, name=name)
    for inside, data in objects.items():
        folder = inside.rpartition("/")[0]
        if folder:
            store.make_folder(folder)
        store.write(inside, data)
    return store


class _Object:
    """A memfd file. Owns its descriptor."""

    __slots__ = ("bytes", "fd", "number", "place")

    def __init__(self, place: str) -> None:
        self.fd = -1
        self.place = place
        self.bytes = 0
        self.number = next(_numbers)
        with storage_errors("create", place):
            self.fd = os.memfd_create("toolkit", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)

    def __del__(self) -> None:
        if self.fd >= 0:
            with contextlib.suppress(OSError):
                os.close(self.fd)

    def append(self, data: memoryview) -> None:
        rest = data.cast("B")
        with storage_errors("write", self.place):
            while rest.nbytes:
                written = os.write(self.fd, rest)
                self.bytes += written
                rest = rest[written:]

    def seal(self) -> None:
        with storage_errors("seal", self.place):
            fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, _SEALS)


class _MemoryLock:
    """The hold of one writer in this process; nobody else knows the store."""

    def __init__(self, held: threading.Lock) -> None:
        self._held = held

    def sync_root(self) -> None:
        """Do nothing."""

    def release(self, *, undo: bool = False) -> None:
        """Let go."""
        self._held.release()


class _MemoryStream:
    """An object that has no name of its own yet."""

    def __init__(self, store: MemoryStore, temporary: str) -> None:
        self._store = store
        self._temporary = temporary
        self._made: _Object | None = _Object(store.place(temporary))
        self._sha256 = hashlib.sha256()
        self._closed = False
        store._put(temporary, self._made)

    def write(self, piece: memoryview) -> None:
        """Take the next bytes. Raises MemoryFullError, StorageError."""
        assert self._made is not None
        self._store._grow(piece.nbytes)
        self._made.append(piece)
        self._sha256.update(piece)

    def close(self) -> bytes:
        """Seal it; return its sha256."""
        assert self._made is not None
        self._made.seal()
        self._closed = True
        return self._sha256.digest()

    def publish(self, name: str) -> None:
        """Give it its name."""
        self._store.move(self._temporary, name)

    def abort(self) -> None:
        """Remove it. Does nothing after close()."""
        if not self._closed and self._made is not None:
            self._made = None
            self._store.delete([self._temporary])
