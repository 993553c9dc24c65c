"""Decompress gzip and zlib, member after member, in pieces of bounded size."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator

__all__ = ["GZIP", "GZIP_OR_ZLIB", "InflateError", "inflate"]

GZIP = 16 + zlib.MAX_WBITS
GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS  # zlib finds out itself which
_PIECE_BYTES = 1024 * 1024


class InflateError(ValueError):
    """Compressed bytes that can't be decompressed. `unread` is how many were given and not used."""

    def __init__(self, message: str, unread: int = 0) -> None:
        super().__init__(message)
        self.unread = unread


def inflate(read: Callable[[], bytes], header: int) -> Iterator[bytes]:
    """Yield what the members hold, one behind the other; zero bytes may follow the last.

    Args:
        read: Returns the next compressed bytes, b"" at the end.
        header: GZIP or GZIP_OR_ZLIB.

    Raises:
        InflateError: They are damaged or end before their end.
    """
    data = read()
    while data:
        stream = zlib.decompressobj(header)
        while not stream.eof:
            try:
                piece = stream.decompress(data, _PIECE_BYTES)
            except zlib.error as error:
                raise InflateError(f"the compressed data is damaged ({error})", len(data)) from error
            if piece:
                yield piece
            data = stream.unconsumed_tail
            # Without input left there may still be output.
            if not data and not stream.eof and len(piece) < _PIECE_BYTES:
                data = read()
                if not data:
                    raise InflateError("the compressed data is cut short")
        data = stream.unused_data or read()
        while data and not data.strip(b"\0"):
            data = read()
        data = data.lstrip(b"\0")
