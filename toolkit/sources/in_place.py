"""Where the values of a source lie: for datasets that refer to them, and hold none."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.sources.names import is_utf8, printable

__all__ = ["Places", "check_place"]


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


def check_place(path: str) -> None:
    """Raise SourceError when no column of text can hold the path of a file or folder."""
    if not is_utf8(path):
        raise SourceError(
            f"the path '{printable(path)}' is not valid UTF-8, so nothing can refer to what lies there: rename it, "
            "or pack it"
        )
