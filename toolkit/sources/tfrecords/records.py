"""Read the records of a TFRecord file: plain, gzip or zlib; every length and payload checked against its CRC32C.

Knows nothing of what a payload holds, and keeps no record longer than it is looked at.

A record: uint64 length, masked CRC32C of those 8 bytes, payload, masked CRC32C of the payload; all little-endian.
"""

from __future__ import annotations

import io
import os
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import BinaryIO, NamedTuple

from toolkit._native.shards.sums import crc32c
from toolkit.errors import SourceError
from toolkit.sources.base import too_large
from toolkit.sources.inflate import GZIP_OR_ZLIB, InflateError, inflate
from toolkit.sources.names import printable
from toolkit.sources.regular import open_file
from toolkit.sources.state import FileState
from toolkit.sources.tfrecords.skim import Get, ShortFileError, Span, Window
from toolkit.storage.files import storage_errors

__all__ = ["LARGEST_RECORD", "Record", "RecordFile", "Take", "is_named_tfrecord", "looks_like_tfrecord"]

LARGEST_RECORD = (1 << 31) - 2  # bytes; an Arrow binary array holds no more

_HEAD = struct.Struct("<QI")
_CRC = struct.Struct("<I")
_MASK_DELTA = 0xA282EAD8
_BUFFER_BYTES = 1 << 20
_INPUT_BYTES = 1 << 16
_PROBE_BYTES = 4096
_GZIP_MAGIC = b"\x1f\x8b"


# Names that say what a file is, so that a damaged one isn't passed over: a.tfrecord.gz, a-00000-of-01024, part-r-00000.
_NAMED_SO = re.compile(
    r"\.tfrecords?(?=$|[.-])|-\d{5}-of-\d{5}(?=$|\.)|(?:^|/)part-(?:r-)?\d{5}(?=$|[.-])", re.IGNORECASE
)


Take = Callable[[Get, int, int], tuple[bytes, Mapping[bytes, Span] | None]]
"""Returns what is to be known of a payload, and where what was left out lies; what reads the file, where, its length.

None in place of the mapping: it is the whole payload.
"""


class Record(NamedTuple):
    """A record.

    Attributes:
        number: Its number in the file.
        nbytes: The bytes it takes with its frame.
        payload: Its payload, or what was taken of it; None: there is none that can be used.
        fault: Why there is none.
        start: Where the payload begins in the file, decompressed.
        spans: Where in the file lies what was left out of it; None: it is whole.
    """

    number: int
    nbytes: int
    payload: bytes | None
    fault: str
    start: int
    spans: Mapping[bytes, Span] | None = None

    @property
    def length(self) -> int:
        """Bytes of the payload."""
        return self.nbytes - _HEAD.size - _CRC.size


