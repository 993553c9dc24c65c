"""Where the values of a source lie: for datasets that refer to them, and hold none."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.arrays import to_array
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.path_arrays import repeated

__all__ = ["Places", "Span", "check_place", "check_plain", "joined_places", "places_in_file"]

Span = tuple[int, int]
"""Where a value begins in its file, and its bytes."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where the values of a column lie, one place for each row; what it says of a value that is null means nothing.

    Attributes:
        files: string: absolute paths of the files, as the source opens them; null where there is no value.
        offsets: int64 (n,): where values begin in their files.
        lengths: int64 (n,): bytes of the values.
        sizes: int64 (n,): bytes of the files, as they were surveyed.
        mtimes_ns: int64 (n,): their modification times.
        names: string: what a pack stores as the names of the values' files (the struct's `path`); null where none.
    """

    files: pa.Array
    offsets: NDArray[np.int64]
    lengths: NDArray[np.int64]
    sizes: NDArray[np.int64]
    mtimes_ns: NDArray[np.int64]
    names: pa.Array

    def picked(self, rows: NDArray[np.int64]) -> Self:
        """Return the places of some rows."""
        taken = pa.array(rows)
        arrays = {one.name: getattr(self, one.name) for one in fields(self)}
        return type(self)(
            **{name: one.take(taken) if isinstance(one, pa.Array) else one[rows] for name, one in arrays.items()}
        )


def joined_places(parts: Sequence[Places]) -> Places:
    """Return the places of some rows, and of those behind them."""
    if len(parts) == 1:
        return parts[0]
    return Places(
        pa.concat_arrays([one.files for one in parts]),
        np.concatenate([one.offsets for one in parts]),
        np.concatenate([one.lengths for one in parts]),
        np.concatenate([one.sizes for one in parts]),
        np.concatenate([one.mtimes_ns for one in parts]),
        pa.concat_arrays([one.names for one in parts]),
    )


def check_place(path: str) -> None:
    """Raise SourceError when no column of text can hold the path of a file or folder."""
    if not is_utf8(path):
        raise SourceError(
            f"the path '{printable(path)}' is not valid UTF-8, so nothing can refer to what lies there: rename it, "
            "or pack it"
        )


def check_plain(path: str, compression: str) -> None:
    """Raise SourceError when nothing can refer to what a file holds: its path is no text, or it is compressed."""
    check_place(path)
    if compression:
        raise SourceError(
            f"{printable(path)!r} is compressed ({compression}), so what it holds can't stay where it is: pack it, or "
            "leave it out with --exclude"
        )


def places_in_file(path: str, size: int, mtime_ns: int, spans: Sequence[Span | None], names: pa.Array) -> Places:
    """Return the places of values that lie in one file; None is that of a null."""
    rows, path = len(spans), os.path.abspath(path)
    files = to_array([span and path for span in spans], pa.string()) if None in spans else repeated(path, rows)
    cells = np.array([span or (0, 0) for span in spans], np.int64).reshape(rows, 2)
    sizes, times = np.full(rows, size, np.int64), np.full(rows, mtime_ns, np.int64)
    return Places(files, cells[:, 0].copy(), cells[:, 1].copy(), sizes, times, names)
