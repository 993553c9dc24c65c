"""Write and hash a new file on a thread of its own, so that whoever fills it can go on with the next bytes.

The bytes are not copied: a piece must not change until it was written. The file's name is its owner's business.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
from collections import deque
from typing import BinaryIO

from toolkit._native.shards.files import start_writeback
from toolkit.storage.files import storage_errors

__all__ = ["BackgroundFile"]

_WRITE_BUFFER_BYTES = 1024 * 1024
_WAITING_BYTES = 16 * 1024 * 1024  # what may wait to be written; whoever brings more waits too
_WRITEBACK_BYTES = 8 * 1024 * 1024  # the disk is given work this often, so that the fsync at the end is short


class BackgroundFile:
    """A file that is written from its start to its end. Owns the file and the thread until close() or abort()."""

    def __init__(self, path: str) -> None:
        """Create the file. Raises StorageError, also when its name is taken, be it by a link."""
        self._path = path
        self._pieces: deque[memoryview] = deque()
        self._waiting = 0
        self._ended = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._sha256 = hashlib.sha256()
        with storage_errors("create", path):
            self._file: BinaryIO = open(path, "xb", buffering=_WRITE_BUFFER_BYTES)  # noqa: SIM115
        self._thread = threading.Thread(target=self._run, name="toolkit-write", daemon=True)
        self._thread.start()

    @property
    def path(self) -> str:
        """Path of the file."""
        return self._path

    @property
    def closed(self) -> bool:
        """Whether the file was closed or removed."""
        return self._file.closed

    def write(self, piece: memoryview) -> None:
        """Take the next bytes; return when no more than 16 MiB wait. Raises StorageError for what failed so far."""
        with self._changed:
            if self._error is None:
                self._pieces.append(piece)
                self._waiting += piece.nbytes
                self._changed.notify_all()
            while self._waiting > _WAITING_BYTES and self._error is None:
                self._changed.wait()
        self._check()

    def close(self) -> bytes:
        """Wait until all is written, fsync, close; return the sha256 of the file. Raises StorageError."""
        self._end()
        self._check()
        with storage_errors("write", self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        return self._sha256.digest()

    def abort(self) -> None:
        """Stop, close and remove the file. Does nothing after close()."""
        if self._file.closed:
            return
        with self._changed:
            self._pieces.clear()
        self._end()
        # Bytes still buffered may not fit the disk: they are to be thrown away, so a failure here is no news.
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)

    def _end(self) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._thread.join()

    def _check(self) -> None:
        if self._error is not None:
            with storage_errors("write", self._path):
                raise self._error

    def _run(self) -> None:
        try:
            written = synced = 0
            while (piece := self._next()) is not None:
                self._file.write(piece)
                self._sha256.update(piece)
                written += piece.nbytes
                if written - synced >= _WRITEBACK_BYTES:
                    start_writeback(self._file.fileno(), synced, written - synced)
                    synced = written
                with self._changed:
                    self._waiting -= piece.nbytes
                    self._changed.notify_all()
        except BaseException as error:
            with self._changed:
                self._error = error
                self._pieces.clear()
                self._changed.notify_all()

    def _next(self) -> memoryview | None:
        """Return the next piece, or None when there will be no more."""
        with self._changed:
            while not self._pieces:
                if self._ended:
                    return None
                self._changed.wait()
            return self._pieces.popleft()
