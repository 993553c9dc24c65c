"""The footer of a ROXXEL02 file: 32 bytes at its end that say how many blocks and bytes of data, and of which type."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

from toolkit.errors import SourceError
from toolkit.sources.files import InputFile
from toolkit.sources.names import printable
from toolkit.sources.regular import open_file
from toolkit.sources.state import identity
from toolkit.storage.files import storage_errors

__all__ = ["SUFFIXES", "RoxxelFile", "looks_like_roxxel", "read_footer"]

SUFFIXES = (".rox",)

_FOOTER = struct.Struct("<qq8s8s")
_MAGIC = b"ROXXEL02"
_TYPES = ("uint8", "uint16", "uint32", "int16", "int32", "int64", "uint64", "int8")


@dataclass(frozen=True, slots=True)
class RoxxelFile:
    """A file as its footer has it."""

    path: str
    name: str
    size: int
    mtime_ns: int
    dtype: str
    blocks: int
    data_bytes: int


def looks_like_roxxel(path: str) -> bool:
    """Tell whether a file ends as a ROXXEL02 file does. Raises StorageError."""
    with storage_errors("read", path), open_file(path) as file:
        if file.seek(0, os.SEEK_END) < _FOOTER.size:
            return False
        file.seek(-len(_MAGIC), os.SEEK_END)
        return file.read() == _MAGIC


def read_footer(file: InputFile) -> RoxxelFile:
    """Read the end of a file. Raises SourceError: it is no ROXXEL02 file, or a damaged one."""
    size, mtime_ns = identity(file.path)
    shown = printable(file.path)
    if not looks_like_roxxel(file.path):
        raise SourceError(f"{shown!r} doesn't end as a ROXXEL02 file does: it is cut short, or another kind of file")
    with storage_errors("read", file.path), open_file(file.path) as opened:
        opened.seek(-_FOOTER.size, os.SEEK_END)
        blocks, data_bytes, name, _ = _FOOTER.unpack(opened.read())
    if blocks < 0 or data_bytes < 0 or data_bytes + 8 * blocks + _FOOTER.size != size:
        raise SourceError(
            f"{shown!r}: its footer says {blocks} blocks and {data_bytes} bytes, which {size} bytes aren't"
        )
    text = name.rstrip(b"\0").decode("ascii", "replace")
    if text not in _TYPES:
        raise SourceError(f"{shown!r}: its values are {text}, which are no token ids")
    return RoxxelFile(file.path, file.name, size, mtime_ns, text, blocks, data_bytes)
