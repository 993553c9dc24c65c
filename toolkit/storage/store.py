"""What a dataset asks of the place where it lies: objects by name below one root, whatever keeps them.

A name is relative, with "/" between its parts, as in "tables/abc.arrow"; "" is the root. A folder is what stands before
a "/": a store that knows no folders has nothing to do where one is made, synced or removed. No descriptor and no map is
part of this: what needs them asks for the path of a local file, which an object may not have.

Errors are toolkit's own, and they name the object: NotFoundError when it isn't there, NoObjectError when what stands
under its name is none, StorageError for what else goes wrong.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from toolkit.errors import ExistsError, StorageError, UsageError

__all__ = [
    "TEMPORARY_PREFIX",
    "Entry",
    "Lock",
    "NewObject",
    "NoObjectError",
    "ObjectInfo",
    "Store",
    "WritableStore",
    "WritingError",
    "local_path_of",
    "pieces",
]

TEMPORARY_PREFIX = ".tmp-"
"""What the last part of a name begins with as long as its object isn't finished."""


class WritingError(ExistsError):
    """Somebody else is the one writer of a store."""


class NoObjectError(StorageError):
    """A folder, pipe, socket or device in an object's place, or an object of more bytes than it can have.

    Attributes:
        reason: Which of these.
    """

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"can't read {place!r}: {reason}")
        self.reason = reason


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """What is known of a name without reading.

    Attributes:
        bytes: The size of an object; None for what is none, as a folder.
        identity: Another one when the object was written or replaced.
        is_link: It only leads to the object, which lies elsewhere.
    """

    bytes: int | None
    identity: Hashable
    is_link: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A name in a folder; `bytes` is the size of an object, and None for anything else, links included."""

    name: str
    bytes: int | None
    is_folder: bool


class Store(Protocol):
    """What opening and reading a dataset needs. Safe from any thread."""

    @property
    def location(self) -> str:
        """What toolkit.storage.stores opens this store by, in any process: the path of a folder, or a URL."""

    def place(self, name: str) -> str:
        """Say where an object is, for errors and for other tools. Looks at nothing."""

    def local_path(self, name: str) -> str | None:
        """Return the path of an object's file; None where objects are no local files. Looks at nothing."""

    def info(self, name: str) -> ObjectInfo | None:
        """Return what is known of a name, and of a link what it leads to; None when there is nothing."""

    def read(self, name: str, most: int | None = None) -> bytes:
        """Return a whole object. Raises NoObjectError also when it has more than `most` bytes."""

    def read_range(self, name: str, offset: int, length: int) -> bytes:
        """Return up to `length` bytes at `offset`; fewer only at the end of the object."""

    def entries(self, folder: str = "", *, follow: bool = False) -> list[Entry]:
        """Return what is in a folder, by name; nothing when there is no such folder.

        Args:
            folder: The folder.
            follow: Read a folder that is a link. Without it, which is for those who write or clean, one is refused.

        Raises:
            UsageError: It is a link, or no folder.
        """


class WritableStore(Store, Protocol):
    """What packing, committing and cleaning need besides. Whoever changes anything holds the lock."""

    def lock(self, name: str, *, make: bool = False) -> Lock:
        """Become the one writer; `name` is the object that stands for the lock, `make` makes the root if need be.

        Raises:
            WritingError: There is another one.
        """

    def write(self, name: str, data: bytes | memoryview) -> None:
        """Make `data` the object, durably, whatever it was: whoever reads finds the old one or the new one."""

    def create(self, name: str, data: bytes) -> bool:
        """Write an object where there is none, and say so; touch nothing where something has the name."""

    def swap(self, name: str, data: bytes, expected: ObjectInfo | None) -> None:
        """Write an object that still is what info() said of it.

        Raises:
            ExistsError: Somebody else wrote, replaced or removed it.
        """

    def stream(self, temporary: str) -> NewObject:
        """Begin an object that is written piece by piece, and whose name is known at its end; till then it has this.

        Raises:
            StorageError: Something has that name.
        """

    def move(self, name: str, new_name: str) -> None:
        """Give an object another name, whatever had that; durable once the new folder is synced."""

    def delete(self, names: Iterable[str], *, durable: bool = False) -> None:
        """Remove objects, or links themselves, in that order; those that are gone are passed over.

        Args:
            names: The objects.
            durable: Return when not even a power cut would bring one back.

        Raises:
            UsageError: A folder is a link: what lies elsewhere is not removed.
        """

    def sync(self, folder: str = "") -> None:
        """Make the names in a folder durable."""

    def make_folder(self, folder: str) -> bool:
        """Make a folder below one that is there; tell whether it was missing. Raises UsageError for a link."""

    def remove_folder(self, folder: str = "") -> None:
        """Remove a folder that is empty; another one stays."""

    def delete_folder(self, folder: str, by_way_of: str | None = None) -> None:
        """Remove a folder, if it is there, with all that is in it.

        `by_way_of` is the name that it has from then on until it is gone: a kill leaves all of it or nothing.
        """


class Lock(Protocol):
    """One writer's hold on a store."""

    def sync_root(self) -> None:
        """Make the root's own name durable, and those of folders above it that were made for it."""

    def release(self, *, undo: bool = False) -> None:
        """Let go; `undo`: remove the folders that were made for it, as far as they are empty."""


class NewObject(Protocol):
    """An object that is being written: nobody sees it under its own name before publish()."""

    def write(self, piece: memoryview) -> None:
        """Take the next bytes, which may not change until close(). Raises StorageError for what failed so far."""

    def close(self) -> bytes:
        """Wait until all is written, durably; return its sha256. Raises StorageError."""

    def publish(self, name: str) -> None:
        """Give the closed object its name, whatever had that; durable once the folder is synced."""

    def abort(self) -> None:
        """Remove it. Does nothing after close()."""


def local_path_of(store: Store, name: str) -> str:
    """Return the path of an object's file, for what only files can do. Raises UsageError: it has none."""
    path = store.local_path(name)
    if path is None:
        raise UsageError(
            f"{store.place(name)!r} is no local file, and shards are only read from local files: copy the dataset to a "
            "local folder and open that"
        )
    return path


def pieces(store: Store, name: str, nbytes: int) -> Iterator[bytes]:
    """Yield a whole object in pieces of so many bytes. Raises as read_range()."""
    offset = 0
    while piece := store.read_range(name, offset, nbytes):
        yield piece
        offset += len(piece)
