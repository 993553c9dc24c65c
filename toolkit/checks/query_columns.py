"""The columns that a query sees: what each is read from, its type in polars, and how Arrow's values become polars'."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.errors import CorruptTableError, UsageError
from toolkit.format.manifest import Manifest
from toolkit.format.schema import DIGEST, KEY, Kind, stored_order
from toolkit.loader.dataset.in_polars import check_times, held_type, refusal

if TYPE_CHECKING:
    import polars as pl

__all__ = ["ROWS", "Meaning", "QueryColumn", "columns_of", "polars_type", "series_of", "split_column"]


class Meaning(enum.Enum):
    """What the values of a column are."""

    STORED = "what is stored"
    NAMES = "the names of the stored class ids"
    SPLIT = "the name of the sample's split"
    NOTHING = "null: only rows are counted"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryColumn:
    """A column of a table of a query.

    Attributes:
        name: What queries call it.
        stored: The column of shards that it is read from; None: nothing is read.
        type: The Arrow type of that one.
        meaning: What its values are.
        names: The class names.
        in_star: Whether * stands for it too.
        large: Whether it is left out of * for its size; whoever asks is told.
    """

    name: str
    stored: str | None = None
    type: pa.DataType | None = None
    meaning: Meaning = Meaning.STORED
    names: tuple[str, ...] = ()
    in_star: bool = True
    large: bool = False

    @property
    def refusal(self) -> str | None:
        """Why polars can't hold its values; None when it can."""
        return None if self.type is None else refusal(self.type)


ROWS = QueryColumn(name="__rows__", meaning=Meaning.NOTHING, in_star=False)
"""Stands in a table of which no column is named: count(*) reads nothing."""


def columns_of(manifest: Manifest, schema: pa.Schema, classes: dict[str, tuple[str, ...]]) -> list[QueryColumn]:
    """Return the columns of a split: the key, the dataset's own, then the digest, derived ones and class ids."""
    known = {column.name for column in manifest.columns}
    types = {name: schema.field(name).type for name in schema.names}
    large = set(stored_order(manifest.columns, types)[2])
    made = [QueryColumn(name=KEY, stored=KEY, type=types[KEY])]
    ids = []
    for column in manifest.columns:
        name = column.name
        names = classes.get(name)
        meaning = Meaning.STORED if names is None else Meaning.NAMES
        # Ids in lists are as small as their names are: what finds objects in pictures is asked for by them.
        is_large = name in large and column.kind is not Kind.LABEL
        made.append(
            QueryColumn(
                name=name,
                stored=name,
                type=types[name],
                meaning=meaning,
                names=names or (),
                in_star=not is_large,
                large=is_large,
            )
        )
        if names is not None:
            free = f"{name}_id" if f"{name}_id" not in known else f"__{name}_id__"
            ids.append(QueryColumn(name=free, stored=name, type=types[name], in_star=False))
    own = [DIGEST, *(one.name for one in manifest.derived)]
    return made + [QueryColumn(name=name, stored=name, type=types[name], in_star=False) for name in own] + ids


def split_column(manifest: Manifest) -> QueryColumn:
    """Return the column with the names of splits: it has a name of its own where the dataset has one called so."""
    known = {column.name for column in manifest.columns}
    return QueryColumn(name="split" if "split" not in known else "__split__", meaning=Meaning.SPLIT)


def polars_type(column: QueryColumn) -> pl.DataType:
    """Return the type of a column in polars. Raises UsageError where there is none."""
    import polars as pl

    match column.meaning:
        case Meaning.SPLIT:
            return pl.String()
        case Meaning.NOTHING:
            return pl.Null()
        case Meaning.NAMES:
            return pl.String() if column.type == pa.int64() else pl.List(pl.String)
    if column.refusal is not None:
        raise UsageError(f"column {column.name!r} can't be queried: {column.refusal}. Leave it out")
    try:
        return pl.Series("", pa.nulls(0, held_type(column.type))).dtype  # pa.array() of a list would import pandas
    except pl.exceptions.PolarsError as error:  # a time zone that nobody knows
        reason = str(error).partition("\n")[0]
        raise UsageError(f"column {column.name!r} can't be queried: {reason} Leave it out") from error


def series_of(column: QueryColumn, arrays: Sequence[pa.Array], rows: int, split: str) -> pl.Series:
    """Return the values of some rows; `arrays` are those of the stored column, one after the other.

    Raises:
        CorruptTableError: An id is that of no class.
        UsageError: A time is beyond what polars can hold.
    """
    import polars as pl

    if column.meaning is Meaning.NOTHING:
        return pl.Series(column.name, [None], pl.Null).new_from_index(0, rows)
    if column.meaning is Meaning.SPLIT:
        return pl.Series(column.name, [split], pl.String).new_from_index(0, rows)
    values = pa.chunked_array(arrays, column.type)
    if column.meaning is Meaning.NAMES:
        return _named(column, values)
    check_times(column.name, arrays)
    held = held_type(values.type)
    return pl.Series(column.name, values if held == values.type else values.cast(held))


def _named(column: QueryColumn, values: pa.ChunkedArray) -> pl.Series:
    import polars as pl

    if pa.types.is_int64(column.type):
        _check_ids(column, values)
        if not column.names:
            return pl.Series(column.name, [None], pl.String).new_from_index(0, len(values))
        return pl.Series(column.name, column.names, pl.String).gather(pl.Series(values)).alias(column.name)
    names = pl.Series(column.names, dtype=pl.String).to_arrow()
    lists = []
    for array in values.chunks:
        ids = array.flatten()  # none of those under a null
        _check_ids(column, ids)
        ends = np.concatenate(([0], np.cumsum(pc.fill_null(array.value_lengths(), 0).to_numpy().astype(np.int64))))
        mask = array.is_null() if array.null_count else None
        offsets = pa.Array.from_buffers(pa.int64(), len(ends), [None, pa.py_buffer(ends)])
        lists.append(pa.LargeListArray.from_arrays(offsets, names.take(ids), mask=mask))
    return pl.Series(column.name, pa.chunked_array(lists, pa.large_list(pa.large_string())))


def _check_ids(column: QueryColumn, ids: pa.ChunkedArray | pa.Array) -> None:
    bounds = pc.min_max(ids).as_py()
    if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < len(column.names):
        wrong = bounds["min"] if bounds["min"] < 0 else bounds["max"]
        raise CorruptTableError(
            f"the dataset contradicts itself: column {column.stored!r} has the id {wrong}, and there are "
            f"{len(column.names)} classes. No copy of it is right: pack again"
        )
