"""Walk a folder for image files, in key order.

Knows nothing of splits, classes or labels. Opens only files whose names don't say that they are images, for their
first bytes. Never leaves anything out silently: what it passes over is counted, what can't be packed is yielded with a
reason, what can't be read raises.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter

import numpy as np

from toolkit._native.shards.files import READ_GOOD, stat_files
from toolkit.errors import StorageError
from toolkit.sources.images import IMAGE_EXTENSIONS, is_image
from toolkit.sources.kinds.imagefolder.found import Found, FoundFiles
from toolkit.sources.names import is_utf8
from toolkit.sources.skips import Skips

__all__ = ["FolderId", "Met", "folder_id", "list_folder", "walk_files", "walk_images"]


BROKEN_LINK = "broken symbolic link"
EMPTY = "empty file"
NOT_REGULAR = "not a regular file"
NOT_UTF8 = "name is not valid UTF-8"
OUTSIDE = "symbolic link that leads out of the source (--follow-links follows it)"
VANISHED = "vanished while scanning"

# What tells of images elsewhere, and isn't read: whoever has such files may think it is.
_ANNOTATIONS = (".csv", ".json", ".jsonl", ".ndjson", ".parquet", ".tsv", ".xml")

# What following a path that leads nowhere ends in: a missing target, a file where a folder should be, a link
# to itself, a target no path can have.
_LEADS_NOWHERE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG})

FolderId = tuple[int, int]
"""Device and inode of a folder: what a loop of symbolic links comes back to."""

_by_name = attrgetter("name")


@dataclass(slots=True)
class Met:
    """What was met besides images that can be packed.

    Attributes:
        skips: What was passed over: `hidden` names, which begin with a dot or are `__MACOSX` (a folder counts once);
            `annotations` and `not_images`, files whose name and content aren't an image's; `loops`, links back to a
            folder they lie in.
        folders: Names of the folders directly below the base, in order, empty ones too.
        images: Image files directly in the base (set by `list_folder` only).
        first_image: Name of the first of these in order (set by `list_folder` only).
        lost: Broken links directly in the base that may have led to folders (set by `list_folder` only).
    """

    skips: Skips = field(default_factory=lambda: Skips(("hidden", "loops", "annotations", "not_images")))
    folders: list[str] = field(default_factory=list)
    images: int = 0
    first_image: str | None = None
    lost: list[Found] = field(default_factory=list)


def list_folder(base: str, *, above: frozenset[FolderId] = frozenset()) -> Met:
    """Tell what lies directly in a folder, without going deeper.

    Args:
        base: An absolute path.
        above: Folders a link must not lead back to, besides `base`.

    Raises:
        StorageError: The folder can't be read.
    """
    met = Met()
    seen = above | {folder_id(base)}
    for entry in _entries(base):
        if _is_hidden(entry.name):
            met.skips.add("hidden", entry.name)
        elif _is_folder(entry):
            if entry.is_symlink() and folder_id(entry.path) in seen:
                met.skips.add("loops", entry.name)
            else:
                met.folders.append(entry.name)
        elif is_image(entry.path):
            met.images += 1
            met.first_image = met.first_image or entry.name
        elif _may_be_lost_folder(entry):
            met.lost.append(_rejected(None, entry.name, entry.path, BROKEN_LINK))
        else:
            met.skips.add(_other_kind(entry.name), entry.name)
    return met


def walk_images(
    base: str,
    met: Met,
    *,
    prefix: str = "",
    above: frozenset[FolderId] = frozenset(),
    stays: Callable[[str], bool] = lambda _: True,
    empty_too: bool = False,
) -> Iterator[Found]:
    """Yield what walk_files() does, one by one."""
    for one in walk_files(base, met, prefix=prefix, above=above, stays=stays, empty_too=empty_too):
        if isinstance(one, Found):
            yield one
        else:
            yield from one.each()


def walk_files(
    base: str,
    met: Met,
    *,
    prefix: str = "",
    above: frozenset[FolderId] = frozenset(),
    stays: Callable[[str], bool] = lambda _: True,
    empty_too: bool = False,
) -> Iterator[Found | FoundFiles]:
    """Yield every image file below a folder, sorted by the parts of its path in code point order.

    Links to files and folders are followed; one that leads back to a folder it lies in is not. One stat a
    file, no recursion, and no open folder between two items.

    Args:
        base: An absolute path.
        met: Filled in as the walk goes; complete when it ends.
        prefix: What keys begin with: "" or a path that ends in "/".
        above: Folders a link must not lead back to, besides those of the walk.
        stays: Tells whether a link may be followed; see toolkit.sources.files.stays_within().
        empty_too: Files of no bytes are no reason to reject anything.

    Raises:
        StorageError: A folder or a file's status can't be read.
    """
    ancestors = set(above)
    stack: list[tuple[Iterator[os.DirEntry[str]], str, FolderId]] = []
    ident = folder_id(base)
    ancestors.add(ident)
    stack.append((iter(_entries(base)), prefix, ident))
    top: str | None = None
    while stack:
        entries, prefix, ident = stack[-1]
        plain: list[os.DirEntry[str]] = []
        for entry in entries:
            name = entry.name
            if _is_plain(entry):
                plain.append(entry)
                continue
            if plain:
                yield from _together(plain, top, prefix, empty_too)
                plain = []
            if _is_hidden(name):
                met.skips.add("hidden", prefix + name)
            elif _is_folder(entry):
                reason = VANISHED
                try:
                    below = folder_id(entry.path)
                    if below in ancestors:
                        met.skips.add("loops", prefix + name)
                        continue
                    if entry.is_symlink() and not stays(entry.path):
                        children, reason = None, OUTSIDE
                    else:
                        children = _entries(entry.path)
                except _GoneError:
                    children = None
                if len(stack) == 1:
                    top = name
                    met.folders.append(name)
                if children is None:
                    yield _rejected(top, prefix + name, entry.path, reason)
                    top = None if len(stack) == 1 else top
                    continue
                ancestors.add(below)
                stack.append((iter(children), f"{prefix}{name}/", below))
                break
            elif is_image(entry.path):
                found = _inspect(entry, top, prefix + name, empty_too)
                outside = found.reason is None and entry.is_symlink() and not stays(entry.path)
                yield _rejected(top, prefix + name, entry.path, OUTSIDE) if outside else found
            elif _may_be_lost_folder(entry):
                yield _rejected(top, prefix + name, entry.path, BROKEN_LINK)
            else:
                met.skips.add(_other_kind(name), prefix + name)
        else:
            yield from _together(plain, top, prefix, empty_too)
            stack.pop()
            ancestors.discard(ident)
            if len(stack) == 1:
                top = None


def folder_id(path: str) -> FolderId:
    """Return what tells a folder from every other one, whatever path led to it.

    Raises:
        StorageError: Its status can't be read.
    """
    try:
        info = os.stat(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    return info.st_dev, info.st_ino


def _other_kind(name: str) -> str:
    return "annotations" if name.lower().endswith(_ANNOTATIONS) else "not_images"


class _GoneError(StorageError):
    """A path that led somewhere when its folder was listed and leads nowhere now."""


def _entries(path: str) -> list[os.DirEntry[str]]:
    # Listed whole and closed at once: order needs the whole list, and a deep tree must not hold a folder
    # open per level.
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=_by_name)
    except OSError as error:
        raise _unreadable(path, error) from error


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or name == "__MACOSX"


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno in _LEADS_NOWHERE:
            return False
        raise _unreadable(entry.path, error) from error


def _is_plain(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a file called as images are; by what the listing of its folder told."""
    name = entry.name
    return name.lower().endswith(IMAGE_EXTENSIONS) and not name.startswith(".") and entry.is_file(follow_symlinks=False)


