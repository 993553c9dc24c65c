"""Tell a table of JSON lines from a corpus of texts, whose one field is "text": by the name and the first line."""

from __future__ import annotations

import json
import os

from toolkit.errors import ToolkitError
from toolkit.sources.file_bytes import HEAD_BYTES, compression_of, open_bytes
from toolkit.sources.file_names import JSON_LINES
from toolkit.sources.regular import open_regular
from toolkit.storage.files import storage_errors

__all__ = ["first_fields", "is_json_table"]

_LOOKED_AT_BYTES = 64 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_TEXT = "text"


def is_json_table(path: str) -> bool:
    """Tell whether a file is called as JSON lines are, and its first line has more than a text. Raises StorageError."""
    return path.lower().endswith(JSON_LINES) and first_fields(path) not in ((), (_TEXT,))


def first_fields(path: str) -> tuple[str, ...]:
    """Return the names in the object on the first line that isn't blank; none if that can't be told.

    Of a very long one, the first name. Raises StorageError: the file can't be read.
    """
    with storage_errors("read", path):
        try:
            fd = open_regular(path)
        except ToolkitError:  # a pipe or a device
            return ()
        try:
            compression = compression_of(os.pread(fd, HEAD_BYTES, 0), path)
            head = bytes(open_bytes(fd, path, compression, chunk_bytes=_LOOKED_AT_BYTES).read(_LOOKED_AT_BYTES))
        except ToolkitError:  # damaged; whoever reads it says so
            return ()
        finally:
            os.close(fd)
    line = head.removeprefix(_BYTE_ORDER_MARK).lstrip().partition(b"\n")[0]
    try:
        if len(head) == _LOOKED_AT_BYTES and b"\n" not in head:
            text = line.decode("utf-8", "ignore")
            return (json.JSONDecoder().raw_decode(text, text.index('"'))[0],) if text.startswith("{") else ()
        row = json.loads(line)
    except (ValueError, RecursionError):
        return ()
    return tuple(row) if isinstance(row, dict) else ()
