"""Publish a version of a dataset so that a kill at any instant leaves the old version or the new one.

Order: shards (temporary name, fsync, rename), tables, manifests/<pin>.json, the folders, and manifest.json last.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from toolkit.errors import ExistsError, UsageError
from toolkit.format.manifest import Manifest, encode_manifest
from toolkit.format.names import DROPPED_JOURNAL, FOLDERS, LOCK, is_temporary, is_top_level
from toolkit.format.pin import JOURNAL, MANIFEST, MANIFESTS, REPORTS, SHARDS, TABLES
from toolkit.format.tables import sha256
from toolkit.storage.folders import Entry, list_folder, make_folder, remove_files
from toolkit.storage.local import (
    TEMPORARY_PREFIX,
    NoFileError,
    fsync_directory,
    read_file,
    refused_link,
    storage_errors,
    write_durable,
)

__all__ = ["Transaction", "locked", "remove_temporaries"]


class Transaction:
    """One writer's exclusive hold on a dataset folder. Owns the lock, and the files of a version until commit().

    Leaving the `with` block without commit() removes what was published but finished shards, and the folder if it was
    made here and is empty.
    """

    def __init__(self, root: str, *, replace: bool = False) -> None:
        """Lock `root`, which is made if it isn't there.

        Raises:
            ExistsError: It has a dataset and `replace` is not set, or another pack is writing it.
            UsageError: It has files that are none of a dataset's, or a link where a dataset has a folder.
            StorageError: The file system refuses.
        """
        self.root = root
        self._published: list[str] = []
        self._made: list[str] = []
        self._committed = False
        with storage_errors("create", root):
            if os.path.exists(root) and not os.path.isdir(root):
                raise UsageError(f"{root!r} is a file: give a folder for the dataset")
            names = os.listdir(root) if os.path.isdir(root) else []
            foreign = sorted(name for name in names if not is_top_level(name))
            if foreign:
                raise UsageError(
                    f"{root!r} holds other files ({foreign[0]!r}{', …' if len(foreign) > 1 else ''}): "
                    "give a new or empty folder for the dataset"
                )
            self._make_folder(root)
            self._lock = _take_lock(root)
            try:
                remove_temporaries(root)
                if not replace:
                    self.refuse_existing()
                for folder in FOLDERS:
                    self._make_inner_folder(os.path.join(root, folder))
            except BaseException:
                self._release()
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed:
            # Shards stay: the journal knows them, and the next pack goes on from there.
            for path in self._published:
                with contextlib.suppress(OSError):
                    os.unlink(path)
            with contextlib.suppress(OSError, UsageError):
                remove_temporaries(self.root)
        self._release()

    def refuse_existing(self) -> None:
        """Raise ExistsError when there is a version."""
        if os.path.exists(os.path.join(self.root, MANIFEST)):
            raise ExistsError(
                f"{self.root!r} already holds a dataset: choose another folder, or --on-existing overwrite "
                "or append (older versions stay readable by their pins)"
            )

    def shard_temporary(self, name: str) -> str:
        """Return the path at which a shard is written before its hash, and so its name, is known."""
        return os.path.join(self.root, SHARDS, f"{TEMPORARY_PREFIX}{name}")

    def publish_shard(self, temporary: str, name: str) -> str:
        """Rename a finished, synced shard to its name; return its path inside the dataset."""
        inside = f"{SHARDS}/{name}"
        final = os.path.join(self.root, SHARDS, name)
        with storage_errors("publish", final):
            os.replace(temporary, final)
        return inside

    def sync_shards(self) -> None:
        """Make the names of published shards durable: before anything may point at them."""
        fsync_directory(os.path.join(self.root, SHARDS))

    def add_table(self, data: bytes) -> str:
        """Write a table; return its sha256."""
        digest = sha256(data)
        self._publish(os.path.join(self.root, TABLES, f"{digest}.arrow"), data)
        return digest

    def commit(self, manifest: Manifest, reports: dict[str, bytes]) -> str:
        """Make `manifest` the current version; return its pin. `reports` (suffix -> bytes) are not hashed."""
        data, pin = encode_manifest(manifest)
        for suffix, report in reports.items():
            self._publish(os.path.join(self.root, REPORTS, f"{pin}.{suffix}"), report)
        self.sync_shards()
        self._publish(os.path.join(self.root, MANIFESTS, f"{pin}.json"), data)
        fsync_directory(self.root)
        self._sync_parents()
        try:
            write_durable(os.path.join(self.root, MANIFEST), data)
        finally:
            # Renamed but not synced is an error to report, yet the version is the current one: its files must stay.
            self._committed = self._is_current(data)
        return pin

    def write_report(self, name: str, data: bytes) -> str:
        """Write reports/<name> outside of any version, to stay even when nothing is committed; return its path."""
        path = os.path.join(self.root, REPORTS, name)
        write_durable(path, data)
        return path

    def _sync_parents(self) -> None:
        """Make the names of the dataset's folder and of those above it durable, as far as they were made for it."""
        made = [folder for folder in self._made if len(folder) < len(self.root)]
        # The last one in any case: a pack that was killed may have made it.
        for folder in (*made, self.root):
            parent = os.path.dirname(os.path.abspath(folder))
            if os.access(parent, os.R_OK):  # what can't be listed can't be synced either
                fsync_directory(parent)

    def _is_current(self, data: bytes) -> bool:
        try:
            return read_file(os.path.join(self.root, MANIFEST), len(data)) == data
        except (FileNotFoundError, NoFileError):
            return False
        except OSError:
            return True  # Unknown: keep the files.

    def _publish(self, path: str, data: bytes) -> None:
        if not os.path.lexists(path):
            self._published.append(path)
        elif os.path.isfile(path) and not os.path.islink(path) and _holds(path, data):
            # A pack that was killed may have renamed it, and no more.
            fsync_directory(os.path.dirname(path))
            return
        write_durable(path, data)

    def _make_folder(self, path: str) -> None:
        """Make a folder and those above it that are missing, remembering what was made."""
        missing = []
        while path and not os.path.isdir(path):
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            os.mkdir(folder)
            self._made.append(folder)

    def _make_inner_folder(self, path: str) -> None:
        """Make one of the dataset's own folders; a link in its place is refused."""
        if make_folder(path):
            self._made.append(path)

    def _release(self) -> None:
        if not self._committed:
            with contextlib.suppress(OSError):
                if self._made and self._made[0] in (self.root, *self._parents()):
                    os.unlink(os.path.join(self.root, LOCK))
            for folder in reversed(self._made):
                with contextlib.suppress(OSError):
                    os.rmdir(folder)
        os.close(self._lock)

    def _parents(self) -> list[str]:
        parents, path = [], os.path.dirname(self.root)
        while path and path != os.path.dirname(path):
            parents.append(path)
            path = os.path.dirname(path)
        return parents