def _together(
    entries: list[os.DirEntry[str]], top: str | None, prefix: str, empty_too: bool
) -> Iterator[Found | FoundFiles]:
    """Yield plain entries of one folder: many in one, where nothing is odd about them."""
    if not entries:
        return
    try:
        start, names = prefix.encode(), [entry.name.encode() for entry in entries]
    except UnicodeEncodeError:
        yield from (_inspect(entry, top, prefix + entry.name, empty_too) for entry in entries)
        return
    folder = entries[0].path[: -len(entries[0].name)]
    sizes, mtimes_ns, ctimes_ns = (np.zeros(len(names), np.int64) for _ in range(3))
    inodes, statuses = np.zeros(len(names), np.uint64), np.zeros(len(names), np.int32)
    stat_files(os.fsencode(folder), names, sizes, mtimes_ns, ctimes_ns, inodes, statuses)
    odd = statuses != READ_GOOD
    if not empty_too:
        odd |= sizes == 0
    done = 0
    for stop in [*np.flatnonzero(odd).tolist(), len(names)]:
        if stop > done:
            part = slice(done, stop)
            yield FoundFiles(
                top, start, folder, names[part], sizes[part], mtimes_ns[part], ctimes_ns[part], inodes[part]
            )
        if stop < len(names):
            yield _inspect(entries[stop], top, prefix + entries[stop].name, empty_too)
        done = stop + 1


def _inspect(entry: os.DirEntry[str], top: str | None, key: str, empty_too: bool) -> Found:
    if not is_utf8(key):
        return _rejected(top, key, entry.path, NOT_UTF8)
    try:
        info = entry.stat()
    except OSError as error:
        if error.errno not in _LEADS_NOWHERE:
            raise _unreadable(entry.path, error) from error
        return _rejected(top, key, entry.path, BROKEN_LINK if entry.is_symlink() else VANISHED)
    if not stat.S_ISREG(info.st_mode):
        return _rejected(top, key, entry.path, NOT_REGULAR)
    if info.st_size == 0 and not empty_too:
        return _rejected(top, key, entry.path, EMPTY)
    return Found(top, key, entry.path, info.st_size, None, info.st_mtime_ns, info.st_ino, info.st_ctime_ns)


def _may_be_lost_folder(entry: os.DirEntry[str]) -> bool:
    # A broken link without an extension may well be a class folder whose disk isn't mounted: passing over it
    # would drop a class and move the ids of those behind it.
    return entry.is_symlink() and "." not in entry.name and not os.path.exists(entry.path)


def _rejected(top: str | None, key: str, path: str, reason: str) -> Found:
    return Found(top, key, path, 0, reason)


def _unreadable(path: str, error: OSError) -> StorageError:
    if isinstance(error, PermissionError):
        advice = "Folders need both r and x: change the permissions, or move it out of the source."
    else:
        advice = "Everything below the source must be readable: mend it or move it out, then try again."
    kind = _GoneError if error.errno in (errno.ENOENT, errno.ENOTDIR) else StorageError
    return kind(f"Can't read {path!r}: {error.strerror or error}. {advice}")
