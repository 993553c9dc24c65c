"""Two sets of samples, each as hashes of keys and contents on disk, and where they differ.

However many samples there are, about half a million of each side are in memory at a time: more are first spread over
files by the leading bits of their keys' hashes, so that equal keys meet in one file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.format.key_hashes import key_hash
from toolkit.storage.mapped import mapped
from toolkit.storage.scratch import NamelessFile, append, file_bytes, read_whole, scratch_folder, take_whole

__all__ = ["Differences", "SampleLog", "SampleNames", "differences"]

_WORDS = 5  # uint64 a sample: the key's hash, the content's, and a number
_AT_A_TIME = 1 << 19
_NUMBER = 4

_Rows = NDArray[np.uint64]
_Numbers = NDArray[np.int64]


class SampleLog:
    """Samples by the hashes of their keys, in a file. Its add() is safe from any thread."""

    def __init__(self, folder: str, name: str) -> None:
        self.path = os.path.join(folder, name)
        self._lock = threading.Lock()
        append(self.path, memoryview(b""))

    def add(self, keys: Sequence[str], contents: Sequence[bytes], numbers: _Numbers) -> None:
        """Add samples: keys, 16 bytes each that stand for what they hold, and numbers that find them again.

        Raises StorageError.
        """
        if not keys:
            return
        hashes = np.frombuffer(b"".join(map(key_hash, keys)), np.uint64).reshape(-1, 2)
        held = np.frombuffer(b"".join(contents), np.uint64).reshape(-1, 2)
        rows = np.concatenate([hashes, held, numbers.astype(np.int64).view(np.uint64)[:, None]], axis=1)
        with self._lock:
            append(self.path, memoryview(rows.tobytes()))


class SampleNames:
    """Texts on disk, each found again by the number that it was given. Safe from any thread."""

    def __init__(self, folder: str) -> None:
        self._file = NamelessFile(folder)
        self._lock = threading.Lock()
        self._end = 0

    def __enter__(self) -> SampleNames:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.__exit__(None, None, None)

    def add(self, texts: Sequence[str]) -> _Numbers:
        """Keep texts; return their numbers. Raises StorageError."""
        data = [text.encode() for text in texts]
        sizes = np.array([len(one) for one in data], np.int64)
        with self._lock:
            starts = self._end + np.concatenate(([0], np.cumsum(sizes + 4)[:-1])) if data else np.empty(0, np.int64)
            self._file.write(b"".join(len(one).to_bytes(4, "little") + one for one in data))
            self._end += int((sizes + 4).sum())
        return starts.astype(np.int64)

    def read(self, numbers: Sequence[int]) -> list[str]:
        """Return the texts of these numbers. Raises StorageError."""
        held = self._file.mapped()
        found = []
        for number in numbers:
            size = int.from_bytes(held[number : number + 4], "little")
            found.append(bytes(held[number + 4 : number + 4 + size]).decode())
        return found


@dataclass(frozen=True, slots=True)
class Differences:
    """What a part of the samples comes to, by their numbers, int64.

    Attributes:
        missing: Samples of the first side whose key the second hasn't.
        strange: Samples of the second whose key the first hasn't.
        again: Samples of the second whose key an earlier one of it has.
        pairs: (n, 2): samples of both with one key; `differs` (n,) tells whether they hold something else.
    """

    missing: _Numbers
    strange: _Numbers
    again: _Numbers
    pairs: _Numbers
    differs: NDArray[np.bool_]


def differences(first: SampleLog, second: SampleLog, folder: str) -> Iterator[Differences]:
    """Yield how the samples of the second side differ from those of the first, in parts. Raises StorageError.

    Args:
        first, second: The sides; no key comes twice in the first.
        folder: Where they are spread to files, if they are many.
    """
    most = max(file_bytes(log.path) for log in (first, second)) // (8 * _WORDS)
    if most <= _AT_A_TIME:
        yield _compared(_rows(read_whole(first.path)), _rows(read_whole(second.path)))
        return
    parts = -(-most // _AT_A_TIME)
    with scratch_folder(folder) as made:
        for log, side in ((first, "first"), (second, "second")):
            _spread(log.path, [os.path.join(made, f"{side}{number}") for number in range(parts)])
        for number in range(parts):
            yield _compared(*(_rows(take_whole(os.path.join(made, f"{side}{number}"))) for side in ("first", "second")))


def _rows(data: bytes) -> _Rows:
    return np.frombuffer(data, np.uint64).reshape(-1, _WORDS)


def _spread(path: str, files: Sequence[str]) -> None:
    """Write each sample to the file that the leading bits of its key's hash name."""
    for file in files:
        append(file, memoryview(b""))
    for rows in _pieces(path):
        home = (rows[:, 0] >> np.uint64(32)) * np.uint64(len(files)) >> np.uint64(32)
        order = np.argsort(home, kind="stable")
        ends = np.searchsorted(home[order], np.arange(len(files)), side="right").tolist()
        for file, start, stop in zip(files, [0, *ends], ends, strict=False):
            append(file, memoryview(rows[order[start:stop]].tobytes()))


def _pieces(path: str) -> Iterator[_Rows]:
    rows = np.frombuffer(mapped(path), np.uint64).reshape(-1, _WORDS)
    for start in range(0, len(rows), _AT_A_TIME):
        yield rows[start : start + _AT_A_TIME]


def _compared(first: _Rows, second: _Rows) -> Differences:
    second = second[np.lexsort((second[:, _NUMBER], second[:, 1], second[:, 0]))]
    is_again = np.zeros(len(second), np.bool_)
    is_again[1:] = (second[1:, :2] == second[:-1, :2]).all(axis=1)
    again, second = second[is_again], second[~is_again]
    both = np.concatenate([first, second])
    side = np.repeat([0, 1], [len(first), len(second)])
    order = np.lexsort((side, both[:, 1], both[:, 0]))
    both, side = both[order], side[order]
    meets = np.zeros(len(both), np.bool_)
    meets[:-1] = (both[1:, :2] == both[:-1, :2]).all(axis=1) & (side[:-1] == 0) & (side[1:] == 1)
    paired = meets | np.concatenate(([False], meets[:-1]))
    left, right = both[meets], both[np.flatnonzero(meets) + 1]
    return Differences(
        missing=_numbers(both[~paired & (side == 0)]),
        strange=_numbers(both[~paired & (side == 1)]),
        again=_numbers(again),
        pairs=np.stack([_numbers(left), _numbers(right)], axis=1),
        differs=(left[:, 2:4] != right[:, 2:4]).any(axis=1),
    )


def _numbers(rows: _Rows) -> _Numbers:
    return np.ascontiguousarray(rows[:, _NUMBER]).view(np.int64)
