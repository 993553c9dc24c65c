"""This user's key, which proves later that it was this user who wrote something: 32 bytes that nobody else may read."""

from __future__ import annotations

import contextlib
import os
import stat

from toolkit.errors import StorageError
from toolkit.storage.files import storage_errors

__all__ = ["user_key"]

_KEY_BYTES = 32


def user_key(*, make: bool = False) -> bytes | None:
    """Return this user's key; None where there is none and `make` isn't set.

    Raises:
        StorageError: Others may read or write it, or it is none; or the file system refuses.
    """
    path = os.path.join(_state_folder(), "key")
    with storage_errors("read", path):
        for _ in range(2):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return _read_key(path)
            if not make:
                return None
            _make_key(path)
    return _read_key(path)


def _state_folder() -> str:
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # as the XDG base directory specification has it
        base = os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(base, "toolkit")


def _read_key(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise StorageError(f"{path!r} is a symbolic link, and your key must be a file: remove it") from error
        raise
    try:
        info = os.fstat(fd)
        fault = None
        if not stat.S_ISREG(info.st_mode):
            fault = "it is no file"
        elif info.st_uid != os.geteuid():
            fault = "it belongs to another user"
        elif info.st_mode & 0o077:
            fault = "others may read or write it"
        elif info.st_size != _KEY_BYTES:
            fault = f"it has {info.st_size} bytes in place of {_KEY_BYTES}"
        if fault is not None:
            raise StorageError(
                f"{path!r} can't be your key: {fault}. Remove it: the next `toolkit index` makes another, and until a "
                "dataset is indexed again its roots must be named"
            )
        return os.read(fd, _KEY_BYTES)
    finally:
        os.close(fd)


def _make_key(path: str) -> None:
    """Make a key, whole or not at all; where somebody else made one meanwhile, that one stays."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    temporary = os.path.join(folder, f".tmp-{os.getpid()}-{os.urandom(8).hex()}")
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(fd, os.urandom(_KEY_BYTES))
            os.fsync(fd)
        finally:
            os.close(fd)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)
