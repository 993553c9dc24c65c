"""Keys that occur twice: refuse them, naming both samples, or find the new keys of the later ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.key_hashes import HASH_BYTES, key_hash, mapped_hashes
from toolkit.format.key_repeats import KnownKeys, Repeats, find_repeats, first_repeat
from toolkit.format.schema import KEY
from toolkit.pack.journal import Journal, SliceResult
from toolkit.pack.renames import Renames, plain_key, renamed_key
from toolkit.storage.files import storage_errors
from toolkit.storage.mapped import map_file
from toolkit.storage.scratch import file_bytes

__all__ = ["KeyConflicts"]

_SliceRepeats = tuple[SliceResult, int, int, NDArray[np.int64]]
"""A slice with repeats: from which and up to which of all of them they are its own, and their rows in the slice."""


class KeyConflicts:
    """The samples of a pack whose key an earlier sample has, in this pack or in the version that is appended to."""

    def __init__(self, results: Sequence[SliceResult], journal: Journal, existing: str | None = None) -> None:
        """Find nothing yet.

        Args:
            results: The slices, in order.
            journal: Has the hashes of their keys.
            existing: A file of the hashes of the keys that are there already, for an append.
        """
        self._results = results
        self._journal = journal
        self._before = 0 if existing is None else file_bytes(existing) // HASH_BYTES
        self._ends = np.cumsum([result.rows for result in results])
        self._paths = [] if existing is None else [existing]
        self._paths += [journal.keys_path(result.split, result.number) for result in results]

    def refuse(self) -> None:
        """Raise SourceError, naming both samples, when there are any."""
        found = first_repeat(self._paths, self._journal.folder)
        if found is None:
            return
        second, first = (row - self._before for row in found)
        place = "in the dataset already" if first < 0 else self._place(first)
        raise SourceError(
            f"the key {self._key(second)!r} occurs twice: {place}, and {self._place(second)}. Keys must be unique in a "
            "dataset: rename one of the samples, give --key another field, or let --key-conflict suffix "
            "rename"
        )

    def renames(self) -> dict[tuple[str, int], Renames]:
        """Return the new keys, by split and number of the slice.

        A later sample gets the key with the lowest number that neither a sample of the input, nor of the dataset, nor
        another renamed one has. Two keys can't meet that way: what stands before the last # tells them apart.
        """
        found = find_repeats(self._paths, self._journal.folder)
        if not len(found.rows):
            return {}
        repeats = self._by_slice(found)
        known = KnownKeys(self._paths, self._journal.folder)
        same, group = np.unique(found.firsts, return_inverse=True)
        last = np.zeros(len(same), np.int64)
        numbers = np.empty(len(group), np.int64)
        for i, (of, key) in enumerate(zip(group.tolist(), self._keys(repeats), strict=True)):
            last[of] += 1
            while renamed_key(key, int(last[of])) in known:
                last[of] += 1
            numbers[i] = last[of]
        return {
            (result.split, result.number): Renames(rows, numbers[start:stop]) for result, start, stop, rows in repeats
        }

    def _by_slice(self, repeats: Repeats) -> list[_SliceRepeats]:
        starts = self._ends - [result.rows for result in self._results]
        new = repeats.rows - self._before
        cuts = np.searchsorted(new, self._ends).tolist()
        return [
            (self._results[part], start, stop, new[start:stop] - starts[part])
            for part, (start, stop) in enumerate(zip([0, *cuts], cuts, strict=False))
            if stop > start
        ]

    def _keys(self, repeats: Sequence[_SliceRepeats]) -> Iterator[str]:
        """Yield the key of each repeat, as the source gave it."""
        for result, _, _, rows in repeats:
            hashes = mapped_hashes(self._journal.keys_path(result.split, result.number))
            for row, key in zip(rows.tolist(), _stored_keys(result, self._journal, rows), strict=True):
                # A slice that was finished by a killed pack may have its new keys already.
                given = key_hash(key) == hashes[row].tobytes()
                yield key if given else plain_key(key)

    def _slice_of(self, row: int) -> tuple[SliceResult, int]:
        part = int(np.searchsorted(self._ends, row, side="right"))
        return self._results[part], row - int(self._ends[part]) + self._results[part].rows

    def _place(self, row: int) -> str:
        result, within = self._slice_of(row)
        return f"in {result.source or 'the input'} (split {result.split}, slice {result.number}, sample {within})"

    def _key(self, row: int) -> str:
        result, within = self._slice_of(row)
        return next(_stored_keys(result, self._journal, np.array([within])))


def _stored_keys(result: SliceResult, journal: Journal, rows: NDArray[np.int64]) -> Iterator[str]:
    """Yield the keys of some rows of a slice, as its shards have them."""
    before = 0
    for record in result.records:
        path = journal.shard_path(record)
        with storage_errors("read", path):
            reader = pa.ipc.open_file(pa.py_buffer(map_file(path)))
        for number, place in enumerate(record.batches):
            start, stop = np.searchsorted(rows, [before, before + place.rows]).tolist()
            if stop > start:
                keys = reader.get_batch(number).column(KEY)
                yield from keys.take(pa.array(rows[start:stop] - before)).to_pylist()
            before += place.rows
