"""Refuse keys that occur twice: found by 128-bit hashes, named by reading the two rows."""

from __future__ import annotations

import os

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.schema import KEY
from toolkit.pack.journal import Journal, SliceResult

__all__ = ["check_keys"]


def check_keys(
    results: list[SliceResult], journal: Journal, root: str, existing: NDArray[np.uint64] | None = None
) -> None:
    """Raise SourceError, naming both samples, when a key occurs twice among all splits.

    Args:
        results: The slices, in order.
        journal: Has the hashes of their keys.
        root: The dataset's folder.
        existing: uint64 (n, 2): hashes of the keys of the version that is appended to.
    """
    hashes = journal.key_hashes(results)
    before = 0 if existing is None else len(existing)
    joined = np.concatenate([*([] if existing is None else [existing]), np.empty((0, 2), np.uint64), *hashes])
    order = np.lexsort((joined[:, 1], joined[:, 0]))
    same = np.flatnonzero((joined[order[1:]] == joined[order[:-1]]).all(axis=1))
    if not len(same):
        return
    pairs = np.sort(np.stack([order[same], order[same + 1]], axis=1), axis=1)
    one, two = pairs[np.argmin(pairs[:, 1])].tolist()  # the first sample that repeats an earlier one
    ends = np.cumsum([len(part) for part in hashes])
    second, key = _place(results, ends, two - before, root)
    first = "in the dataset already" if one < before else _place(results, ends, one - before, root)[0]
    raise SourceError(
        f"the key {key!r} occurs twice: {first}, and {second}. Keys must be unique in a dataset: rename one of the "
        "samples, or give --key another field"
    )


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
