"""Tell HDF5 files by their signature, without the library that reads them."""

from __future__ import annotations

from toolkit.sources.regular import open_file
from toolkit.storage.files import read_range, storage_errors

__all__ = ["SUFFIXES", "looks_like_hdf5"]

SUFFIXES = (".h5", ".hdf5", ".hdf", ".he5")
_MAGIC = b"\x89HDF\r\n\x1a\n"
_PLACES = (0, 512, 1024, 2048, 4096)  # behind a block of the user's own; the library looks further


def looks_like_hdf5(path: str) -> bool:
    """Tell whether a file has the signature where HDF5 files have it. Raises StorageError."""
    with storage_errors("read", path), open_file(path) as file:
        return any(read_range(file.fileno(), place, len(_MAGIC)) == _MAGIC for place in _PLACES)
