"""Text files as they lie: whole, or line by line with the number of each; plain or compressed; in bounded memory.

Knows nothing of JSON and rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from toolkit.errors import SourceError
from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.file_bytes import HEAD_BYTES, FileBytes, compression_of, open_bytes
from toolkit.sources.names import printable
from toolkit.sources.regular import open_file, open_regular
from toolkit.sources.state import identity
from toolkit.storage.files import storage_errors

__all__ = [
    "BYTE_ORDER_MARK",
    "LARGEST_BYTES",
    "Line",
    "TextPart",
    "cut_lines",
    "is_blank",
    "is_compressed",
    "read_lines",
    "read_whole",
]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LOOKED_AT_BYTES = 4096
_COUNTED_BYTES = 1024 * 1024
LARGEST_BYTES = 1 << 30  # of a document: a few of them must fit an Arrow array


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a file, of whole lines, and what the file was like when it was listed.

    `end` is None for the end of the file; `first` is the number of its first line, from 1.
    """

    path: str
    name: str
    size: int
    mtime_ns: int
    start: int = 0
    end: int | None = None
    first: int = 1


@dataclass(frozen=True, slots=True)
class Line:
    """A line without its end. `data` is None for one that is too long to be a value."""

    number: int
    data: bytes | None
    consumed: int


def is_compressed(path: str) -> bool:
    """Tell whether a file is compressed, by its first bytes."""
    with storage_errors("read", path), open_file(path) as file:
        return bool(compression_of(file.read(HEAD_BYTES), path))


def is_blank(path: str) -> bool:
    """Tell whether a file, compressed or not, holds white space alone. Reads up to the first other byte.

    Raises:
        SourceError: Its compressed data are damaged.
        StorageError: It can't be read.
    """
    with storage_errors("read", path):
        fd = open_regular(path)
        try:
            compression = compression_of(os.pread(fd, HEAD_BYTES, 0), path)
            source = open_bytes(fd, path, compression, chunk_bytes=_LOOKED_AT_BYTES)
            data = bytes(source.read(_LOOKED_AT_BYTES)).removeprefix(BYTE_ORDER_MARK)
            while not data.strip():
                data = bytes(source.read(_LOOKED_AT_BYTES))
                if not data:
                    return True
            return False
        finally:
            os.close(fd)


def cut_lines(path: str, name: str, most: int) -> Iterator[TextPart]:
    """Cut a plain file between lines into parts of about `most` bytes. Reads it once, to number the lines."""
    size, mtime_ns = identity(path)
    start, first, at, lines = 0, 1, 0, 1
    with storage_errors("read", path), open_file(path) as file:
        while data := file.read(_COUNTED_BYTES):
            while at + len(data) - start >= most:
                # The first line end at or behind the size: a part has one line at least.
                found = data.find(b"\n", max(0, start + most - at - 1))
                if found < 0:
                    break
                lines += data.count(b"\n", 0, found + 1)
                at += found + 1
                data = data[found + 1 :]
                if at < size:
                    yield TextPart(path, name, size, mtime_ns, start, at, first)
                    start, first = at, lines
            lines += data.count(b"\n")
            at += len(data)
    if size > start or size == 0:
        yield TextPart(path, name, size, mtime_ns, start, None, first)


def read_lines(part: TextPart, most: int) -> Iterator[Line]:
    """Yield the lines of a part; of one with more than `most` bytes no data.

    Raises:
        SourceError: The file was changed since it was listed, or its compressed data are damaged.
        StorageError: It can't be read.
    """
    number = part.first
    with _opened(part) as source:
        rest: list[bytes] = []
        waiting = 0
        while True:
            want = PIECE_BYTES if part.end is None else min(PIECE_BYTES, part.end - source.position)
            data = bytes(source.read(want)) if want else b""
            if not data:
                break
            at = 0
            while (found := data.find(b"\n", at)) >= 0:
                yield Line(number, _joined(rest, waiting, data[at:found], most), source.consumed)
                rest, waiting, at, number = [], 0, found + 1, number + 1
            waiting += len(data) - at
            if waiting <= most:
                rest.append(data[at:])
        if waiting:
            yield Line(number, _joined(rest, waiting, b"", most), source.consumed)


def read_whole(part: TextPart, most: int) -> bytes | None:
    """Return a file's bytes; None when they are more than `most`. Raises as read_lines."""
    with _opened(part) as source:
        pieces = []
        total = 0
        while data := bytes(source.read(PIECE_BYTES)):
            total += len(data)
            if total <= most:
                pieces.append(data)
    return b"".join(pieces) if total <= most else None


@contextmanager
def _opened(part: TextPart) -> Iterator[FileBytes]:
    with storage_errors("read", part.path):
        fd = open_regular(part.path)
        try:
            _check(part, fd)
            compression = compression_of(os.pread(fd, HEAD_BYTES, 0), part.path)
            yield open_bytes(fd, part.path, compression, chunk_bytes=PIECE_BYTES, start=part.start)
            _check(part, fd)
        finally:
            os.close(fd)


def _check(part: TextPart, fd: int) -> None:
    state = os.fstat(fd)
    if (state.st_size, state.st_mtime_ns) != (part.size, part.mtime_ns):
        raise SourceError(f"{printable(part.path)!r} was changed during the pack: nothing of it is right. Pack again")


def _joined(rest: list[bytes], waiting: int, last: bytes, most: int) -> bytes | None:
    if waiting + len(last) > most:
        return None
    line = b"".join([*rest, last]) if rest else last
    return line.removesuffix(b"\r")
