"""Refuse keys that occur twice: found by 128-bit hashes, named by reading the two rows.

However many keys there are, a few million hashes are in memory at a time: more are first spread over files by their
leading bits, so that equal ones meet in one file.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.schema import KEY
from toolkit.pack.journal import Journal, SliceResult
from toolkit.storage.local import TEMPORARY_PREFIX, storage_errors

__all__ = ["check_keys"]

_ROWS_AT_A_TIME = 1 << 21  # 32 MiB of hashes, and about five times that to sort them
_HASH_AND_NUMBER = 3  # uint64 a row in a file

_Hashes = NDArray[np.uint64]
_Pair = tuple[int, int]


def check_keys(results: list[SliceResult], journal: Journal, root: str, existing: _Hashes | None = None) -> None:
    """Raise SourceError, naming both samples, when a key occurs twice among all splits.

    Args:
        results: The slices, in order.
        journal: Has the hashes of their keys.
        root: The dataset's folder.
        existing: uint64 (n, 2): hashes of the keys of the version that is appended to.
    """
    before = 0 if existing is None else len(existing)
    parts = [*([] if existing is None else [existing]), *journal.key_hashes(results)]
    repeated = _first_repeated(parts, journal.folder)
    if repeated is None:
        return
    one, two = repeated
    ends = np.cumsum([result.rows for result in results])
    second, key = _place(results, ends, two - before, root)
    first = "in the dataset already" if one < before else _place(results, ends, one - before, root)[0]
    raise SourceError(
        f"the key {key!r} occurs twice: {first}, and {second}. Keys must be unique in a dataset: rename one of the "
        "samples, or give --key another field"
    )


def _first_repeated(parts: Sequence[_Hashes], folder: str) -> _Pair | None:
    """Return the numbers of the first row that repeats an earlier one, and of the last such before it."""
    rows = sum(len(part) for part in parts)
    if rows <= _ROWS_AT_A_TIME:
        pairs = [_repeated(*_numbered(parts))]
    else:
        with storage_errors("write", folder), tempfile.TemporaryDirectory(prefix=TEMPORARY_PREFIX, dir=folder) as made:
            pairs = [_repeated(*one) for one in _spread(parts, -(-rows // _ROWS_AT_A_TIME), Path(made))]
    return min((pair for pair in pairs if pair is not None), key=lambda pair: pair[1], default=None)


def _numbered(parts: Sequence[_Hashes]) -> tuple[_Hashes, NDArray[np.int64]]:
    joined = np.concatenate([np.empty((0, 2), np.uint64), *parts])
    return joined, np.arange(len(joined))


def _spread(parts: Sequence[_Hashes], files: int, folder: Path) -> Iterator[tuple[_Hashes, NDArray[np.int64]]]:
    """Yield hashes and their numbers, equal hashes always together: those whose leading bits name the same file."""
    number = 0
    for part in parts:
        for start in range(0, len(part), _ROWS_AT_A_TIME):
            hashes = part[start : start + _ROWS_AT_A_TIME]
            rows = np.empty((len(hashes), _HASH_AND_NUMBER), np.uint64)
            rows[:, :2] = hashes
            rows[:, 2] = np.arange(number, number + len(hashes))
            number += len(hashes)
            home = (hashes[:, 0] >> np.uint64(32)) * np.uint64(files) >> np.uint64(32)
            order = np.argsort(home, kind="stable")
            ends = np.searchsorted(home[order], np.arange(files), side="right")
            for i, end in enumerate(ends.tolist()):
                with (folder / str(i)).open("ab") as file:
                    file.write(rows[order[ends[i - 1] if i else 0 : end]].tobytes())
    for i in range(files):
        found = np.fromfile(folder / str(i), np.uint64).reshape(-1, _HASH_AND_NUMBER)
        (folder / str(i)).unlink()
        yield found[:, :2], found[:, 2].astype(np.int64)


def _repeated(hashes: _Hashes, numbers: NDArray[np.int64]) -> _Pair | None:
    """Return the pair of equal hashes, neighbours by number, whose second number is the least. Numbers rise."""
    order = np.lexsort((hashes[:, 1], hashes[:, 0]))
    high, low = hashes[order, 0], hashes[order, 1]
    same = np.flatnonzero((high[1:] == high[:-1]) & (low[1:] == low[:-1]))
    if not len(same):
        return None
    first = same[np.argmin(numbers[order[same + 1]])]  # the sort is stable: of equal ones the later stands behind
    return int(numbers[order[first]]), int(numbers[order[first + 1]])


def _place(results: list[SliceResult], ends: NDArray[np.int64], number: int, root: str) -> tuple[str, str]:
    """Say where row `number` of all new rows lies, and give its key."""
    part = int(np.searchsorted(ends, number, side="right"))
    result = results[part]
    row = number - (int(ends[part - 1]) if part else 0)
    text = f"in {result.source or 'the input'} (split {result.split}, slice {result.number}, sample {row})"
    for record in result.records:
        if row < record.rows:
            with pa.memory_map(os.path.join(root, record.path)) as file:
                return text, pa.ipc.open_file(file).read_all().column(KEY)[row].as_py()
        row -= record.rows
    return text, "?"
