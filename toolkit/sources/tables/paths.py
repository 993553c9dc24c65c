"""The files that rows name: their paths made safe, what lies behind them, and their bytes, many at a time.

A path is text that somebody else wrote. It names a file below one folder and no other, and what it says besides, a
URL's password for one, is never told on.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from hashlib import sha256

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.shards.files import READ_CHANGED, READ_GOOD, read_files
from toolkit.format.arrays import bits_buffer
from toolkit.sources.base import too_large
from toolkit.sources.urls import UrlError, is_url, origin_in, read_url
from toolkit.storage.files import storage_errors

__all__ = [
    "FETCH",
    "GOOD",
    "MISSING",
    "NO_PATH",
    "UNSAFE",
    "Files",
    "Root",
    "UnsafePathError",
    "fitting",
    "key_of",
    "load",
    "paths_of",
    "relative",
    "why",
]


GOOD, NO_PATH, MISSING, UNSAFE, OUTSIDE, NOT_REGULAR, DENIED, FETCH = range(8)
"""What came of a path: a file; there is none; nothing lies there; it is refused by its text, by a link, by what it is,
or by the system; it is a URL to fetch."""

_LOST_SLASHES = re.compile(r"\s*https?:.*[@?]", re.IGNORECASE | re.DOTALL)  # as normpath() writes a URL
_DATA = re.compile(r"\s*data:[^/,]*/[^,]*,", re.IGNORECASE)
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_ABSOLUTE = "the path {!r} is absolute; paths are relative to the table's folder or --root"
_MOST_FOLDERS = 65536  # whose real places are remembered
_NOWHERE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
_DENIED = (errno.EACCES, errno.EPERM)
_REASONS = {
    OUTSIDE: "is a link that leads out of the folder; --follow-links allows it",
    NOT_REGULAR: "is no regular file",
    DENIED: "can't be read: permission denied",
}
_READ_REASONS = {
    READ_CHANGED: "changed during the pack",
    errno.ENOENT: "vanished during the pack",
    errno.ENOTDIR: "vanished during the pack",
    errno.EACCES: "can't be read: permission denied",
    errno.EPERM: "can't be read: permission denied",
}


class UnsafePathError(ValueError):
    """Why a text isn't taken for the path of a file; it can be shown."""


def key_of(text: bytes, *, fetches: bool) -> tuple[str, bool]:
    """Return a path as keys have it, and whether it is a URL to fetch: of one, without what may be a secret.

    Raises:
        UnsafePathError: It is none that is read; of `fetches`, whether http and https URLs are.
    """
    if fetches:
        url = text.decode("utf-8", "surrogateescape").strip()
        if is_url(url):
            try:
                return read_url(url).key, True
            except UrlError as error:
                raise UnsafePathError(f"{origin_in(url)}: {error}") from error
    return relative(text), False


def relative(text: bytes) -> str:
    """Return a path as keys have it: below its folder, "/" between parts, without "." and "..".

    Raises:
        UnsafePathError: It is no UTF-8, a URL or absolute, leaves the folder, or names none of its files.
    """
    try:
        path = text.decode()
    except UnicodeDecodeError as error:
        raise UnsafePathError(f"the path is not valid UTF-8 at byte {error.start}") from error
    if "\0" in path:
        raise UnsafePathError("the path holds the character NUL")
    origin = origin_in(path)
    if origin is not None:
        raise UnsafePathError(
            f"{origin} is a URL; only files are read, and with --fetch-urls what http and https URLs name"
        )
    if _LOST_SLASHES.match(path):
        raise UnsafePathError("it begins as a URL does, without the '//' behind the scheme")
    if _DATA.match(path):
        raise UnsafePathError("it is a data: URL; only files are read")
    if path.startswith("//"):  # "//user:password@host/photo.jpg" is a URL too
        raise UnsafePathError("the path begins with '//'; paths are relative to the table's folder or --root")
    if path.startswith("/"):
        raise UnsafePathError(_ABSOLUTE.format(path))
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if not parts:
                raise UnsafePathError(f"the path {path!r} leaves its folder by '..'; --root says which folder it is")
            parts.pop()
        elif part not in ("", "."):
            parts.append(part)
    if not parts:
        raise UnsafePathError(f"the path {path!r} names a folder")
    made = "/".join(parts)
    if _DRIVE.match(made):
        raise UnsafePathError(_ABSOLUTE.format(made))
    return made


def paths_of(array: pa.Array) -> list[bytes | None]:
    """Return paths as they are in a table: the bytes, whether they are text or not; None for none."""
    texts: list[bytes | None] = array.cast(pa.string()).cast(pa.binary()).to_pylist()
    return [text or None for text in texts]


class Root:
    """A folder that paths are below."""

    def __init__(self, folder: str, *, follow_links: bool) -> None:
        self.folder = os.path.abspath(folder)
        self._follows = follow_links
        self._real = os.path.realpath(folder)
        self._inside: dict[str, bool] = {}

    def look(self, path: str) -> tuple[int, os.stat_result | None]:
        """Return what a path that relative() gave leads to, and the status of a file.

        Raises:
            StorageError: The disk fails.
        """
        full = os.path.join(self.folder, path)
        try:
            status = os.lstat(full)
            if not self._follows and not self._keeps_inside(path, status):
                return OUTSIDE, None
            if stat.S_ISLNK(status.st_mode):
                status = os.stat(full)
        except ValueError:  # text that no file name can be
            return MISSING, None
        except OSError as error:
            if error.errno in _NOWHERE:
                return MISSING, None
            if error.errno in _DENIED:
                return DENIED, None
            with storage_errors("read", full):
                raise
        return (GOOD, status) if stat.S_ISREG(status.st_mode) else (NOT_REGULAR, None)

    def _keeps_inside(self, path: str, status: os.stat_result) -> bool:
        above = path.rpartition("/")[0]
        inside = self._inside.get(above)
        if inside is None:
            if len(self._inside) >= _MOST_FOLDERS:
                self._inside.clear()
            inside = self._inside[above] = self._is_inside(above)
        return inside and (not stat.S_ISLNK(status.st_mode) or self._is_inside(path))

    def _is_inside(self, path: str) -> bool:
        real = os.path.realpath(os.path.join(self.folder, path))
        return os.path.commonpath([self._real, real]) == self._real


