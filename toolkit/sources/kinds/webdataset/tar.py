"""Walk the members of a tar: ustar, GNU and pax headers, each checked, their data read on request.

Never extracts: a member is a name and bytes, and what its name says is for the caller to judge. Follows no links.
"""

from __future__ import annotations

import enum
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from toolkit.errors import SourceError, UsageError
from toolkit.sources.file_bytes import HEAD_BYTES, Compression, FileBytes, compression_of, open_bytes
from toolkit.sources.names import printable
from toolkit.sources.regular import open_regular
from toolkit.sources.state import FileState, check_unchanged
from toolkit.storage.files import storage_errors

__all__ = [
    "FILE",
    "FOLDER",
    "LINK",
    "OTHER",
    "SPARSE",
    "SUFFIXES",
    "Ending",
    "Member",
    "Tar",
    "TarFile",
    "is_tar",
    "looks_like_tar",
    "open_tar",
]

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tzst", ".tar.bz2", ".tbz", ".tbz2", ".tar.xz", ".txz")

FILE, FOLDER, LINK, SPARSE, OTHER = "file", "folder", "link", "sparse", "other"

_BLOCK_BYTES = 512
_ZEROS = bytes(_BLOCK_BYTES)
_MOST_PADDING_BYTES = 64 * 1024  # the marker and the rest of a record: 10 KiB as a rule, more when asked for
_LONGEST_EXTENSION_BYTES = 1024 * 1024  # of a GNU long name or a pax header
_KINDS = {b"0": FILE, b"\0": FILE, b"7": FILE, b"1": LINK, b"2": LINK, b"5": FOLDER, b"S": SPARSE}
_WITHOUT_DATA = b"123456"


class Member(NamedTuple):
    """A member of a tar.

    Attributes:
        name: As it is in the tar; bytes that aren't UTF-8 as surrogates.
        kind: FILE, FOLDER, LINK, SPARSE or OTHER.
        start: Offset of its first header.
        data: Offset of its data.
        size: Bytes of data.
    """

    name: str
    kind: str
    start: int
    data: int
    size: int


@dataclass(frozen=True, slots=True)
class TarFile:
    """A tar to read, as it was when it was looked at: by these it is known again."""

    path: str
    compression: Compression
    state: FileState


class Ending(enum.Enum):
    """How an archive ends.

    NO_MARKER is the end of the file where a member or the marker belongs; ZEROS the marker and far more zeros than
    any padding; OTHER the marker and something that is neither zeros nor a member.
    """

    MARKER = "marker"
    NO_MARKER = "no_marker"
    ZEROS = "zeros"
    OTHER = "other"


class _HeaderError(ValueError):
    """What is wrong with a header."""


