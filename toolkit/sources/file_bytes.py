"""The bytes of a file, front to back: plain, gzip, bzip2, xz or zstd, as the content tells, in bounded memory.

Brotli and snappy have nothing to be known by, so a file is read as such where its source says that it is. Knows nothing
of tar headers, and writes nothing.
"""

from __future__ import annotations

import bz2
import io
import lzma
import os
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import pyarrow as pa

from toolkit.errors import SourceError, UsageError
from toolkit.sources.inflate import GZIP, InflateError, inflate
from toolkit.sources.names import printable

__all__ = ["HEAD_BYTES", "Compression", "FileBytes", "compression_of", "open_bytes"]

# A plain tar is "", so that it is false.
Compression = str

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"  # behind a byte 0x50 to 0x5f
_BZIP2_MAGIC = b"BZh"
_BZIP2_BLOCKS = (b"1AY&SY", b"\x17\x72\x45\x38\x50\x90")  # one of them comes behind the magic and a digit
_XZ_MAGIC = b"\xfd7zXZ\0"
_REFUSED_MAGIC = {b"PK\x03\x04": "zip", b"\x04\x22\x4d\x18": "lz4"}
HEAD_BYTES = 10  # what compression_of() looks at
_RAW_BYTES = 128 * 1024
_PIECE_BYTES = 1024 * 1024
_SNAPPY_BYTES = 256 * 1024 * 1024  # it can only be decompressed as a whole
_XZ_MEMORY_BYTES = 256 * 1024 * 1024  # xz -9 takes 65 MiB; a header may ask for 4 GiB


class FileBytes(Protocol):
    """Bytes that are read once, in order.

    Attributes:
        position: Offset of the next byte, uncompressed.
    """

    position: int

    @property
    def consumed(self) -> int:
        """Bytes of the file that were needed for what was read."""

    def read(self, length: int) -> memoryview:
        """Return the next `length` bytes; fewer only at the end. The view owns its memory and stays valid."""

    def skip_to(self, offset: int) -> bool:
        """Go on at `offset`, at or behind the position; False if the file ends before it."""


def compression_of(head: bytes, path: str) -> Compression:
    """Return "gzip", "bzip2", "xz", "zstd" or "" for the first HEAD_BYTES of a file.

    Raises:
        SourceError: It is compressed or packed in another way.
    """
    if head.startswith(_GZIP_MAGIC):
        return "gzip"
    if head.startswith(_ZSTD_MAGIC) or (head[1:4] == _ZSTD_SKIPPABLE and head[0] >> 4 == 5):
        return "zstd"
    # A member may be called BZh9…: so that alone is no bzip2.
    if head.startswith(_BZIP2_MAGIC) and head[4:10] in _BZIP2_BLOCKS:
        return "bzip2"
    if head.startswith(_XZ_MAGIC):
        return "xz"
    for magic, name in _REFUSED_MAGIC.items():
        if head.startswith(magic):
            raise SourceError(
                f"{printable(path)!r} is {name}: inputs may be plain, gzip, bzip2, xz or zstd. "
                "Make it a plain file again"
            )
    return ""


def open_bytes(fd: int, path: str, compression: Compression, *, chunk_bytes: int, start: int = 0) -> FileBytes:
    """Return the bytes of the file from `start` on. The descriptor stays the caller's and must outlive them.

    Args:
        fd: The file, opened to read.
        path: Its path, for messages.
        compression: From compression_of(), or "brotli" or "snappy".
        chunk_bytes: How much of a plain file is read at a time.
        start: Where to begin, uncompressed; a compressed file is read from its front all the same.

    Raises:
        UsageError: It is zstd, and the package that reads it isn't installed.
    """
    if not compression:
        return _Plain(fd, start, chunk_bytes)
    raw = _Raw(fd, path)
    inflated = _Inflated(raw, _UNPACK[compression](raw))
    inflated.skip_to(start)
    return inflated


