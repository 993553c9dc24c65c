"""The text of a file front to back, as UTF-8: plain or compressed, in whatever encoding it is; in bounded memory.

Knows nothing of rows. What isn't text of the encoding is an error that names the line and the byte.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from toolkit.errors import SourceError, UsageError
from toolkit.sources.file_bytes import HEAD_BYTES, FileBytes, compression_of, open_bytes
from toolkit.sources.files import InputFile
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.regular import open_regular
from toolkit.sources.state import FileState, check_unchanged
from toolkit.storage.files import storage_errors

__all__ = ["BLOCK_BYTES", "BYTE_ORDER_MARK", "TextFile", "check_encoding", "open_text", "place_of"]

BLOCK_BYTES = 4 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_UTF_8 = ("utf-8", "utf-8-sig")
# Python's own notations, which no file is in.
_NOTATIONS = frozenset({"idna", "punycode", "raw_unicode_escape", "undefined", "unicode_escape"})
_WIDE_MARKS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file of text, and what it was like when it was opened first.

    Attributes:
        file: Where it is.
        state: By which a change is noticed.
        compression: As toolkit.sources.file_bytes names it.
        encoding: None for UTF-8.
    """

    file: InputFile
    state: FileState
    compression: str
    encoding: str | None

    @property
    def has_places(self) -> bool:
        """Whether reading can begin at any offset of the text, since the text is the file."""
        return not self.compression and self.encoding is None

    @property
    def shown(self) -> str:
        """The path, for messages."""
        return repr(printable(self.file.path))

    def blocks(self, start: int = 0, end: int | None = None) -> Iterator[bytes]:
        """Yield the text from `start` to `end` in blocks of about BLOCK_BYTES, a byte order mark at its front too.

        A place other than the front is for files that have places.

        Raises:
            SourceError: It was changed, its compressed data are damaged, or a byte isn't of the encoding.
            StorageError: It can't be read.
        """
        with self._opened(start) as source:
            yield from _plain(source, end) if self.encoding is None else _decoded(self, source)

    @contextmanager
    def _opened(self, start: int) -> Iterator[FileBytes]:
        path = self.file.path
        with storage_errors("read", path):
            fd = open_regular(path)
            try:
                check_unchanged(path, self.state, FileState.of(os.fstat(fd)))
                yield open_bytes(fd, path, self.compression, chunk_bytes=BLOCK_BYTES, start=start)
                check_unchanged(path, self.state, FileState.of(os.fstat(fd)))
            finally:
                os.close(fd)


def check_encoding(name: str | None) -> str | None:
    """Return the encoding of that name as Python calls it; None for UTF-8. Raises UsageError: there is none."""
    if name is None:
        return None
    try:
        known = codecs.lookup(name)
        is_text = known.name not in _NOTATIONS and "a,\n".encode(known.name).decode(known.name) == "a,\n"
    except (LookupError, ValueError, TypeError):
        is_text = False
    if not is_text:
        raise UsageError(
            f"--encoding {name!r} is no encoding of text that is known: give one as utf-16, latin-1, cp1252"
        )
    return None if known.name in _UTF_8 else known.name


def open_text(file: InputFile, encoding: str | None) -> TextFile:
    """Look at the front of a file. `encoding` is as check_encoding() gives it.

    Raises:
        SourceError: Its name isn't UTF-8; it begins as text of another encoding; it is compressed in an unknown way.
        StorageError: It can't be read.
    """
    path = file.path
    if not is_utf8(file.name):
        raise SourceError(f"the file name {printable(path)!r} is not valid UTF-8, which keys are made of: rename it")
    with storage_errors("read", path):
        fd = open_regular(path)
        try:
            state = FileState.of(os.fstat(fd))
            compression = compression_of(os.pread(fd, HEAD_BYTES, 0), path)
            head = bytes(open_bytes(fd, path, compression, chunk_bytes=HEAD_BYTES).read(HEAD_BYTES))
        finally:
            os.close(fd)
    told = next((name for mark, name in _WIDE_MARKS if head.startswith(mark)), None)
    if encoding is None and told is not None:
        raise SourceError(f"{printable(path)!r} begins as {told.upper()} text does: give --encoding {told}")
    return TextFile(file, state, compression, encoding)


def place_of(text: TextFile, line: int) -> str:
    """Return where a line is, for messages."""
    return f"{text.shown}, line {line}"


def _plain(source: FileBytes, end: int | None) -> Iterator[bytes]:
    while True:
        want = BLOCK_BYTES if end is None else min(BLOCK_BYTES, end - source.position)
        data = bytes(source.read(want)) if want else b""
        if not data:
            return
        yield data


def _decoded(text: TextFile, source: FileBytes) -> Iterator[bytes]:
    """Yield the text in UTF-8."""
    decoder = codecs.getincrementaldecoder(text.encoding or "")("strict")
    lines, final = 1, False
    while not final:
        waiting = len(decoder.getstate()[0])
        before = source.position
        data = bytes(source.read(BLOCK_BYTES))
        final = not data
        try:
            decoded = decoder.decode(data, final)
        except UnicodeDecodeError as error:
            lines += error.object[: error.start].decode(text.encoding or "", "ignore").count("\n")
            raise SourceError(
                f"{place_of(text, lines)}: byte {before - waiting + error.start} is not {text.encoding} text "
                f"({error.reason}): give another --encoding, or mend the file"
            ) from error
        lines += decoded.count("\n")
        if decoded:
            yield decoded.encode()
