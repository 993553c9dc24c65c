"""An array as it lies in a file: its type and shape, and its rows in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.sources.state import FileState

__all__ = ["StoredArray"]


class StoredArray(ABC):
    """An array of which nothing was read but what it is. It can be pickled, and holds no open file.

    Attributes:
        name: What it is called in its file, or for a file of one array by that file's name.
        path: The file.
        state: What the file was when it was looked at.
        dtype: Type of its values.
        shape: Its shape; the first index is the row.
        band_rows: How many rows are best read together.
        more_row_bytes: What a row takes besides, about, where its values differ in length.
        cache_bytes: What its library keeps in memory while it is read.
        is_one_pass: It is read from its first row on, and anywhere else only by reading what lies before.
    """

    name: str
    path: str
    state: FileState
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    band_rows: int = 1
    more_row_bytes: int = 0
    cache_bytes: int = 0
    is_one_pass: bool = False

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return self.shape[0]

    @abstractmethod
    def blocks(self, first: int, stop: int, step: int) -> AbstractContextManager[Iterator[NDArray[Any]]]:
        """Return the rows from `first` to `stop` in blocks of `step` at the most; closed with the block.

        Raises:
            SourceError: The file is damaged, or isn't what it was; names file and array.
            StorageError: It can't be read.
        """