class RecordFile:
    """An open TFRecord file. Attributes: state; compressed (then it can only be read from the beginning)."""

    def __init__(self, path: str, name: str, most: int = LARGEST_RECORD) -> None:
        """Open `path`; `name` is what --exclude knows it by, `most` the bytes of a record. Raises StorageError."""
        self._most = min(most, LARGEST_RECORD)
        self._path = path
        self._name = name
        with storage_errors("read", path):
            self._file = open_file(path)  # closed by close()
            self.state = FileState.of(os.fstat(self._file.fileno()))
            self.compressed = _is_compressed(self._file.read(_PROBE_BYTES))

    def __enter__(self) -> RecordFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def position(self) -> int:
        """Return how far the file itself has been read: the buffer is ahead of the records."""
        return self._file.tell()

    def records(self, start: int = 0, first: int = 0) -> Iterator[Record]:
        """Yield the records from byte `start` on, where record number `first` begins.

        A payload that doesn't fit its CRC, or has too many bytes, is a fault of that record alone.

        Raises:
            SourceError: The file is cut off, or a length doesn't fit its CRC: nothing behind it can be found.
            StorageError: It can't be read.
        """
        number, offset = first, start
        with storage_errors("read", self._path):
            self._file.seek(start)
            stream = io.BufferedReader(_Inflated(self._file) if self.compressed else self._file, _BUFFER_BYTES)
            try:
                while head := stream.read(_HEAD.size):
                    record = self._record(stream, head, number, offset)
                    yield record
                    number += 1
                    offset += record.nbytes
            except InflateError as error:
                raise self._lost(number, offset, str(error)) from error
            finally:
                if not self.compressed and not stream.closed:
                    stream.detach()  # or it would close the file

    def skimmed(self, take: Take, start: int = 0, first: int = 0) -> Iterator[Record]:
        """Yield the records as records() does, with what is taken of each: no payload is checked against its CRC.

        What isn't taken isn't read, but for a few KiB beside the rest. The file must not be compressed.

        Raises:
            SourceError: The file is cut off, or a length doesn't fit its CRC: nothing behind it can be found.
            StorageError: It can't be read.
        """
        window, number, offset = Window(self._file.fileno()), first, start
        with storage_errors("read", self._path):
            while offset < self.state.size:
                try:
                    length = self._length(window.get(offset, _HEAD.size), number, offset)
                    nbytes, begin = _HEAD.size + length + _CRC.size, offset + _HEAD.size
                    if length > self._most:
                        record = Record(number, nbytes, None, self._too_large(length), begin)
                    else:
                        payload, spans = take(window.get, begin, length)
                        record = Record(number, nbytes, payload, "", begin, spans)
                except ShortFileError as error:
                    raise self._lost(number, offset, "the file is cut off") from error
                yield record
                number += 1
                offset += nbytes

    def _record(self, stream: BinaryIO, head: bytes, number: int, offset: int) -> Record:
        length = self._length(head, number, offset)
        nbytes, begin = _HEAD.size + length + _CRC.size, offset + _HEAD.size
        if length > self._most:
            self._skip(stream, length + _CRC.size, number, offset)
            return Record(number, nbytes, None, self._too_large(length), begin)
        payload = stream.read(length)
        tail = stream.read(_CRC.size)
        if len(payload) < length or len(tail) < _CRC.size:
            raise self._lost(number, offset, "the file is cut off")
        if _masked_crc(payload) != _CRC.unpack(tail)[0]:
            return Record(number, nbytes, None, "the payload doesn't fit its CRC", begin)
        return Record(number, nbytes, payload, "", begin)

    def _length(self, head: bytes, number: int, offset: int) -> int:
        """Return the length that a record's head says. Raises SourceError: it can't be right."""
        if len(head) < _HEAD.size:
            raise self._lost(number, offset, "the file is cut off")
        length: int
        length, crc = _HEAD.unpack(head)
        if _masked_crc(head[:8]) != crc:
            raise self._lost(number, offset, "the length doesn't fit its CRC")
        if not self.compressed and offset + _HEAD.size + length + _CRC.size > self.state.size:
            raise self._lost(number, offset, "the file is cut off")
        return length

    def _too_large(self, length: int) -> str:
        return f"record: {too_large(length, self._most)}"

    def _skip(self, stream: BinaryIO, nbytes: int, number: int, offset: int) -> None:
        if not self.compressed:
            stream.seek(nbytes, os.SEEK_CUR)
            return
        while nbytes:
            piece = stream.read(min(nbytes, _BUFFER_BYTES))
            if not piece:
                raise self._lost(number, offset, "the file is cut off")
            nbytes -= len(piece)

    def _lost(self, number: int, offset: int, what: str) -> SourceError:
        where = f"byte {offset} of its decompressed content" if self.compressed else f"byte {offset}"
        if number == 0 and not self.compressed:
            what = f"{what}: damaged, or no TFRecord file"
        return SourceError(
            f"{printable(self._path)!r}: record {number} at {where}: {what}. What lies behind it can't be found. Leave "
            f"the file out with --exclude {printable(self._name)!r}, or make it again"
        )


def looks_like_tfrecord(path: str) -> bool:
    """Tell whether a file begins with a record, as it is or compressed. Raises StorageError."""
    with storage_errors("read", path), open_file(path) as file:
        head = file.read(_PROBE_BYTES)
    return _is_head(head) or _is_head(_inflated_head(head)[0])


def is_named_tfrecord(name: str) -> bool:
    """Tell whether a file is called as TFRecord files are."""
    return _NAMED_SO.search(name) is not None


class _Inflated(io.RawIOBase):
    """What a gzip or zlib file holds, a piece at a time. Borrows the file."""

    def __init__(self, file: BinaryIO | io.FileIO) -> None:
        super().__init__()
        self._pieces = inflate(lambda: file.read(_INPUT_BYTES) or b"", GZIP_OR_ZLIB)
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if not self._piece:
            self._piece = memoryview(next(self._pieces, b""))
        part = self._piece[: len(buffer)]
        buffer[: len(part)] = part
        self._piece = self._piece[len(part) :]
        return len(part)


def _masked_crc(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17 & 0xFFFFFFFF) + _MASK_DELTA) & 0xFFFFFFFF


def _is_head(head: bytes) -> bool:
    return len(head) >= _HEAD.size and _masked_crc(head[:8]) == _HEAD.unpack_from(head)[1]


def _is_compressed(head: bytes) -> bool:
    """Tell whether a file that begins so has to be decompressed; a damaged gzip file has, too."""
    if _is_head(head):
        return False
    inflated, ended = _inflated_head(head)
    return head[:2] == _GZIP_MAGIC or _is_head(inflated) or (ended and not inflated)


def _inflated_head(head: bytes) -> tuple[bytes, bool]:
    """Return the first bytes that compressed bytes hold, and whether that is all; no bytes if it isn't compressed."""
    inflate = zlib.decompressobj(GZIP_OR_ZLIB)
    try:
        return inflate.decompress(head, _HEAD.size), inflate.eof
    except zlib.error:
        return b"", False
