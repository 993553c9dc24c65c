"""Give up the unfinished pack of a dataset, whatever it is: what it kept goes, and versions stay as they are."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit.errors import NotFoundError
from toolkit.format.commit import locked, remove_temporaries
from toolkit.format.names import DROPPED_JOURNAL, FOLDERS, LOCK, is_own
from toolkit.format.pin import JOURNAL, MANIFEST, MANIFESTS, resolve
from toolkit.pack.journal import Journal
from toolkit.pack.note import CommitNote
from toolkit.storage.local import LocalStore
from toolkit.storage.places import local_path
from toolkit.storage.store import WritableStore

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
    if store.info(JOURNAL) is None and store.info(DROPPED_JOURNAL) is None:
        raise NotFoundError(f"{dataset!r} has no unfinished pack to give up")
    with locked(store):
        journal, note = Journal(store), CommitNote(store)
        shards = sum(len(entry.records) for entry in Journal(store, stage=True).finished().values())
        shards = max(shards, sum(len(entry.records) for entry in journal.finished().values()))
        committed = note.current()
        journal.discard()
        note.remove()
        remove_temporaries(store)
        pin = _current_pin(store)
        if pin is None and not any(is_own(MANIFESTS, one.name) for one in store.entries(MANIFESTS)):
            _remove_all(store)
    return Aborted(dataset=dataset, shards=0 if committed else shards, pin=pin)


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