class _Plain:
    """A plain file in large reads. A view of a chunk keeps the chunk alive; chunks are never written again."""

    def __init__(self, fd: int, start: int, chunk_bytes: int) -> None:
        self._fd = fd
        self._chunk_bytes = chunk_bytes
        self._size = os.fstat(fd).st_size
        self._chunk = memoryview(b"")
        self._base = start  # offset of the chunk
        self.position = start

    @property
    def consumed(self) -> int:
        return self.position

    def read(self, length: int) -> memoryview:
        at = self.position - self._base
        if at + length > len(self._chunk):
            self._fill(length)
            at = 0
        view = self._chunk[at : at + length]
        self.position += len(view)
        return view

    def skip_to(self, offset: int) -> bool:
        self.position = min(offset, self._size)
        return self.position == offset

    def _fill(self, length: int) -> None:
        """Read the next chunk, of `length` bytes at least, from the position on."""
        left = self._chunk[self.position - self._base :]
        # Never more than the file has: a damaged header may ask for anything.
        size = max(min(max(length, self._chunk_bytes), self._size - self.position), len(left))
        chunk = memoryview(np.empty(size, np.uint8))  # type: ignore[arg-type]
        have = len(left)
        chunk[:have] = left
        while have < size:
            got = os.preadv(self._fd, [chunk[have:]], self.position + have)
            if not got:
                break  # cut since it was measured: the caller sees that bytes are missing
            have += got
        self._chunk = chunk[:have].toreadonly()
        self._base = self.position


class _Inflated:
    """A compressed file."""

    def __init__(self, raw: _Raw, pieces: Iterator[bytes]) -> None:
        self._raw = raw
        self._pieces = pieces
        self._piece = memoryview(b"")
        self.position = 0

    @property
    def consumed(self) -> int:
        return self._raw.offset

    def read(self, length: int) -> memoryview:
        if length <= len(self._piece):
            view, self._piece = self._piece[:length], self._piece[length:]
        else:
            view = memoryview(b"".join(self._take(length)))
        self.position += len(view)
        return view

    def skip_to(self, offset: int) -> bool:
        for part in self._take(offset - self.position):
            self.position += len(part)
        return self.position == offset

    def _take(self, length: int) -> Iterator[memoryview]:
        """Yield parts that come to `length` bytes, or fewer at the end."""
        while length:
            if not self._piece:
                piece = next(self._pieces, None)
                if piece is None:
                    return
                self._piece = memoryview(piece)
            part = self._piece[:length]
            self._piece = self._piece[length:]
            length -= len(part)
            yield part


class _Raw:
    """The file's own bytes in order, by read() or by take(), and how far they are used."""

    def __init__(self, fd: int, path: str) -> None:
        self._fd = fd
        self.path = path
        self.offset = 0
        self._read = 0
        self._left = b""  # what take() has still to give, from _at on
        self._at = 0

    def read(self) -> bytes:
        """Return the next bytes, b"" at the end."""
        data = os.pread(self._fd, _RAW_BYTES, self._read)
        self._read += len(data)
        self.offset = self._read
        return data

    def take(self, length: int, *, at_least: int | None = None) -> bytes:
        """Return the next `length` bytes. Raises SourceError when the file ends before, unless at `at_least` bytes."""
        while length > len(self._left) - self._at:
            data = os.pread(self._fd, _RAW_BYTES, self._read)
            if not data:
                break
            self._read += len(data)
            self._left, self._at = self._left[self._at :] + data, 0
        taken = self._left[self._at : self._at + length]
        self._at += len(taken)
        self.offset += len(taken)
        if len(taken) < length and len(taken) != at_least:
            raise self.fault("the zstd data are cut short")
        return taken

    def fault(self, what: str, unread: int = 0) -> SourceError:
        return SourceError(
            f"{printable(self.path)!r}: {what} near byte {self.offset - unread} of the file. "
            "Get or make the file again, or leave it out with --exclude"
        )


def _gunzip(raw: _Raw) -> Iterator[bytes]:
    """Yield what gzip members, one behind the other, hold."""
    try:
        yield from inflate(raw.read, GZIP)
    except InflateError as error:
        raise raw.fault(str(error), error.unread) from error


def _unbzip2(raw: _Raw) -> Iterator[bytes]:
    return _unpack(raw, bz2.BZ2Decompressor)


def _unxz(raw: _Raw) -> Iterator[bytes]:
    return _unpack(raw, lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES))


def _unpack(raw: _Raw, make: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]) -> Iterator[bytes]:
    """Yield what bzip2 or xz streams, one behind the other, hold; zero bytes may follow each."""
    data = raw.read()
    while data:
        stream = make()
        while not stream.eof:
            try:
                piece = stream.decompress(data, _PIECE_BYTES)
            except (OSError, lzma.LZMAError, EOFError, ValueError) as error:
                raise raw.fault(f"the compressed data is damaged ({error})", len(data)) from error
            if piece:
                yield piece
            data = b""
            if stream.needs_input and not stream.eof:
                data = raw.read()
                if not data:
                    raise raw.fault("the compressed data is cut short")
        data = stream.unused_data or raw.read()
        while data and not data.strip(b"\0"):
            data = raw.read()
        data = data.lstrip(b"\0")


