"""NumPy files as a source of tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from toolkit.sources.kinds.numpy.files import find_tables
from toolkit.sources.skips import FILE_REASONS, Skips
from toolkit.sources.tables.source import TableSource
from toolkit.sources.tables.table import Table

__all__ = ["NumpySource"]


class NumpySource(TableSource):
    """Arrays of .npz archives and .npy files: a row for each first index."""

    kind: ClassVar[str] = "numpy"
    reasons: ClassVar[tuple[str, ...]] = (*FILE_REASONS, "other_members", "scalars")

    def tables(self, skips: Skips) -> Mapping[str, Sequence[Table]]:
        """Find the arrays by their headers."""
        return find_tables(self.options, skips)
