"""Give up the unfinished pack of a dataset, whatever it is: what it kept goes, and versions stay as they are."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass

from toolkit.errors import NotFoundError
from toolkit.format.commit import locked, remove_temporaries
from toolkit.format.names import DROPPED_JOURNAL, FOLDERS, LOCK, is_own
from toolkit.format.pin import JOURNAL, MANIFEST, MANIFESTS, resolve
from toolkit.pack.journal import Journal
from toolkit.pack.note import CommitNote
from toolkit.storage.folders import list_folder, remove_files
from toolkit.storage.places import local_path

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
    if not any(os.path.lexists(os.path.join(root, name)) for name in (JOURNAL, DROPPED_JOURNAL)):
        raise NotFoundError(f"{dataset!r} has no unfinished pack to give up")
    with locked(root):
        journal, note = Journal(root), CommitNote(root)
        shards = sum(len(entry.records) for entry in Journal(root, stage=True).finished().values())
        shards = max(shards, sum(len(entry.records) for entry in journal.finished().values()))
        committed = note.current()
        journal.discard()
        note.remove()
        remove_temporaries(root)
        pin = _current_pin(root)
        if pin is None and not any(is_own(MANIFESTS, one.name) for one in list_folder(os.path.join(root, MANIFESTS))):
            _remove_all(root)
    return Aborted(dataset=dataset, shards=0 if committed else shards, pin=pin)


def _current_pin(root: str) -> str | None:
    return resolve(root).pin if os.path.exists(os.path.join(root, MANIFEST)) else None


def _remove_all(root: str) -> None:
    """Remove what packs wrote; a folder that then is empty goes as well."""
    for folder in FOLDERS:
        path = os.path.join(root, folder)
        remove_files(
            path, [one.name for one in list_folder(path) if is_own(folder, one.name) and one.bytes is not None]
        )
        with contextlib.suppress(OSError):
            os.rmdir(path)
    remove_files(root, [LOCK])
    with contextlib.suppress(OSError):
        os.rmdir(root)
