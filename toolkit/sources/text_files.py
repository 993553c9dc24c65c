"""Text files as they lie: whole, or line by line with the number of each; plain, gzip or zstd; in bounded memory.

Knows nothing of JSON and rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from toolkit.errors import SourceError
from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.scan import printable
from toolkit.sources.tar_bytes import TarBytes, compression_of, open_bytes
from toolkit.storage.local import storage_errors

__all__ = ["Line", "TextPart", "cut_lines", "identity", "is_compressed", "read_lines", "read_whole"]

_COUNTED_BYTES = 1024 * 1024
_LARGEST_BYTES = 1 << 30  # of a document: a few of them must fit an Arrow array


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


def identity(path: str) -> tuple[int, int]:
    """Return size and time of a file."""
    with storage_errors("read", path):
        state = os.stat(path)
    return state.st_size, state.st_mtime_ns


def is_compressed(path: str) -> bool:
    """Tell whether a file is gzip or zstd, by its first bytes."""
    with storage_errors("read", path), open(path, "rb") as file:
        return bool(compression_of(file.read(8), path))


def cut_lines(path: str, name: str, most: int) -> Iterator[TextPart]:
    """Cut a plain file between lines into parts of about `most` bytes. Reads it once, to number the lines."""
    size, mtime_ns = identity(path)
    start, first, at, lines = 0, 1, 0, 1
    with storage_errors("read", path), open(path, "rb", buffering=0) as file:
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


def read_lines(part: TextPart) -> Iterator[Line]:
    """Yield the lines of a part.

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
                yield Line(number, _joined(rest, waiting, data[at:found]), source.consumed)
                rest, waiting, at, number = [], 0, found + 1, number + 1
            waiting += len(data) - at
            if waiting <= _LARGEST_BYTES:
                rest.append(data[at:])
        if waiting:
            yield Line(number, _joined(rest, waiting, b""), source.consumed)


def read_whole(part: TextPart) -> bytes | None:
    """Return a file's bytes; None when they are too many to be a value. Raises as read_lines."""
    with _opened(part) as source:
        pieces = []
        total = 0
        while data := bytes(source.read(PIECE_BYTES)):
            total += len(data)
            if total <= _LARGEST_BYTES:
                pieces.append(data)
    return b"".join(pieces) if total <= _LARGEST_BYTES else None


@contextmanager
def _opened(part: TextPart) -> Iterator[TarBytes]:
    with storage_errors("read", part.path):
        fd = os.open(part.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(part, fd)
            compression = compression_of(os.pread(fd, 8, 0), part.path)
            yield open_bytes(fd, part.path, compression, chunk_bytes=PIECE_BYTES, start=part.start)
            _check(part, fd)
        finally:
            os.close(fd)


def _check(part: TextPart, fd: int) -> None:
    state = os.fstat(fd)
    if (state.st_size, state.st_mtime_ns) != (part.size, part.mtime_ns):
        raise SourceError(f"{printable(part.path)!r} was changed during the pack: nothing of it is right. Pack again")


def _joined(rest: list[bytes], waiting: int, last: bytes) -> bytes | None:
    if waiting + len(last) > _LARGEST_BYTES:
        return None
    line = b"".join([*rest, last]) if rest else last
    return line.removesuffix(b"\r")
