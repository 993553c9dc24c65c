"""Find and remove the files of a dataset that no kept version names: older versions, and what killed packs left."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.checks.arguments import argument, check_flags
from toolkit.errors import ExistsError, UsageError
from toolkit.format.commit import locked, remove_temporaries
from toolkit.format.contents import read_index
from toolkit.format.names import FOLDERS, PARTS, is_own
from toolkit.format.pin import (
    MANIFESTS,
    REPORTS,
    TABLES,
    Version,
    read_manifest,
    reference_text,
    resolve,
    split_pin,
)
from toolkit.format.unhashed import stat_path
from toolkit.options.compound import Names
from toolkit.pack.journal import Journal
from toolkit.pack.note import CommitNote
from toolkit.storage.local import LocalStore, find_local
from toolkit.storage.places import local_path
from toolkit.storage.store import WritableStore

__all__ = ["GcResult", "gc"]

_HASH = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@dataclass(frozen=True, kw_only=True)
class GcResult:
    """What was found: the versions that stay, and the files (paths inside the dataset) that no kept version names.

    `foreign`: what lies in the dataset's folders and is none of the format's (other names, links, folders). It stays.
    """

    kept: tuple[str, ...]
    files: tuple[str, ...]
    foreign: tuple[str, ...]
    bytes: int
    deleted: bool


def gc(dataset: str | os.PathLike[str], *, keep: str | Sequence[str] = (), delete: bool = False) -> GcResult:
    """Find what neither the current version nor a kept one names; remove it when `delete` is set.

    Args:
        dataset: The dataset's folder.
        keep: Pins, or 12 or more of their digits, of versions to keep besides the current one; a text is one pin.
        delete: Remove the files. Without it nothing is changed.

    Raises:
        PinMismatchError: A pin names no version: nothing is removed.
        ExistsError: Another pack is writing, or an unfinished one could still go on.
        UsageError: An option can't be, or one of the dataset's folders is a link: nothing is removed.
    """
    check_flags(delete=delete)
    pins = argument("keep", [keep] if isinstance(keep, str) else keep, Names())
    root = local_path(reference_text(dataset), "toolkit gc works on a local folder")
    resolve(root)  # no dataset there: say so before a lock file is made
    found = find_local(root)
    if found is None or found[1] or split_pin(root)[1] is not None:
        raise UsageError(f"{root!r} is one version, and gc looks at all: give the dataset's folder; --keep takes pins")
    store = LocalStore(root)
    with locked(store):
        journal, note = Journal(store), CommitNote(store)
        unfinished = journal.is_there() and not journal.is_refused() and note.current() is None
        if unfinished or store.info(PARTS) is not None:
            what = "an unfinished pack" if unfinished else "parts that aren't merged"
            raise ExistsError(
                f"{root!r} holds {what}: run it again to finish it, or give it up: "
                f"toolkit pack --abort {shlex.quote(root)}"
            )
        versions = {version.pin: version for version in (resolve(root), *(resolve(f"{root}@sha256:{p}") for p in pins))}
        named = {name for version in versions.values() for name in _files(version)}
        lying = {folder: store.entries(folder) for folder in FOLDERS}
        garbage, foreign, nbytes = [], [], 0
        for folder, entries in lying.items():
            for one in entries:
                name = f"{folder}/{one.name}"
                if name in named or _is_report_of(name, versions):
                    continue
                if one.bytes is None or not is_own(folder, one.name):
                    foreign.append(name)
                else:
                    garbage.append(name)
                    nbytes += one.bytes
        if delete:
            remove_temporaries(store)
            journal.discard()
            note.remove()
            _remove(store, garbage)
    return GcResult(kept=tuple(versions), files=tuple(garbage), foreign=tuple(foreign), bytes=nbytes, deleted=delete)


def _files(version: Version) -> set[str]:
    """Return every file that a version names, or that lies beside its shards.

    Tables also under keys that only a newer toolkit knows.
    """
    hashes = _HASH.findall(read_manifest(version).decode())
    files = {f"{MANIFESTS}/{version.pin}.json", *(f"{TABLES}/{digest}.arrow" for digest in hashes)}
    for split in version.manifest.splits:
        for path in read_index(version, split).paths():
            files |= {path, stat_path(path)}
    return files


def _is_report_of(name: str, versions: dict[str, Version]) -> bool:
    folder, _, file = name.partition("/")
    return folder == REPORTS and file.partition(".")[0] in versions


def _remove(store: WritableStore, names: Sequence[str]) -> None:
    # Manifests go first: a kill in between leaves no manifest whose files are missing.
    for folder in FOLDERS:
        store.delete([name for name in names if name.startswith(f"{folder}/")], durable=True)