def _unzstd(raw: _Raw) -> Iterator[bytes]:
    """Yield what zstd frames, one behind the other, hold.

    A frame can grow 30,000-fold, and the decompressor gives all that its input comes to; so it is fed block by block,
    and a block never holds more than 128 KiB.
    """
    try:
        import zstandard
    except ImportError as error:
        raise UsageError(
            f"{printable(raw.path)!r} is zstd, and the package that reads it is missing: pip install zstandard"
        ) from error
    context = zstandard.ZstdDecompressor()
    for parts in _zstd_frames(raw):
        stream = context.decompressobj()
        for part in parts:
            try:
                piece = stream.decompress(part)
            except zstandard.ZstdError as error:
                raise raw.fault(f"damaged zstd data ({error})") from error
            if piece:
                yield piece
        if not stream.eof:
            raise raw.fault("damaged zstd data (a frame without an end)")


def _zstd_frames(raw: _Raw) -> Iterator[Iterator[bytes]]:
    """Yield the parts of each frame: its header, its blocks, its check sum. See RFC 8878, section 3.1."""
    while magic := raw.take(4, at_least=0):
        if magic[1:] == _ZSTD_SKIPPABLE and magic[0] >> 4 == 5:
            left = int.from_bytes(raw.take(4), "little")
            while left:
                left -= len(raw.take(min(left, _RAW_BYTES)))
        elif magic == _ZSTD_MAGIC:
            yield _zstd_parts(raw)
        else:
            raise raw.fault("damaged zstd data (something else behind a frame)")


def _zstd_parts(raw: _Raw) -> Iterator[bytes]:
    flags = raw.take(1)
    single = flags[0] >> 5 & 1
    rest = (1 - single) + (0, 1, 2, 4)[flags[0] & 3] + (single, 2, 4, 8)[flags[0] >> 6]
    yield _ZSTD_MAGIC + flags + raw.take(rest)
    last = 0
    while not last:
        header = raw.take(3)
        bits = int.from_bytes(header, "little")
        last = bits & 1
        yield header + raw.take(1 if bits >> 1 & 3 == 1 else bits >> 3)
    if flags[0] >> 2 & 1:
        yield raw.take(4)


def _unbrotli(raw: _Raw) -> Iterator[bytes]:
    """Yield what a brotli stream holds."""
    try:
        stream = pa.CompressedInputStream(pa.PythonFile(_RawFile(raw), "r"), "brotli")
        while piece := stream.read(_PIECE_BYTES):
            yield piece
    except (OSError, pa.ArrowException) as error:
        raise raw.fault(f"the compressed data is damaged or cut short ({error})") from error


def _unsnappy(raw: _Raw) -> Iterator[bytes]:
    """Yield what one block of snappy holds, which says its size first."""
    parts, size = [], 0
    while raw.offset <= _SNAPPY_BYTES and (part := raw.read()):
        parts.append(part)
    data = b"".join(parts)
    for i, byte in enumerate(data[:5]):
        size |= (byte & 127) << 7 * i
        if byte < 128:
            break
    if max(size, len(data)) > _SNAPPY_BYTES:
        raise raw.fault(f"{size} bytes in snappy, which is read up to {_SNAPPY_BYTES}; zstd and gzip have no limit")
    try:
        yield pa.decompress(data, size, codec="snappy", asbytes=True)
    except (OSError, pa.ArrowException) as error:
        raise raw.fault(f"the compressed data is damaged or cut short ({error})") from error


class _RawFile(io.RawIOBase):
    """A file's own bytes as pyarrow reads them."""

    def __init__(self, raw: _Raw) -> None:
        super().__init__()
        self._raw = raw
        self._left = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self._left = self._left or self._raw.read()
        piece, self._left = self._left[:size], self._left[size:]
        return piece


_UNPACK: dict[Compression, Callable[[_Raw], Iterator[bytes]]] = {
    "gzip": _gunzip,
    "bzip2": _unbzip2,
    "xz": _unxz,
    "zstd": _unzstd,
    "brotli": _unbrotli,
    "snappy": _unsnappy,
}
