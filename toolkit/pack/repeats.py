"""Find the keys that occur twice, by 128-bit hashes on disk: memory is bounded, however many samples there are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import xxhash
from numpy.typing import NDArray

from toolkit.pack.journal import HASH_BYTES
from toolkit.storage.local import storage_errors

__all__ = ["KnownKeys", "Repeats", "find_repeats"]

_PART_ROWS = 1 << 21  # about how many hashes are sorted at once
_READ_ROWS = 1 << 20

_Words = NDArray[np.uint64]
_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Repeats:
    """Rows whose key an earlier row has, as int64 numbers among all rows.

    Attributes:
        rows: The rows that repeat a key, ascending.
        firsts: For each, the row that has the key first.
    """

    rows: _Numbers
    firsts: _Numbers


def find_repeats(paths: Sequence[str]) -> Repeats:
    """Return the rows that repeat an earlier one's key; files of key hashes are all rows, in order."""
    found = [_repeats_in(hashes, numbers) for hashes, numbers in _parts(paths)]
    rows = np.concatenate([one.rows for one in found])
    order = np.argsort(rows)
    return Repeats(rows[order], np.concatenate([one.firsts for one in found])[order])


class KnownKeys:
    """All keys of a dataset, by half of their hashes: a key that is there is always found, another one hardly ever."""

    def __init__(self, paths: Sequence[str], sorted_path: str) -> None:
        """Sort what is in `paths`, as find_repeats() takes them and not empty, into a file at `sorted_path`."""
        with storage_errors("write", sorted_path):
            with open(sorted_path, "wb") as file:
                for hashes, _ in _parts(paths):
                    file.write(np.sort(hashes[:, 0]).data)
            self._words = np.memmap(sorted_path, np.uint64, "r").view(np.ndarray)

    def __contains__(self, key: str) -> bool:
        word = np.frombuffer(xxhash.xxh3_128_digest(key.encode()), np.uint64)[0]
        place = int(np.searchsorted(self._words, word))
        return place < len(self._words) and bool(self._words[place] == word)


def _parts(paths: Sequence[str]) -> Iterator[tuple[_Words, _Numbers]]:
    """Yield all hashes (uint64, (n, 2)) with their rows, in parts: equal ones together, the least first words first."""
    total = sum(len(hashes) for _, hashes in _blocks(paths))
    bits = max(0, (total - 1) // _PART_ROWS).bit_length()
    for part in range(1 << bits):
        hashes, numbers = [np.empty((0, 2), np.uint64)], [np.empty(0, np.int64)]
        for first, block in _blocks(paths):
            mine = np.arange(len(block)) if bits == 0 else np.flatnonzero(block[:, 0] >> np.uint64(64 - bits) == part)
            hashes.append(block[mine])
            numbers.append(mine + first)
        yield np.concatenate(hashes), np.concatenate(numbers)


def _blocks(paths: Sequence[str]) -> Iterator[tuple[int, _Words]]:
    """Yield the hashes of all files in blocks, each with the number of its first row."""
    row = 0
    for path in paths:
        with storage_errors("read", path), open(path, "rb") as file:
            while data := file.read(_READ_ROWS * HASH_BYTES):
                hashes = np.frombuffer(data, np.uint64).reshape(-1, 2)
                yield row, hashes
                row += len(hashes)


def _repeats_in(hashes: _Words, numbers: _Numbers) -> Repeats:
    words = np.sort(hashes[:, 0])
    twice = words[1:][words[1:] == words[:-1]]
    some = np.isin(hashes[:, 0], twice) if len(twice) else np.zeros(len(hashes), np.bool_)
    hashes, numbers = hashes[some], numbers[some]
    order = np.lexsort((numbers, hashes[:, 1], hashes[:, 0]))
    hashes, numbers = hashes[order], numbers[order]
    is_first = np.ones(len(hashes), np.bool_)
    is_first[1:] = (hashes[1:] != hashes[:-1]).any(axis=1)
    firsts = numbers[is_first][np.cumsum(is_first) - 1]
    return Repeats(numbers[~is_first], firsts[~is_first])
