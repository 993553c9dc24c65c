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


def check_keys(results: list[SliceResult], journal: Journal, root: str) -> None:
    """Raise SourceError, naming both samples, when a key occurs twice among all splits."""
    hashes = journal.key_hashes(results)
    if not hashes:
        return
    joined = np.concatenate(hashes)
    order = np.argsort(joined[:, 0], kind="stable")
    first = joined[order, 0]
    # Equal 64-bit halves stand next to each other; the other half tells a real duplicate from a collision.
    for place in np.flatnonzero(first[1:] == first[:-1]).tolist():
        one, two = sorted((int(order[place]), int(order[place + 1])))
        if joined[one, 1] == joined[two, 1]:
            ends = np.cumsum([len(part) for part in hashes])
            places = [_place(results, ends, number, root) for number in (one, two)]
            raise SourceError(
                f"the key {places[0][1]!r} occurs twice: {places[0][0]}, and {places[1][0]}. Keys must be unique in a "
                "dataset: rename one of the samples, or give --key another field"
            )


def _place(results: list[SliceResult], ends: NDArray[np.int64], number: int, root: str) -> tuple[str, str]:
    """Say where row `number` of all rows lies, and give its key."""
    part = int(np.searchsorted(ends, number, side="right"))
    result = results[part]
    row = number - (int(ends[part - 1]) if part else 0)
    text = f"sample {row} of slice {result.number} of split {result.split}"
    for record in result.records:
        if row < record.rows:
            with pa.memory_map(os.path.join(root, record.path)) as file:
                return text, pa.ipc.open_file(file).read_all().column(KEY)[row].as_py()
        row -= record.rows
    return text, "?"
