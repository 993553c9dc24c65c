"""What a walk finds in an image folder: files one by one or many at once, and what is packed of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Entry", "Found", "FoundFiles"]


class Found(NamedTuple):
    """One image file.

    Attributes:
        folder: Name of the folder directly below the base that it lies in, however deep; None for a file
            directly in the base.
        key: Path below the base, separated by "/", behind the walk's prefix.
        path: Path to open it with.
        bytes: Its size; 0 when there is a reason.
        reason: Why it can't be packed, or None.
        mtime_ns: When it was last changed; 0 when there is a reason.
        inode: Its number in the file system; 0 when there is a reason.
        ctime_ns: When anything about it last changed, which can't be set back; 0 when there is a reason.
    """

    folder: str | None
    key: str
    path: str
    bytes: int
    reason: str | None
    mtime_ns: int = 0
    inode: int = 0
    ctime_ns: int = 0


class FoundFiles(NamedTuple):
    """Neighbouring images of one folder that can all be packed: as columns, for there are many.

    Attributes:
        folder: As that of Found.
        prefix: What keys begin with, in UTF-8.
        path: What paths begin with.
        names: The files' names, in UTF-8.
        sizes, mtimes_ns, ctimes_ns: int64 (n,). inodes: uint64 (n,).
    """

    folder: str | None
    prefix: bytes
    path: str
    names: list[bytes]
    sizes: NDArray[np.int64]
    mtimes_ns: NDArray[np.int64]
    ctimes_ns: NDArray[np.int64]
    inodes: NDArray[np.uint64]

    def each(self) -> Iterator[Found]:
        """Yield them one by one."""
        columns = (self.sizes, self.mtimes_ns, self.inodes, self.ctimes_ns)
        for name, size, mtime_ns, inode, ctime_ns in zip(self.names, *(of.tolist() for of in columns), strict=True):
            key = (self.prefix + name).decode()
            yield Found(self.folder, key, self.path + name.decode(), size, None, mtime_ns, inode, ctime_ns)


@dataclass(frozen=True, slots=True)
class Entry:
    """One image to pack.

    Attributes:
        key: Path below the source separated by "/", split and class folder included; unique.
        path: Absolute path to open it with (its part above the source may hold surrogate escapes).
        label: Index in the class map; None without a class folder.
        bytes: Size when it was listed.
        mtime_ns, inode: When it was last changed, and its number in the file system, as listed.
    """

    key: str
    path: str
    label: int | None
    bytes: int
    mtime_ns: int = field(default=0, compare=False)
    inode: int = field(default=0, compare=False)
