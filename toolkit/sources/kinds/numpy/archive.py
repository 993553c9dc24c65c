"""The members of an .npz archive: where the bytes of each lie, and whether what is claimed of them can be true.

Knows nothing of arrays. Bytes are never inflated to find out how many they are.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from toolkit.errors import SourceError
from toolkit.sources.names import printable
from toolkit.sources.regular import open_file
from toolkit.sources.state import FileState
from toolkit.storage.files import read_range, storage_errors

__all__ = ["Region", "is_archive", "pieces_of", "read_members"]

MAGIC = b"PK\x03\x04"
_EMPTY_MAGIC = b"PK\x05\x06"
_LOCAL = struct.Struct("<4s5H3I2H")  # the header before a member's bytes; the lengths of name and extra field end it
_END_BYTES = 22  # of what ends an archive, but for a comment
_MANY = 0xFFFF  # members, or more
_MOST_CATALOGUE_BYTES = 16 * 1024 * 1024
_MOST_RATIO = 1032  # no deflate stream becomes more times as large
_ENCRYPTED = 1
_STRONG = 64
_UTF8 = 0x800
_INPUT_BYTES = 256 * 1024
_METHODS = {9: "deflate64", 12: "bzip2", 14: "lzma", 93: "zstd", 95: "xz"}


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes of a file that hold one .npy file: the whole file, or a member of an archive.

    Attributes:
        path: The file.
        state: What it was.
        offset: Where they begin.
        stored: How many there are.
        size: How many they are once inflated.
        is_deflated: Whether they have to be.
        crc: What their CRC32 has to be, inflated; None: nobody says.
    """

    path: str
    state: FileState
    offset: int
    stored: int
    size: int
    is_deflated: bool = False
    crc: int | None = None


class _Catalogue(io.BufferedReader):
    """A file that isn't asked for very much at a time: zipfile reads a whole directory of members at once."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > _MOST_CATALOGUE_BYTES:
            raise zipfile.BadZipFile(f"its directory takes {size} bytes, {_MOST_CATALOGUE_BYTES} at the most are read")
        return super().read(size)


def is_archive(head: bytes) -> bool:
    """Tell whether a file that begins so is a zip archive, one without members too."""
    return head.startswith((MAGIC, _EMPTY_MAGIC))


def read_members(path: str) -> dict[str, Region]:
    """Return the members of an archive by name, in its order.

    Raises:
        SourceError: It is damaged, encrypted, or claims what can't be.
        StorageError: It can't be read.
    """
    shown = printable(path)
    with storage_errors("read", path), open_file(path) as raw:
        state = FileState.of(os.fstat(raw.fileno()))
        try:
            with _Catalogue(raw) as file, zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
                end = read_range(raw.fileno(), state.size - _END_BYTES - len(archive.comment), _END_BYTES)
                # zipfile doesn't count; a damaged length would take the members behind it for a comment.
                if int.from_bytes(end[10:12], "little") not in (len(infos), _MANY):
                    raise zipfile.BadZipFile("it doesn't have as many members as it says")
                members = [(info, _region(raw.fileno(), path, state, info)) for info in infos if not info.is_dir()]
        except (SourceError, MemoryError):
            raise
        except OSError as error:
            if error.errno is not None:
                raise
            raise SourceError(f"{shown!r} is no archive that can be read ({error})") from error
        except Exception as error:  # a damaged directory leads zipfile to ValueError, struct.error, EOFError and more
            said = " ".join(str(error).split()) or type(error).__name__
            raise SourceError(f"{shown!r} is no archive that can be read ({said}): save it anew") from error
    found: dict[str, Region] = {}
    behind = 0
    for info, region in sorted(members, key=lambda one: one[1].offset):
        if region.offset < behind:
            raise SourceError(
                f"{shown!r}: the bytes of {info.filename!r} are those of another member too. Save it anew"
            )
        behind = region.offset + region.stored
    for info, region in members:
        if info.filename in found:
            raise SourceError(f"{shown!r} has two members called {info.filename!r}: save it anew with one of them")
        found[info.filename] = region
    return found


def _region(fd: int, path: str, state: FileState, info: zipfile.ZipInfo) -> Region:
    """Return where a member's bytes lie. Raises SourceError."""
    where = f"{printable(path)!r}, member {info.filename!r}"
    if info.flag_bits & (_ENCRYPTED | _STRONG):
        raise SourceError(f"{where} is encrypted: save it anew without a password")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        method = _METHODS.get(info.compress_type, f"method {info.compress_type}")
        raise SourceError(f"{where} is compressed by {method}, which NumPy doesn't write: save it with np.savez")
    is_deflated = info.compress_type == zipfile.ZIP_DEFLATED
    header = read_range(fd, info.header_offset, _LOCAL.size) if info.header_offset >= 0 else b""
    if len(header) < _LOCAL.size or not header.startswith(MAGIC):
        raise SourceError(f"{where} isn't where the archive says: it is damaged. Save it anew")
    *_, name_bytes, extra_bytes = _LOCAL.unpack(header)
    name = info.orig_filename.encode("utf-8" if info.flag_bits & _UTF8 else "cp437")
    if read_range(fd, info.header_offset + _LOCAL.size, name_bytes) != name:
        raise SourceError(f"{where} is called otherwise where it lies: the archive is damaged. Save it anew")
    offset = info.header_offset + _LOCAL.size + name_bytes + extra_bytes
    if offset + info.compress_size > state.size:
        raise SourceError(f"{where} ends behind the end of the file, which is cut short or damaged. Save it anew")
    most = info.compress_size * _MOST_RATIO if is_deflated else info.compress_size
    if info.file_size > most or (not is_deflated and info.file_size != info.compress_size):
        raise SourceError(
            f"{where} claims {info.file_size} bytes, and the {info.compress_size} that are there can't become as many"
        )
    return Region(path, state, offset, info.compress_size, info.file_size, is_deflated, info.CRC)


