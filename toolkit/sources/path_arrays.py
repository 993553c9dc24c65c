"""Columns of paths made of other ones, many rows in one go: a folder before each, the base name of each.

Reads nothing. Arrays are of strings with int32 offsets and without nulls, and cut ones will do.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.format.arrays import value_offsets

__all__ = ["base_names", "below", "folder_starts", "repeated", "strings", "without_heads"]

_SLASH = ord("/")


def strings(text: NDArray[np.uint8], ends: NDArray[np.int64]) -> pa.Array:
    """Return the strings of which number i is text[ends[i]:ends[i + 1]]; it must be UTF-8.

    Raises:
        pa.ArrowCapacityError: There are 2 GiB or more.
    """
    if len(text) >= 1 << 31:
        raise pa.ArrowCapacityError(f"{len(text)} bytes do not fit int32 offsets")
    offsets = pa.py_buffer(ends.astype(np.int32))
    return pa.Array.from_buffers(pa.string(), len(ends) - 1, [None, offsets, pa.py_buffer(np.ascontiguousarray(text))])


def repeated(value: str, rows: int) -> pa.Array:
    """Return `value` as often as there are rows."""
    data = np.frombuffer(value.encode(), np.uint8)
    return strings(np.tile(data, rows), np.arange(rows + 1, dtype=np.int64) * len(data))


def below(folder: str, paths: pa.Array) -> pa.Array:
    """Return os.path.join(folder, path) of each path; none of them begins with a slash."""
    head = np.frombuffer((folder if folder.endswith("/") else f"{folder}/").encode(), np.uint8)
    text, ends = _text(paths)
    lengths = np.diff(ends)
    out = np.empty(len(head) * len(paths) + len(text), np.uint8)
    is_head = _alternating(np.full(len(paths), len(head)), lengths)
    out[is_head] = np.tile(head, len(paths))
    out[~is_head] = text
    return strings(out, ends + len(head) * np.arange(len(ends)))


def base_names(paths: pa.Array) -> pa.Array:
    """Return what stands behind the last slash of each path."""
    text, ends = _text(paths)
    slashes = np.concatenate((np.full(1, -1), np.flatnonzero(text == _SLASH)))  # one before all of them
    last = slashes[np.searchsorted(slashes, ends[1:]) - 1] + 1
    starts = np.maximum(last, ends[:-1])
    lengths = ends[1:] - starts
    kept = text[~_alternating(starts - ends[:-1], lengths)]
    return strings(kept, np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths))))


def without_heads(paths: pa.Array, lengths: NDArray[np.int64]) -> pa.Array:
    """Return each path without its first bytes, of which there are so many."""
    text, ends = _text(paths)
    kept = np.diff(ends) - lengths
    tails = text[~_alternating(lengths, kept)]
    return strings(tails, np.concatenate((np.zeros(1, np.int64), np.cumsum(kept))))


def folder_starts(paths: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows whose folder isn't that of the row before, and how many bytes the folder of each row has.

    Each path has a slash.
    """
    text, ends = _text(paths)
    slashes = np.flatnonzero(text == _SLASH)
    lengths = slashes[np.searchsorted(slashes, ends[1:]) - 1] - ends[:-1]
    before = np.concatenate((ends[:1], ends[:-2]))
    alike = lengths == np.concatenate((lengths[:1], lengths[:-1]))
    rows = np.flatnonzero(alike & (lengths > 0))
    steps = np.cumsum(lengths[rows]) - lengths[rows]
    own = np.arange(int(lengths[rows].sum())) + np.repeat(ends[:-1][rows] - steps, lengths[rows])
    other = own - np.repeat(ends[:-1][rows] - before[rows], lengths[rows])
    if len(rows):
        alike[rows] = ~np.logical_or.reduceat(text[own] != text[other], steps)
    alike[:1] = False
    return np.flatnonzero(~alike), lengths


def _text(paths: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of all paths, and where each begins and the last ends."""
    offsets = value_offsets(paths).astype(np.int64)
    data = paths.buffers()[2]
    text = np.frombuffer(data if data is not None else b"", np.uint8)
    return text[offsets[0] : offsets[-1]], offsets - offsets[0]


def _alternating(heads: NDArray[np.int64], tails: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return heads[0] times True, tails[0] times False, heads[1] times True and so on."""
    counts = np.column_stack((heads, tails)).reshape(-1)
    return np.repeat(np.tile([True, False], len(heads)), counts)
