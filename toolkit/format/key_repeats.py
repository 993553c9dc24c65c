"""Find the keys that occur twice, by their hashes on disk.

However many keys there are, a few million hashes are in memory at a time: more are first spread over files by their
leading bits, so that equal ones meet in one file. What is found takes 16 bytes a repeated key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.format.key_hashes import HASH_BYTES, Hashes, key_hash, mapped_hashes
from toolkit.storage.mapped import mapped
from toolkit.storage.scratch import append, file_bytes, read_whole, scratch_folder, take_whole, written

__all__ = ["KnownKeys", "Repeats", "find_repeats", "first_repeat"]

_ROWS_AT_A_TIME = 1 << 21  # 32 MiB of hashes, and about five times that to sort them
_HASH_AND_ROW = 3  # uint64 a row in a file that hashes are spread to

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


def find_repeats(paths: Sequence[str], folder: str | None) -> Repeats:
    """Return the rows that repeat an earlier one's key.

    Args:
        paths: Files of key hashes: all rows, in order.
        folder: Where hashes are spread to files, if they are many; None keeps all of them in memory.
    """
    found = [_repeats_in(*part) for part in _parts(paths, folder)]
    rows = np.concatenate([one.rows for one in found])
    order = np.argsort(rows)
    return Repeats(rows[order], np.concatenate([one.firsts for one in found])[order])


def first_repeat(paths: Sequence[str], folder: str | None) -> tuple[int, int] | None:
    """Return the first row that repeats an earlier one's key, and that one; arguments as in find_repeats()."""
    found = (_repeats_in(*part) for part in _parts(paths, folder))
    return min(((int(one.rows[0]), int(one.firsts[0])) for one in found if len(one.rows)), default=None)


class KnownKeys:
    """All keys of a dataset, by half of their hashes: a key that is there is always found, another one hardly ever."""

    def __init__(self, paths: Sequence[str], folder: str | None) -> None:
        """Sort what is in `paths`, as find_repeats() takes them, into a file in `folder`, or in memory."""
        if folder is None:
            self._words = np.sort(next(_parts(paths, None))[0][:, 0])
            return
        path = os.path.join(folder, "keys.sorted")
        with written(path) as file:
            for hashes, _ in _parts(paths, folder):
                file.write(np.sort(hashes[:, 0]).data)
        self._words = np.frombuffer(mapped(path), np.uint64)

    def __contains__(self, key: str) -> bool:
        word = np.frombuffer(key_hash(key), np.uint64)[0]
        place = int(np.searchsorted(self._words, word))
        return place < len(self._words) and bool(self._words[place] == word)


def _parts(paths: Sequence[str], folder: str | None) -> Iterator[tuple[Hashes, _Numbers]]:
    """Yield all hashes with their rows, ascending, in parts: equal ones together, the least first words first."""
    rows = sum(map(file_bytes, paths)) // HASH_BYTES
    if folder is None or rows <= _ROWS_AT_A_TIME:
        words = b"".join(map(read_whole, paths))
        yield np.frombuffer(words, np.uint64).reshape(-1, 2), np.arange(rows)
        return
    with scratch_folder(folder) as made:
        files = [os.path.join(made, str(number)) for number in range(-(-rows // _ROWS_AT_A_TIME))]
        _spread(paths, files)
        for file in files:
            found = np.frombuffer(take_whole(file), np.uint64).reshape(-1, _HASH_AND_ROW)
            yield found[:, :2], found[:, 2].astype(np.int64)


def _spread(paths: Sequence[str], files: Sequence[str]) -> None:
    """Write each hash, with its row, to the file that its leading bits name."""
    row = 0
    for path in paths:
        of_path = mapped_hashes(path)
        for start in range(0, len(of_path), _ROWS_AT_A_TIME):
            hashes = of_path[start : start + _ROWS_AT_A_TIME]
            rows = np.empty((len(hashes), _HASH_AND_ROW), np.uint64)
            rows[:, :2] = hashes
            rows[:, 2] = np.arange(row, row + len(hashes))
            row += len(hashes)
            home = (hashes[:, 0] >> np.uint64(32)) * np.uint64(len(files)) >> np.uint64(32)
            order = np.argsort(home, kind="stable")
            ends = np.searchsorted(home[order], np.arange(len(files)), side="right").tolist()
            for file, first, last in zip(files, [0, *ends], ends, strict=False):
                append(file, rows[order[first:last]].data)


def _repeats_in(hashes: Hashes, numbers: _Numbers) -> Repeats:
    words = np.sort(hashes[:, 0])
    twice = words[1:][words[1:] == words[:-1]]
    some = np.isin(hashes[:, 0], twice) if len(twice) else np.zeros(len(hashes), np.bool_)
    hashes, numbers = hashes[some], numbers[some]
    order = np.lexsort((numbers, hashes[:, 1], hashes[:, 0]))
    hashes, numbers = hashes[order], numbers[order]
    is_first = np.ones(len(hashes), np.bool_)
    is_first[1:] = (hashes[1:] != hashes[:-1]).any(axis=1)
    firsts = numbers[is_first][np.cumsum(is_first) - 1]
    rows = numbers[~is_first]
    ascending = np.argsort(rows)
    return Repeats(rows[ascending], firsts[~is_first][ascending])