def pieces_of(region: Region, most: int) -> Generator[bytes, None, None]:
    """Yield the bytes of a region, inflated, in pieces of `most` at the most; checked at the end.

    Raises:
        SourceError: They are damaged, or more or fewer than the archive says.
        StorageError: They can't be read.
    """
    with storage_errors("read", region.path), open_file(region.path) as file:
        total = crc = 0
        for piece in (
            _inflated(file.fileno(), region, most) if region.is_deflated else _plain(file.fileno(), region, most)
        ):
            total += len(piece)
            if total > region.size:
                raise SourceError(f"{_shown(region)} inflates to more than the {region.size} bytes that it claims")
            crc = zlib.crc32(piece, crc)
            yield piece
    if total < region.size:
        raise SourceError(f"{_shown(region)} ends after {total} of the {region.size} bytes that it claims")
    if region.crc is not None and crc != region.crc:
        raise SourceError(f"{_shown(region)} is damaged: its CRC32 is another. Save it anew")


def _plain(fd: int, region: Region, most: int) -> Iterator[bytes]:
    at, end = region.offset, region.offset + region.stored
    while at < end:
        piece = read_range(fd, at, min(most, end - at))
        if not piece:
            return
        yield piece
        at += len(piece)


def _inflated(fd: int, region: Region, most: int) -> Iterator[bytes]:
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    at, end = region.offset, region.offset + region.stored
    data = b""
    while not stream.eof:
        if not data:
            data = read_range(fd, at, min(_INPUT_BYTES, end - at))
            at += len(data)
        try:
            piece = stream.decompress(data, most)
        except zlib.error as error:
            raise SourceError(f"{_shown(region)} is damaged ({error}). Save it anew") from error
        if piece:
            yield piece
        elif not data:
            return  # it ends before its end
        data = stream.unconsumed_tail
    if stream.unused_data or data or at < end:
        raise SourceError(f"{_shown(region)} ends before the bytes that it takes: it is damaged. Save it anew")


def _shown(region: Region) -> str:
    return f"an array of {printable(region.path)!r} (at byte {region.offset})"
