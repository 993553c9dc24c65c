"""Give up the unfinished pack of a dataset, whatever it is: what it kept goes, and versions stay as they are."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from toolkit.errors import NotFoundError
from toolkit.format.commit import locked, remove_temporaries
from toolkit.format.names import DROPPED_JOURNAL, DROPPED_PARTS, FOLDERS, LOCK, PARTS, is_own
from toolkit.format.pin import JOURNAL, MANIFEST, MANIFESTS, SHARDS, resolve
from toolkit.pack.journal import Journal
from toolkit.pack.note import CommitNote
from toolkit.storage.local import LocalStore
from toolkit.storage.places import local_path
from toolkit.storage.store import WritableStore, local_path_of

__all__ = ["Aborted", "abort"]


@dataclass(frozen=True, kw_only=True)
class Aborted:
    """What was given up: the shards that an unfinished pack had finished, and the version that is there, if any."""

    dataset: str
    shards: int
    pin: str | None


def abort(dataset: str) -> Aborted:
    """Drop the journal of an unfinished pack; without any version, all else that packs left, the folder too.

    Beside a version, the shards of the pack stay until they are collected: only reading every version tells that none
    of them needs one.

    Raises:
        NotFoundError: There is no unfinished pack.
        ExistsError: A pack is running.
        StorageError: The file system refuses.
    """
    root = local_path(dataset, "packs are made and given up in a local folder")
    store = LocalStore(root)
    if not any(store.info(name) is not None for name in (JOURNAL, DROPPED_JOURNAL, PARTS)):
        raise NotFoundError(f"{dataset!r} has no unfinished pack to give up")
    with locked(store):
        journal, note = Journal(store), CommitNote(store)
        shards = sum(len(entry.records) for entry in Journal(store, stage=True).finished().values())
        shards = max(shards, sum(len(entry.records) for entry in journal.finished().values()))
        committed = note.current()
        journal.discard()
        note.remove()
        shards += _drop_parts(store)
        remove_temporaries(store)
        pin = _current_pin(store)
        if pin is None and not any(is_own(MANIFESTS, one.name) for one in store.entries(MANIFESTS)):
            _remove_all(store)
    return Aborted(dataset=dataset, shards=0 if committed else shards, pin=pin)


def _drop_parts(store: WritableStore) -> int:
    """Remove what parallel writers wrote; return how many shards that were. Raises ExistsError: one is at it."""
    shards = 0
    with contextlib.ExitStack() as locks:
        for one in store.entries(PARTS):
            part = LocalStore(local_path_of(store, f"{PARTS}/{one.name}"))
            locks.enter_context(locked(part))
            shards += sum(is_own(SHARDS, shard.name) for shard in part.entries(SHARDS))
        store.delete_folder(PARTS, by_way_of=DROPPED_PARTS)
    return shards


def _current_pin(store: WritableStore) -> str | None:
    return resolve(store.location).pin if store.info(MANIFEST) is not None else None


def _remove_all(store: WritableStore) -> None:
    """Remove what packs wrote; a folder that then is empty goes as well."""
    for folder in FOLDERS:
        own = [one.name for one in store.entries(folder) if is_own(folder, one.name) and one.bytes is not None]
        store.delete([f"{folder}/{name}" for name in own], durable=True)
        store.remove_folder(folder)
    store.delete([LOCK], durable=True)
    store.remove_folder()
