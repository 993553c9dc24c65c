"""Read the listed files of an image folder, many in one call, into one array.

A file must be the one that was listed (size, modification time, inode), or the pack would not be of what was surveyed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from toolkit._native.shards.files import READ_CHANGED, READ_GOOD, read_files
from toolkit.format.arrays import bool_array
from toolkit.pipelines.image.facts import are_jpegs
from toolkit.pipelines.image.medium import ImageMedium
from toolkit.pipelines.medium import UnfitMediumError
from toolkit.sources.base import PIECE_BYTES, too_large
from toolkit.sources.kinds.imagefolder.entries import Entries
from toolkit.sources.kinds.imagefolder.found import Entry
from toolkit.sources.names import printable
from toolkit.sources.options import VerifyImages
from toolkit.sources.payloads import check_payload
from toolkit.sources.reject import Reject
from toolkit.storage.files import storage_errors

__all__ = ["MOST_FILES", "pieces", "read_images", "without_large"]

MOST_FILES = 65536  # of a piece
_IMAGE = ImageMedium()
_REASONS = {
    READ_CHANGED: "changed during the pack",
    errno.ENOENT: "vanished during the pack",
    errno.ENOTDIR: "vanished during the pack",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
}


def pieces(entries: Entries) -> Iterator[Entries]:
    """Cut where the files' sizes fill a piece."""
    start = 0
    while start < len(entries):
        ahead = np.cumsum(entries.sizes[start : start + MOST_FILES])
        count = max(1, int(np.searchsorted(ahead, PIECE_BYTES, side="left")))
        yield entries[start : start + count]
        start += count


def read_images(entries: Entries, verify: VerifyImages, most: int) -> tuple[Entries, pa.Array, tuple[Reject, ...]]:
    """Return the entries that are images, their bytes (binary, one for each of them), and the others.

    A file of more than `most` bytes isn't read.

    Raises:
        StorageError: The disk fails.
    """
    entries, large = without_large(entries, most)
    buffer = pa.allocate_buffer(int(entries.sizes.sum()))
    data = memoryview(buffer).cast("B")
    statuses = np.zeros(len(entries), np.int32)
    root = os.fsencode(os.path.join(entries.root, ""))
    paths = [root + key.encode() for key in entries.keys]
    read_files(paths, entries.sizes, entries.mtimes_ns, entries.inodes, data, statuses)
    good = statuses == READ_GOOD
    ends = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.where(good, entries.sizes, 0))))
    spans = ends.tolist()
    # Only what is no plain JPEG is looked at one by one.
    unknown = ~good if verify is VerifyImages.OFF else ~good | ~are_jpegs(buffer, ends)
    rejects = [*large]
    for i in np.flatnonzero(unknown).tolist():
        status = int(statuses[i])
        try:
            if status != READ_GOOD:
                raise UnfitMediumError(_reason(status, entries[i].path))
            check_payload(_IMAGE, data[spans[i] : spans[i + 1]], verify)
        except UnfitMediumError as fault:
            good[i] = False
            rejects.append(_reject(entries[i], str(fault)))
    offsets = pa.py_buffer(ends.astype(np.int32))
    images = pa.Array.from_buffers(pa.binary(), len(entries), [None, offsets, buffer])
    if not good.all():
        entries, images = entries.without(~good), images.filter(bool_array(good))
    return entries, images, tuple(rejects)


def without_large(entries: Entries, most: int) -> tuple[Entries, tuple[Reject, ...]]:
    """Return the entries of files that have at most `most` bytes, and the others."""
    fits = entries.sizes <= most
    if fits.all():
        return entries, ()
    rejects = tuple(_reject(one, too_large(one.bytes, most)) for one in entries if one.bytes > most)
    return entries.without(~fits), rejects


def _reject(entry: Entry, reason: str) -> Reject:
    return Reject(source=printable(entry.path), key=entry.key, reason=reason)


def _reason(status: int, path: str) -> str:
    """Return why a file is rejected; a failure of the disk isn't the file's fault, and is raised."""
    if status not in _REASONS:
        with storage_errors("read", path):
            raise OSError(status, os.strerror(status))
    return _REASONS[status]
