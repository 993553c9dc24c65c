"""The stage: where a first pass leaves its shards until what must be known of all samples is known.

Two kinds of packs take two passes: a shuffled one of a source that can't be read in any order, whose second pass packs
the staged rows anew, and one that renames keys, whose second pass moves the staged shards to where they belong.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

import msgspec

from toolkit.format.commit import Transaction
from toolkit.format.names import is_temporary
from toolkit.format.unhashed import stat_path
from toolkit.pack.journal import STAGE, Journal, SliceResult
from toolkit.sources.base import Slice
from toolkit.storage.mapped import mapped
from toolkit.storage.store import TEMPORARY_PREFIX, NewObject, WritableStore

__all__ = ["Publisher", "Stage"]


class Stage:
    """The folder of a first pass's shards, below the journal, and its own journal. Takes a Transaction's place."""

    def __init__(self, store: WritableStore) -> None:
        """Make the folder in a dataset, or go on with it. The journal must have begun."""
        self._store = store
        store.make_folder(STAGE)
        unfinished = [one.name for one in store.entries(STAGE) if is_temporary(one.name) and not one.is_folder]
        store.delete([f"{STAGE}/{name}" for name in unfinished], durable=True)
        self.journal = Journal(store, stage=True)

    def new_shard(self, name: str) -> NewObject:
        """Begin a shard whose hash, and so its name, isn't known yet; `name` is unique among those being written."""
        return self._store.stream(f"{STAGE}/{TEMPORARY_PREFIX}{name}")

    def publish_shard(self, shard: NewObject, name: str) -> str:
        """Give a finished shard its name; return its path inside the dataset."""
        inside = f"{STAGE}/{name}"
        shard.publish(inside)
        return inside

    def write_stats(self, shard: str, data: bytes) -> None:
        """Write what lies beside the shard that is going to have that name."""
        self._store.write(stat_path(f"{STAGE}/{shard}"), data)

    def sync_shards(self) -> None:
        """Make the names of the shards durable."""
        self._store.sync(STAGE)


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
            # A kill may have come when it was moved and not yet noted: then it goes on from its place to its place.
            name = self._stage.journal.shard_name(record)
            records.append(replace(record, path=self._transaction.take_shard(name)))
        self._transaction.sync_shards()
        result = msgspec.structs.replace(staged, records=tuple(records))
        self._journal.record(result, mapped(self._stage.journal.keys_path(staged.split, staged.number)))
        self.on_read(result.rows + len(result.rejects), part.bytes)
        return result
