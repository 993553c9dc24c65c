"""Find and remove the files of a dataset that no kept version names: older versions, and what killed packs left."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

from toolkit.errors import ExistsError
from toolkit.format.commit import locked, remove_temporaries
from toolkit.format.pin import MANIFESTS, REPORTS, SHARDS, TABLES, Version, read_table, resolve
from toolkit.format.tables import parse_shard_tables
from toolkit.pack.journal import Journal
from toolkit.storage.local import fsync_directory, storage_errors

__all__ = ["Collection", "collect"]

# Manifests go first: a kill in between leaves no manifest whose files are missing.
_ORDER = (MANIFESTS, TABLES, SHARDS, REPORTS)


@dataclass(frozen=True, kw_only=True)
class Collection:
    """What was found: the versions that stay, and the files (paths inside the dataset) that no kept version names."""

    kept: tuple[str, ...]
    files: tuple[str, ...]
    bytes: int
    deleted: bool


def collect(root: str, *, keep: Sequence[str] = (), delete: bool = False) -> Collection:
    """Find what neither the current version nor a kept one names; remove it when `delete` is set.

    Args:
        root: The dataset's folder.
        keep: Pins, or 12 or more of their digits, of versions to keep besides the current one.
        delete: Remove the files. Without it nothing is changed.

    Raises:
        PinMismatchError: A pin names no version: nothing is removed.
        ExistsError: Another pack is writing, or an unfinished one could still go on.
    """
    resolve(root)  # no dataset there: say so before a lock file is made
    with locked(root):
        journal = Journal(root)
        if journal.is_unfinished():
            raise ExistsError(
                f"{root!r} holds an unfinished pack: run it again to finish it, or pack with --on-existing overwrite"
            )
        versions = {version.pin: version for version in (resolve(root), *(resolve(f"{root}@sha256:{p}") for p in keep))}
        named = {name for version in versions.values() for name in _files(version)}
        garbage = [name for name in _present(root) if name not in named and not _reports_of(name, versions)]
        with storage_errors("collect", root):
            nbytes = sum(os.path.getsize(os.path.join(root, name)) for name in garbage)
            if delete:
                remove_temporaries(root)
                journal.discard()
                _remove(root, garbage)
    return Collection(kept=tuple(versions), files=tuple(garbage), bytes=nbytes, deleted=delete)


def _files(version: Version) -> set[str]:
    """Return every file that a version names."""
    manifest = version.manifest
    files = {f"{MANIFESTS}/{version.pin}.json", *(f"{TABLES}/{digest}.arrow" for digest in manifest.table_hashes)}
    for split in manifest.splits.values():
        index = parse_shard_tables([(ref.sha256, read_table(version, ref.sha256)) for ref in split.tables])
        files.update(index.paths.to_pylist())
    return files


def _present(root: str) -> list[str]:
    with storage_errors("list", root):
        there = [folder for folder in _ORDER if os.path.isdir(os.path.join(root, folder))]
        return [f"{folder}/{name}" for folder in there for name in sorted(os.listdir(os.path.join(root, folder)))]


def _reports_of(name: str, versions: dict[str, Version]) -> bool:
    folder, _, file = name.partition("/")
    return folder == REPORTS and file.partition(".")[0] in versions


def _remove(root: str, names: Sequence[str]) -> None:
    for folder in _ORDER:
        mine = [name for name in names if name.startswith(f"{folder}/")]
        for name in mine:
            with contextlib.suppress(FileNotFoundError):  # a temporary file, gone with the others
                os.unlink(os.path.join(root, name))
        if mine:
            fsync_directory(os.path.join(root, folder))
