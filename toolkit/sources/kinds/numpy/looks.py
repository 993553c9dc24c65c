"""Tell NumPy's files by their first bytes, and the pickles that are taken for such."""

from __future__ import annotations

import os
import re

from toolkit.sources.kinds.numpy.archive import MAGIC, is_archive
from toolkit.sources.regular import open_file
from toolkit.storage.files import storage_errors

__all__ = ["SUFFIXES", "holds_arrays_alone", "is_npz", "is_pickle", "looks_like_arrays"]

SUFFIXES = (".npy", ".npz")
_NPY = b"\x93NUMPY"
_PICKLE = re.compile(rb"\x80[\x02-\x05][\x95}\]c(]", re.DOTALL)  # a protocol, and a frame, dict, list, class or mark
_CIFAR = re.compile(r"data_batch_\d|test_batch|batches\.meta")
_HEAD_BYTES = 256
_NAME_AT = 30  # in the header of a member
_DOCUMENTS = (".txt", ".md", ".rst", ".html", ".pdf", "")


def looks_like_arrays(path: str) -> bool:
    """Tell whether a file is a NumPy file, an archive of some, or a pickle of CIFAR's. Raises StorageError."""
    head = _head(path)
    if head.startswith(_NPY):
        return True
    if head.startswith(MAGIC):
        length = int.from_bytes(head[26:28], "little")
        return head[_NAME_AT : _NAME_AT + length].endswith(b".npy")
    return _CIFAR.fullmatch(os.path.basename(path)) is not None and _PICKLE.match(head) is not None


def is_pickle(path: str) -> bool:
    """Tell whether a file is a pickle, by its beginning. Raises StorageError."""
    return _PICKLE.match(_head(path)) is not None


def is_npz(path: str) -> bool:
    """Tell whether a file is an archive. Raises StorageError."""
    return is_archive(_head(path))


def holds_arrays_alone(path: str) -> bool:
    """Tell whether a folder has files of arrays in it, and beside them documents alone. Raises OSError."""
    with os.scandir(path) as entries:
        names = [(entry.name.lower(), entry.is_dir()) for entry in entries if not entry.name.startswith((".", "_"))]
    files = [name for name, is_folder in names if not is_folder]
    return (
        len(files) == len(names)
        and any(name.endswith(SUFFIXES) for name in files)
        and all(name.endswith(SUFFIXES) or os.path.splitext(name)[1] in _DOCUMENTS for name in files)
    )


def _head(path: str) -> bytes:
    with storage_errors("read", path), open_file(path) as file:
        return file.read(_HEAD_BYTES)
