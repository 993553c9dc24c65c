"""Finish rows for shards. As a rule that is to add derived columns: what is known of media without decoding them.

A step between shape and shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from toolkit.format.schema import Column, Derived
from toolkit.pipelines.media import medium_of
from toolkit.sources.in_place import Places

__all__ = ["STATS", "AsTheyAre", "Deriver", "Finisher"]

STATS = "__stats__"
"""The column of a shard's .stat file, while rows are on their way to it: as many bytes a row as that has."""


class Finisher(Protocol):
    """What makes rows what their shards hold. Used by every packing thread at once."""

    def finished(self, rows: pa.RecordBatch, places: Mapping[str, Places]) -> pa.RecordBatch:
        """Return the rows as they are stored, with derived columns behind the others.

        `places` are those of the rows. What is kept beside shards (toolkit.format.unhashed) is the column STATS.
        """


class Deriver:
    """Makes the derived columns of rows as they are stored. Used by every packing thread at once."""

    def __init__(self, columns: Sequence[Column], derived: Sequence[Derived]) -> None:
        """`derived` is derived_of(columns)."""
        media = {column.name: medium for column in columns if (medium := medium_of(column.kind)) is not None}
        names = {name: [one.name for one in derived if one.of == name] for name in media}
        self._made = [(name, media[name], made) for name, made in names.items() if made]

    def finished(self, rows: pa.RecordBatch, places: Mapping[str, Places]) -> pa.RecordBatch:
        """Return the rows with their derived columns."""
        return self.added(rows)

    def added(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows with their derived columns behind the others."""
        arrays, names = list(batch.columns), list(batch.schema.names)
        for name, medium, made in self._made:
            arrays += medium.derive(batch.column(name))
            names += made
        return pa.RecordBatch.from_arrays(arrays, names=names)


class AsTheyAre:
    """Leaves rows as they are: a first pass has finished them."""

    def finished(self, rows: pa.RecordBatch, places: Mapping[str, Places]) -> pa.RecordBatch:
        """Return the rows."""
        return rows
