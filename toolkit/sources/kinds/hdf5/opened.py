"""Open an HDF5 file with h5py, and turn what the library complains of into errors that name file and dataset."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from toolkit.errors import SourceError
from toolkit.sources.names import printable
from toolkit.sources.regular import open_file
from toolkit.sources.state import FileState, check_unchanged
from toolkit.storage.files import storage_errors

__all__ = ["h5py_module", "hdf5_errors", "opened", "state_of"]

_CACHE_BYTES = 16 * 1024 * 1024


def h5py_module() -> ModuleType:
    """Return h5py. Raises SourceError: it isn't installed."""
    try:
        import h5py
    except ImportError as error:
        raise SourceError("HDF5 files need the package h5py: pip install 'toolkit[hdf5]'") from error
    return h5py  # type: ignore[no-any-return]


def state_of(path: str) -> FileState:
    """Return the state of a regular file that can be opened. Raises SourceError, StorageError."""
    with storage_errors("read", path), open_file(path) as file:
        return FileState.of(os.fstat(file.fileno()))


@contextlib.contextmanager
def opened(path: str, state: FileState, cache_bytes: int = 0) -> Iterator[Any]:
    """Return the file, open for reading, with a cache that holds so many bytes of chunks.

    Raises:
        SourceError: It is damaged, is being written, or isn't what it was.
        StorageError: It can't be read.
    """
    h5py = h5py_module()
    check_unchanged(path, state, state_of(path))
    with hdf5_errors(f"{printable(path)!r}"):
        # By best effort: a file that is being written is locked, and not every file system has locks.
        file = h5py.File(path, "r", locking="best-effort", rdcc_nbytes=max(_CACHE_BYTES, cache_bytes))
    with file:
        yield file


@contextlib.contextmanager
def hdf5_errors(where: str) -> Iterator[None]:
    """Turn what h5py raises of content into SourceError: it has no class of its own for that."""
    try:
        yield
    except (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, SourceError):
            raise
        said = " ".join(str(error).split()) or type(error).__name__
        if "lock" in said or "already open for write" in said:
            advice = "a program is writing it, or died while it was: wait for it, or run h5clear -s on a copy"
        else:
            advice = "it is damaged, cut short, or needs what this HDF5 library hasn't. Write it anew, or leave it out"
        raise SourceError(f"{where} can't be read ({said}): {advice}") from error
