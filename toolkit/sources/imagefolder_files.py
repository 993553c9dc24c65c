"""Read the listed files of an image folder, many in one call, into one array.

A file must be the one that was listed (size, modification time, inode), or the pack would not be of what was surveyed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from toolkit._native.files import READ_CHANGED, READ_GOOD, read_files
from toolkit.format.arrays import bool_array
from toolkit.sources.base import LARGEST_VALUE, PIECE_BYTES
from toolkit.sources.imagefolder import Entry
from toolkit.sources.images import NotAnImageError, check_header
from toolkit.sources.reject import Reject
from toolkit.sources.scan import printable
from toolkit.storage.local import storage_errors

__all__ = ["pieces", "read_images"]

_REASONS = {
    READ_CHANGED: "changed during the pack",
    errno.ENOENT: "vanished during the pack",
    errno.ENOTDIR: "vanished during the pack",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EFBIG: f"larger than a value can be ({LARGEST_VALUE} bytes)",
}


def pieces(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    """Cut where the files' sizes fill a piece."""
    start = size = 0
    for i, entry in enumerate(entries):
        if i > start and (size >= PIECE_BYTES or size + entry.bytes > LARGEST_VALUE):
            yield entries[start:i]
            start, size = i, 0
        size += entry.bytes
    yield entries[start:]


def read_images(entries: Sequence[Entry]) -> tuple[Sequence[Entry], pa.Array, tuple[Reject, ...]]:
    """Return the entries that are images, their bytes (binary, one for each of them), and the others.

    Raises:
        StorageError: The disk fails.
    """
    sizes = np.array([entry.bytes for entry in entries], np.int64)
    statuses = np.full(len(entries), errno.EFBIG, np.int32)
    fits = sizes <= LARGEST_VALUE  # what can't be stored isn't read either
    buffer = pa.allocate_buffer(int(sizes[fits].sum()))
    data = memoryview(buffer).cast("B")
    statuses[fits] = _read([entry for entry, fit in zip(entries, fits, strict=True) if fit], sizes[fits], data)
    good = statuses == READ_GOOD
    offsets = np.concatenate(([0], np.cumsum(np.where(good, sizes, 0)))).astype(np.int32)
    spans = offsets.tolist()
    rejects = []
    for i, status in enumerate(statuses.tolist()):
        try:
            if status != READ_GOOD:
                raise NotAnImageError(_reason(status, entries[i].path))
            check_header(data[spans[i] : spans[i + 1]])
        except NotAnImageError as fault:
            good[i] = False
            rejects.append(Reject(source=printable(entries[i].path), key=entries[i].key, reason=str(fault)))
    values = pa.Array.from_buffers(pa.binary(), len(entries), [None, pa.py_buffer(offsets), buffer])
    if rejects:
        values = values.filter(bool_array(good))
        entries = [entry for entry, kept in zip(entries, good, strict=True) if kept]
    return entries, values, tuple(rejects)


def _read(entries: Sequence[Entry], sizes: np.ndarray, out: memoryview) -> np.ndarray:
    statuses = np.zeros(len(entries), np.int32)
    read_files(
        [os.fsencode(entry.path) for entry in entries],
        sizes,
        np.array([entry.mtime_ns for entry in entries], np.int64),
        np.array([entry.inode for entry in entries], np.uint64),
        out,
        statuses,
    )
    return statuses


def _reason(status: int, path: str) -> str:
    """Return why a file is rejected; a failure of the disk is none of its own, and is raised."""
    if status not in _REASONS:
        with storage_errors("read", path):
            raise OSError(status, os.strerror(status))
    return _REASONS[status]