def _holds(path: str, data: bytes) -> bool:
    """Tell whether a file is `data`, and read no more of it than that."""
    with storage_errors("read", path):
        try:
            return read_file(path, len(data)) == data
        except NoFileError:  # it is longer
            return False


def remove_temporaries(root: str) -> None:
    """Remove what a killed pack left unfinished. The caller holds the lock: nobody is writing it now.

    Raises:
        UsageError: One of the dataset's folders is a link. Nothing was removed then.
        StorageError: The file system refuses.
    """
    with storage_errors("open", root):
        # The dataset's own folder may be named by a link; those inside may not be links.
        top = os.path.realpath(root)
    folders = [os.path.join(root, name) for name in FOLDERS]
    list_folder(os.path.join(root, JOURNAL))  # only to refuse a link: what is in a journal goes with it
    for folder, entries in [(folder, list_folder(folder)) for folder in (top, *folders)]:
        remove_files(folder, [one.name for one in entries if _is_rubbish(one)])
        if any(one.name == DROPPED_JOURNAL and one.is_folder for one in entries if folder == top):
            with storage_errors("remove", os.path.join(top, DROPPED_JOURNAL)):
                shutil.rmtree(os.path.join(top, DROPPED_JOURNAL))  # by descriptors: it follows no link


def _is_rubbish(entry: Entry) -> bool:
    return (is_temporary(entry.name) or entry.name == DROPPED_JOURNAL) and not entry.is_folder


@contextlib.contextmanager
def locked(root: str) -> Iterator[None]:
    """Hold the dataset's lock, so that no pack writes it meanwhile. Raises ExistsError when one does."""
    with storage_errors("lock", root):
        fd = _take_lock(root)
    try:
        yield
    finally:
        os.close(fd)


def _take_lock(root: str) -> int:
    path = os.path.join(root, LOCK)
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise refused_link(path, "file") from error
            raise
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # A writer that failed removes the lock file of a folder that it made: the name may be gone again.
            if os.path.exists(path) and os.path.samestat(os.fstat(fd), os.lstat(path)):
                return fd
        except BlockingIOError as error:
            os.close(fd)
            raise ExistsError(f"another pack is writing {root!r}: wait for it, or stop it") from error
        os.close(fd)
