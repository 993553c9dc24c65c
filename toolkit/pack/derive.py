"""Add derived columns to rows: what is known of their media without decoding them. A step between shape and shards."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from toolkit.format.schema import Column, Derived
from toolkit.pipelines.media import medium_of

__all__ = ["Deriver"]


class Deriver:
    """Makes the derived columns of rows as they are stored. Used by every packing thread at once."""

    def __init__(self, columns: Sequence[Column], derived: Sequence[Derived]) -> None:
        """`derived` is derived_of(columns)."""
        media = {column.name: medium for column in columns if (medium := medium_of(column.kind)) is not None}
        names = {name: [one.name for one in derived if one.of == name] for name in media}
        self._made = [(name, media[name], made) for name, made in names.items() if made]

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with their derived columns behind the others."""
        arrays, names = list(batch.columns), list(batch.schema.names)
        for name, medium, made in self._made:
            arrays += medium.derive(batch.column(name))
            names += made
        return pa.RecordBatch.from_arrays(arrays, names=names)
