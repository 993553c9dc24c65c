"""Where the files that rows name lie, for media that stay there: a file is a value as a whole."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.arrays import bool_array
from toolkit.sources.in_place import Places, check_place
from toolkit.sources.options import PlacesWanted
from toolkit.sources.path_arrays import base_names, below
from toolkit.sources.tables.paths import Files, Root
from toolkit.sources.tables.plan import Plan, is_media
from toolkit.sources.tables.rows import LoadedFiles

__all__ = ["check_media_are_files", "places_of", "unread_files", "without_values"]


def check_media_are_files(plan: Plan, roots: Iterable[Root]) -> None:
    """Raise SourceError when a medium of the plan is no file, or may be none, or its folder's path is no text."""
    if plan.fetches:
        raise SourceError("--fetch-urls: what is fetched lies nowhere, so it can't stay there: pack it")
    for column in plan.columns:
        if is_media(column) and column.field not in plan.files:
            raise SourceError(
                f"the values of column {column.column.name!r} lie in no files of their own, so they can't stay where "
                "they are: pack it, or leave the column out with --columns"
            )
    for root in roots:
        check_place(root.folder)


def unread_files(plan: Plan, wanted: PlacesWanted) -> frozenset[str]:
    """Return the fields of paths whose files aren't read, since nothing but media is made of them."""
    if wanted is not PlacesWanted.ONLY:
        return frozenset()
    others = {column.field for column in plan.columns if not is_media(column)}
    return frozenset(plan.files) - others


def places_of(loaded: LoadedFiles, files: Files, kept: NDArray[np.bool_]) -> Places:
    """Return where the files of those rows of a batch lie that are kept."""
    there = bool_array(loaded.there[kept])
    paths = pc.fill_null(loaded.paths.filter(bool_array(kept)), "")
    nothing = pa.nulls(1, pa.string())[0]
    found = files[kept]
    return Places(
        pc.if_else(there, below(files.root, paths), nothing),
        np.zeros(len(found), np.int64),
        found.sizes,
        found.sizes,
        found.mtimes_ns,
        pc.if_else(there, base_names(paths), nothing),
    )


def without_values(batch: pa.RecordBatch, name: str) -> pa.RecordBatch:
    """Return the rows with nulls in one column."""
    at = batch.schema.get_field_index(name)
    field = batch.schema.field(at)
    return batch.set_column(at, field, pa.nulls(batch.num_rows, field.type))
