"""Publish a version of a dataset so that a kill at any instant leaves the old version or the new one.

Order: shards (temporary name, fsync, rename), tables, manifests/<pin>.json, the folders, and manifest.json last.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from toolkit.errors import ExistsError, NotFoundError, StorageError, UsageError
from toolkit.format.manifest import MOST_SHARDS, Manifest, TableRef, encode_manifest
from toolkit.format.names import DROPPED_JOURNAL, DROPPED_PARTS, FOLDERS, LOCK, is_temporary, is_top_level
from toolkit.format.pin import JOURNAL, MANIFEST, MANIFESTS, REPORTS, SHARDS, TABLES
from toolkit.format.shard import ShardRecord
from toolkit.format.tables import encode_shard_table, sha256
from toolkit.format.unhashed import stat_path
from toolkit.storage.roots_file import ROOTS_FILE, write_roots
from toolkit.storage.store import TEMPORARY_PREFIX, Entry, NewObject, NoObjectError, WritableStore

__all__ = ["Transaction", "locked", "remove_temporaries"]


class Transaction:
    """One writer's exclusive hold on a dataset. Owns the lock, and the files of a version until commit().

    Leaving the `with` block without commit() removes what was published but finished shards, and the folder if it was
    made here and is empty.
    """

    def __init__(self, store: WritableStore, *, replace: bool = False) -> None:
        """Lock `store`, whose root is made if it isn't there.

        Raises:
            ExistsError: It has a dataset and `replace` is not set, or another pack is writing it.
            UsageError: It has files that are none of a dataset's, or a link where a dataset has a folder.
            StorageError: The file system refuses.
        """
        self.store = store
        self._published: list[str] = []
        self._made: list[str] = []
        self._committed = False
        foreign = sorted(one.name for one in store.entries() if not is_top_level(one.name))
        if foreign:
            raise UsageError(
                f"{store.location!r} holds other files ({foreign[0]!r}{', …' if len(foreign) > 1 else ''}): "
                "give a new or empty folder for the dataset"
            )
        self._lock = store.lock(LOCK, make=True)
        try:
            self._before = store.info(MANIFEST)
            remove_temporaries(store)
            if not replace:
                self.refuse_existing()
            for folder in FOLDERS:
                if store.make_folder(folder):
                    self._made.append(folder)
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
            for name in self._published:
                with contextlib.suppress(StorageError, UsageError):
                    self.store.delete([name])
            with contextlib.suppress(StorageError, UsageError):
                remove_temporaries(self.store)
        self._release()

    def refuse_existing(self) -> None:
        """Raise ExistsError when there is a version."""
        if self._before is not None:
            raise ExistsError(
                f"{self.store.location!r} already holds a dataset: choose another folder, or --on-existing overwrite "
                "or append (older versions stay readable by their pins)"
            )

    def new_shard(self, name: str) -> NewObject:
        """Begin a shard whose hash, and so its name, isn't known yet; `name` is unique among those being written."""
        return self.store.stream(f"{SHARDS}/{TEMPORARY_PREFIX}{name}")

    def publish_shard(self, shard: NewObject, name: str) -> str:
        """Give a finished shard its name; return its path inside the dataset."""
        inside = f"{SHARDS}/{name}"
        shard.publish(inside)
        return inside

    def write_stats(self, shard: str, data: bytes) -> None:
        """Write what lies beside the shard that is going to have that name: before it, so that none is without."""
        self.store.write(stat_path(f"{SHARDS}/{shard}"), data)

    def write_roots(self, roots: Mapping[str, str], pin: str) -> bool:
        """Write where the roots of a version lie, before commit(): without them it can't be read.

        Returns whether this user may follow them without naming them.
        """
        if self.store.info(ROOTS_FILE) is None:
            self._published.append(ROOTS_FILE)
        others = [one.name.removesuffix(".json") for one in self.store.entries(MANIFESTS)]
        return write_roots(self.store, roots, pin, others)

    def take_shard(self, staged: str) -> str:
        """Move a finished shard to its place from where it was staged; return its path inside the dataset."""
        inside = f"{SHARDS}/{staged.rpartition('/')[2]}"
        if self.store.info(stat_path(staged)) is not None:
            self.store.move(stat_path(staged), stat_path(inside))
        self.store.move(staged, inside)
        return inside

    def sync_shards(self) -> None:
        """Make the names of published shards durable: before anything may point at them."""
        self.store.sync(SHARDS)

    def add_table(self, data: bytes) -> str:
        """Write a table; return its sha256."""
        digest = sha256(data)
        self._publish(f"{TABLES}/{digest}.arrow", data)
        return digest

    def add_shard_tables(self, records: Sequence[ShardRecord]) -> tuple[TableRef, ...]:
        """Write the tables of a split's shards, in the order of its rows; return what the manifest says of them."""
        runs = [records[first : first + MOST_SHARDS] for first in range(0, len(records), MOST_SHARDS)]
        return tuple(
            TableRef(
                sha256=self.add_table(encode_shard_table(run)),
                shards=len(run),
                batches=sum(len(record.batches) for record in run),
                rows=sum(record.rows for record in run),
                bytes=sum(record.file_bytes for record in run),
                tokens=sum(record.tokens for record in run),
            )
            for run in runs
        )

    def commit(self, manifest: Manifest, reports: dict[str, bytes]) -> str:
        """Make `manifest` the current version; return its pin. `reports` (suffix -> bytes) are not hashed.

        Raises:
            ExistsError: Somebody changed manifest.json without holding the lock; nothing was committed.
        """
        data, pin = encode_manifest(manifest)
        for suffix, report in reports.items():
            self._publish(f"{REPORTS}/{pin}.{suffix}", report)
        self.sync_shards()
        self._publish(f"{MANIFESTS}/{pin}.json", data)
        self.store.sync()
        self._lock.sync_root()
        try:
            self.store.swap(MANIFEST, data, self._before)
        finally:
            # Renamed but not synced is an error to report, yet the version is the current one: its files must stay.
            self._committed = self._is_current(data)
        return pin

    def write_report(self, name: str, data: bytes) -> str:
        """Write reports/<name> outside of any version, to stay even when nothing is committed; return where it is."""
        inside = f"{REPORTS}/{name}"
        self.store.write(inside, data)
        return self.store.place(inside)

    def _is_current(self, data: bytes) -> bool:
        try:
            return self._holds(MANIFEST, data)
        except StorageError:
            return True  # Unknown: keep the files.

    def _publish(self, name: str, data: bytes) -> None:
        before = self.store.info(name)
        if before is None:
            self._published.append(name)  # whatever becomes of it, it wasn't there
        if self.store.create(name, data):
            return
        if before is not None and not before.is_link and self._holds(name, data):
            # A pack that was killed may have renamed it, and no more.
            self.store.sync(name.rpartition("/")[0])
            return
        self.store.write(name, data)

    def _holds(self, name: str, data: bytes) -> bool:
        """Tell whether an object is `data`, and read no more of it than that."""
        try:
            return self.store.read(name, len(data)) == data
        except (NotFoundError, NoObjectError):
            return False

    def _release(self) -> None:
        if not self._committed:
            for folder in reversed(self._made):
                self.store.remove_folder(folder)
        self._lock.release(undo=not self._committed)


def remove_temporaries(store: WritableStore) -> None:
    """Remove what a killed pack left unfinished. The caller holds the lock: nobody is writing it now.

    Raises:
        UsageError: One of the dataset's folders is a link. Nothing was removed then.
        StorageError: The file system refuses.
    """
    store.entries(JOURNAL)  # only to refuse a link: what is in a journal goes with it
    for folder, entries in [(folder, store.entries(folder)) for folder in ("", *FOLDERS)]:
        start = f"{folder}/" if folder else ""
        store.delete([f"{start}{one.name}" for one in entries if _is_rubbish(one)], durable=True)
        for dropped in (DROPPED_JOURNAL, DROPPED_PARTS):
            if not folder and any(one.name == dropped and one.is_folder for one in entries):
                store.delete_folder(dropped)


def _is_rubbish(entry: Entry) -> bool:
    return (is_temporary(entry.name) or entry.name == DROPPED_JOURNAL) and not entry.is_folder


@contextlib.contextmanager
def locked(store: WritableStore) -> Iterator[None]:
    """Hold the dataset's lock, so that no pack writes it meanwhile. Raises ExistsError when one does."""
    lock = store.lock(LOCK)
    try:
        yield
    finally:
        lock.release()