class Files:
    """What was found behind the paths of some rows, as columns: ten million of them take 33 bytes each.

    Attributes:
        root: Their folder.
        codes: int8 (n,): GOOD or why not.
        sizes, mtimes_ns, ctimes_ns: int64 (n,). inodes: uint64 (n,). 0 for rows without a file.
    """

    def __init__(
        self,
        root: str,
        codes: NDArray[np.int8],
        sizes: NDArray[np.int64],
        mtimes_ns: NDArray[np.int64],
        ctimes_ns: NDArray[np.int64],
        inodes: NDArray[np.uint64],
    ) -> None:
        self.root = root
        self.codes = codes
        self.sizes = sizes
        self.mtimes_ns = mtimes_ns
        self.ctimes_ns = ctimes_ns
        self.inodes = inodes

    @classmethod
    def empty(cls, root: str, rows: int) -> Files:
        """Return room for so many rows, all without a path."""
        sizes, mtimes_ns, ctimes_ns = (np.zeros(rows, np.int64) for _ in range(3))
        codes = np.full(rows, NO_PATH, np.int8)
        return cls(root, codes, sizes, mtimes_ns, ctimes_ns, np.zeros(rows, np.uint64))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: slice | NDArray[np.int64] | NDArray[np.bool_]) -> Files:
        """Return some rows: a view for a slice."""
        return Files(
            self.root,
            self.codes[rows],
            self.sizes[rows],
            self.mtimes_ns[rows],
            self.ctimes_ns[rows],
            self.inodes[rows],
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Files) and repr(self) == repr(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Tell all there is, in short: what a slice is known by."""
        digest = sha256(os.fsencode(self.root))
        for column in (self.codes, self.sizes, self.mtimes_ns, self.ctimes_ns, self.inodes):
            digest.update(np.ascontiguousarray(column).data)
        return f"Files({len(self)}, {digest.hexdigest()})"

    def note(self, row: int, code: int, status: os.stat_result | None) -> None:
        """Take note of what look() said."""
        self.codes[row] = code
        if status is not None:
            self.sizes[row] = status.st_size
            self.mtimes_ns[row] = status.st_mtime_ns
            self.ctimes_ns[row] = status.st_ctime_ns
            self.inodes[row] = status.st_ino


def why(code: int, text: bytes | None) -> str:
    """Return why a row's path gives no file, for a code that isn't GOOD."""
    if text is None or code == NO_PATH:
        return "there is no path"
    try:
        path = relative(text)
    except UnsafePathError as fault:
        return str(fault)
    if code == MISSING:
        hint = "; parts of a path are separated by '/'" if "\\" in path else ""
        return f"there is no file {path!r}{hint}"
    return f"{path!r} {_REASONS[code]}"


def fitting(files: Files, most: int) -> tuple[NDArray[np.bool_], dict[int, str]]:
    """Return which rows have a file of at most `most` bytes, and why others are left out that have one."""
    good = files.codes == GOOD
    large = np.flatnonzero(good & (files.sizes > most)).tolist()
    good[large] = False
    return good, {i: too_large(int(files.sizes[i]), most) for i in large}


def load(paths: Sequence[str | None], files: Files, most: int) -> tuple[pa.Array, dict[int, str]]:
    """Return the bytes behind paths of relative() (binary, null where there is none to be had), and why not.

    A file of more than `most` bytes isn't read. Of rows whose code isn't GOOD, nothing is said.

    Raises:
        StorageError: The disk fails.
    """
    good, reasons = fitting(files, most)
    rows = np.flatnonzero(good)
    sizes = files.sizes[rows]
    buffer = pa.allocate_buffer(int(sizes.sum()))
    statuses = np.zeros(len(rows), np.int32)
    root = os.fsencode(os.path.join(files.root, ""))
    names = [root + os.fsencode(paths[i] or "") for i in rows.tolist()]
    data = memoryview(buffer).cast("B")
    read_files(names, sizes, files.mtimes_ns[rows], files.inodes[rows], data, statuses)
    lengths = np.zeros(len(files), np.int64)
    lengths[rows] = np.where(statuses == READ_GOOD, sizes, 0)  # read_files() leaves no room for the others
    for i, status in zip(rows.tolist(), statuses.tolist(), strict=True):
        if status != READ_GOOD:
            good[i] = False
            reasons[i] = f"{paths[i]!r} {_read_reason(status, os.path.join(files.root, paths[i] or ''))}"
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))).astype(np.int32)
    buffers = [bits_buffer(good), pa.py_buffer(offsets), buffer]
    return pa.Array.from_buffers(pa.binary(), len(files), buffers), reasons


def _read_reason(status: int, path: str) -> str:
    if status not in _READ_REASONS:
        with storage_errors("read", path):
            raise OSError(status, os.strerror(status))
    return _READ_REASONS[status]