class Tar:
    """A tar that is open. Made by open_tar().

    Attributes:
        file: Which it is.
        ending: How it ends; None until members() came there.
    """

    def __init__(self, file: TarFile, source: FileBytes) -> None:
        self.file = file
        self.ending: Ending | None = None
        self._source = source
        self._last = ""  # name of the last good member

    @property
    def consumed(self) -> int:
        """Bytes of the file that were needed so far."""
        return self._source.consumed

    def members(self, end: int | None = None) -> Iterator[Member]:
        """Yield the members in order, up to offset `end` or the end of the archive.

        Raises:
            SourceError: A header is damaged or the file is cut; names the tar, the place and the last good member.
        """
        source = self._source
        while end is None or source.position < end:
            member = self._next()
            if isinstance(member, Ending):
                self.ending = self._tail() if member is Ending.MARKER else member
                return
            yield member
            target = member.data + -(-member.size // _BLOCK_BYTES) * _BLOCK_BYTES
            if not source.skip_to(target):
                raise self._fault(
                    member.start, f"the file ends within the {member.size} bytes of {_shown(member.name)}"
                )
            self._last = member.name

    def read(self, member: Member) -> memoryview:
        """Return the data of the member that members() yielded last; once. The view owns its memory."""
        view = self._source.read(member.size)
        if len(view) < member.size:
            raise self._fault(member.start, f"the file ends within the {member.size} bytes of {_shown(member.name)}")
        return view

    def peek(self, member: Member, length: int) -> bytes:
        """Return the first `length` bytes of the member that members() yielded last, or all; instead of read()."""
        return bytes(self._source.read(min(length, member.size)))

    def _next(self) -> Member | Ending:
        """Read the headers of the next member, or what ends the archive: the first block of the marker, or no more."""
        source = self._source
        start = source.position
        long_name: str | None = None
        pax: dict[str, bytes] = {}
        while True:
            at = source.position
            block = bytes(source.read(_BLOCK_BYTES))
            if len(block) < _BLOCK_BYTES and block.strip(b"\0"):
                raise self._fault(at, "the file ends within a header")
            if len(block) < _BLOCK_BYTES or block == _ZEROS:
                if long_name is None and not pax:
                    if not at and not block:
                        raise SourceError(f"{self.file.path!r} is empty: no tar. Make it again, or --exclude it")
                    return Ending.MARKER if len(block) == _BLOCK_BYTES else Ending.NO_MARKER
                raise self._fault(at, "the archive ends behind a header that announces a member")
            try:
                name, flag, size = _parse(block)
                if flag in b"LKxgX":
                    extension = self._extension(size, at)
                    if flag == b"L":
                        long_name = _text(extension)
                    elif flag == b"g":
                        _check_global(_pax_records(extension))
                    elif flag != b"K":
                        pax |= _pax_records(extension)
                    continue
                if pax.get("size"):
                    size = _decimal(pax["size"])
            except _HeaderError as error:
                if not at:
                    raise SourceError(
                        f"{self.file.path!r} is no tar: {error}, at byte 0. Make it again, or --exclude it"
                    ) from error
                raise self._fault(at, str(error)) from error
            break
        if pax.get("path"):
            name = pax["path"].decode("utf-8", "surrogateescape")
        elif long_name is not None:
            name = long_name
        kind = _KINDS.get(flag, OTHER)
        if kind == SPARSE:
            extended = block[482]
            while extended:
                extended = self._extension(_BLOCK_BYTES, at)[504]
        elif kind == FILE and name.endswith("/"):
            kind = FOLDER  # as tars before POSIX have them
        elif any(key.startswith("GNU.sparse.") for key in pax):
            kind = SPARSE
        return Member(name, kind, start, source.position, 0 if flag in _WITHOUT_DATA else size)

    def _extension(self, size: int, at: int) -> bytes:
        """Read the data of a header that belongs to the next member."""
        if size > _LONGEST_EXTENSION_BYTES:
            raise _HeaderError(f"a header of {size} bytes")
        padded = -(-size // _BLOCK_BYTES) * _BLOCK_BYTES
        data = bytes(self._source.read(padded))
        if len(data) < padded:
            raise self._fault(at, "the file ends within a header")
        return data[:size]

    def _tail(self) -> Ending:
        """Read on to the end of the file: so the check sum of a compressed one is seen, and what lies there."""
        source = self._source
        start = source.position
        ending = Ending.MARKER
        while True:
            at = source.position
            block = bytes(source.read(_BLOCK_BYTES))
            if block.strip(b"\0"):
                ending = Ending.OTHER  # GNU tar passes over it as well
            if len(block) < _BLOCK_BYTES:
                break
            if block == _ZEROS:
                continue
            try:
                _parse(block)
            except _HeaderError:
                continue
            raise self._fault(
                at,
                "another archive begins behind the end of the first, where readers stop; make them files of their own",
            )
        many = source.position - start > _MOST_PADDING_BYTES
        return Ending.ZEROS if many and ending is Ending.MARKER else ending

    def _fault(self, at: int, what: str) -> SourceError:
        last = f"; the last good member is {_shown(self._last)}" if self._last else ""
        inside = " of the uncompressed tar" if self.file.compression else ""
        return SourceError(
            f"{self.file.path!r}, byte {at}{inside}: {what}{last}. Make the tar again, or leave it out with --exclude"
        )


@contextmanager
def open_tar(path: str, *, chunk_bytes: int, start: int = 0, known: TarFile | None = None) -> Iterator[Tar]:
    """Open a tar to walk its members from offset `start` on.

    Args:
        path: The file.
        chunk_bytes: How much of a plain tar is read at a time: little to see headers only, much to read all.
        start: Offset of a member's first header.
        known: What the file must still be, when it is opened and when it is closed.

    Raises:
        SourceError: It isn't what it was, or is no tar.
        StorageError: It can't be read.
    """
    with storage_errors("read", path):
        fd = open_regular(path)
        try:
            compression = compression_of(os.pread(fd, HEAD_BYTES, 0), path)
            file = _identity(fd, path, compression)
            _check_same(file, known)
            yield Tar(file, open_bytes(fd, path, compression, chunk_bytes=chunk_bytes, start=start))
            _check_same(_identity(fd, path, compression), file)
        finally:
            os.close(fd)


def looks_like_tar(path: str) -> bool:
    """Tell whether a file begins as a tar does, compressed or not. Raises StorageError.

    A zstd file is taken at its name's word when the package that reads it is missing.
    """
    try:
        return is_tar(path)
    except UsageError:
        return path.lower().endswith(SUFFIXES)


def is_tar(path: str) -> bool:
    """Tell whether a file begins as a tar does, plain or compressed, with a member in it.

    Raises:
        UsageError: It is zstd, and the package that reads it isn't installed.
        StorageError: It can't be read.
    """
    with storage_errors("read", path):
        fd = open_regular(path)
        try:
            source = open_bytes(fd, path, compression_of(os.pread(fd, HEAD_BYTES, 0), path), chunk_bytes=_BLOCK_BYTES)
            _parse(bytes(source.read(_BLOCK_BYTES)))
        except (SourceError, _HeaderError):
            return False
        finally:
            os.close(fd)
    return True


def _identity(fd: int, path: str, compression: Compression) -> TarFile:
    return TarFile(path, compression, FileState.of(os.fstat(fd)))


def _check_same(file: TarFile, known: TarFile | None) -> None:
    if known is not None:
        check_unchanged(file.path, known.state, file.state)


def _parse(block: bytes) -> tuple[str, bytes, int]:
    """Return name, type flag and size of a header block."""
    if len(block) < _BLOCK_BYTES:
        raise _HeaderError("no tar header")
    given = block[148:156]
    # adler32's lower half is 1 + the sum of the bytes modulo 65521: exact for half a block, and faster than sum().
    total = (zlib.adler32(block[:256]) & 0xFFFF) + (zlib.adler32(block[256:]) & 0xFFFF) - 2
    others = total - sum(given) + 8 * 0x20
    claimed = _octal(given)
    if claimed != others:
        negative = sum(byte > 127 for byte in block) - sum(byte > 127 for byte in given)
        if claimed != others - 256 * negative:  # old tars summed signed bytes
            raise _HeaderError("no valid header, its check sum differs")
    name = _text(block[:100])
    if block[257:263] == b"ustar\0" and block[345]:  # GNU has times there
        name = f"{_text(block[345:500])}/{name}"
    return name, block[156:157], _number(block[124:136])


def _number(field: bytes) -> int:
    """Return a size: octal, or GNU's base 256."""
    if not field[0] & 0x80:
        return _octal(field)
    if field[0] & 0x40:
        raise _HeaderError("a header with a negative size")
    return int.from_bytes(field, "big") & ~(0x80 << 8 * (len(field) - 1))


def _octal(field: bytes) -> int:
    digits = field.partition(b"\0")[0].strip(b" ")
    if not digits:
        return 0
    try:
        if digits.isdigit():
            return int(digits, 8)
    except ValueError:
        pass
    raise _HeaderError("no valid header, a number isn't octal")


def _decimal(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 20:
        raise _HeaderError("a pax header whose size isn't a number")
    return int(digits)


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _pax_records(data: bytes) -> dict[str, bytes]:
    """Return the records "length key=value\\n" of a pax header."""
    records = {}
    while data.strip(b"\0"):
        digits, space, _ = data[:24].partition(b" ")
        length = int(digits) if digits.isdigit() and space else 0
        key, equals, value = data[len(digits) + 1 : length].partition(b"=")
        if not equals or length > len(data) or not value.endswith(b"\n"):
            raise _HeaderError("a pax header that can't be read")
        records[key.decode("utf-8", "surrogateescape")] = value[:-1]
        data = data[length:]
    return records


def _check_global(records: dict[str, bytes]) -> None:
    """Refuse what would hold for all members that follow, which a reader that begins further on can't know."""
    for key in ("path", "size"):
        if key in records:
            raise _HeaderError(f"a global pax header that sets {key} for all members")


def _shown(name: str) -> str:
    return repr(printable(name))
