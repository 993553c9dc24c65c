"""The stage: where a first pass leaves its shards until what must be known of all samples is known.

Two kinds of packs take two passes: a shuffled one of a source that can't be read in any order, whose second pass packs
the staged rows anew, and one that renames keys, whose second pass moves the staged shards to where they belong.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from toolkit.errors import StorageError
from toolkit.format.commit import Transaction
from toolkit.format.key_hashes import mapped
from toolkit.format.names import is_temporary
from toolkit.pack.journal import STAGE, Journal, SliceResult
from toolkit.sources.base import Slice
from toolkit.storage.folders import list_folder, make_folder, remove_files
from toolkit.storage.local import TEMPORARY_PREFIX, fsync_directory, storage_errors

__all__ = ["Publisher", "Stage"]


class Stage:
    """The folder of a first pass's shards, below the journal, and its own journal. Takes a Transaction's place."""

    def __init__(self, root: str) -> None:
        """Make the folder in the dataset at `root`, or go on with it. The journal must have begun."""
        self._root = root
        self._folder = os.path.join(root, STAGE)
        make_folder(self._folder)
        unfinished = [one.name for one in list_folder(self._folder) if is_temporary(one.name) and not one.is_folder]
        remove_files(self._folder, unfinished)
        self.journal = Journal(root, stage=True)

    def shard_temporary(self, name: str) -> str:
        """Return the path at which a shard is written."""
        return os.path.join(self._folder, f"{TEMPORARY_PREFIX}{name}")

    def publish_shard(self, temporary: str, name: str) -> str:
        """Rename a finished, synced shard to its name; return its path inside the dataset."""
        path = os.path.join(self._folder, name)
        with storage_errors("write", path):
            os.replace(temporary, path)
        return f"{STAGE}/{name}"

    def sync_shards(self) -> None:
        """Make the names of the shards durable."""
        fsync_directory(self._folder)


class Publisher:
    """A second pass that moves each slice's staged shards to the dataset. Has a SlicePacker's methods."""

    def __init__(
        self, results: Sequence[SliceResult], stage: Stage, transaction: Transaction, journal: Journal
    ) -> None:
        self._results = {(result.split, result.number): result for result in results}
        self._stage = stage
        self._transaction = transaction
        self._journal = journal
        self.cancelled = threading.Event()
        self.on_read: Callable[[int, int], None] = lambda rows, nbytes: None

    def is_done(self, part: Slice, entry: SliceResult) -> bool:
        """Tell whether a journal entry is of this slice as it is staged."""
        staged = self._results[part.split, part.number]
        return (entry.fingerprint, entry.renames) == (staged.fingerprint, staged.renames)

    def pack(self, part: Slice) -> SliceResult:
        """Move the slice's shards and write its journal entry."""
        staged = self._results[part.split, part.number]
        records = []
        for record in staged.records:
            path = self._stage.journal.shard_path(record)
            if path is None:
                raise StorageError(f"{record.path!r} is gone, which this pack wrote: run it again")
            # A kill may have come when it was moved and not yet noted: then it goes on from its place to its place.
            inside = self._transaction.publish_shard(path, os.path.basename(path))
            records.append(replace(record, path=inside))
        self._transaction.sync_shards()
        result = msgspec.structs.replace(staged, records=tuple(records))
        self._journal.record(result, mapped(self._stage.journal.keys_path(staged.split, staged.number)))
        self.on_read(result.rows + len(result.rejects), part.bytes)
        return result
