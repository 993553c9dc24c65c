"""Rows of a view as tables of other libraries: Arrow, polars, pandas, Hugging Face datasets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from toolkit.errors import UsageError
from toolkit.format.schema import is_list_of_ids
from toolkit.loader.dataset.in_polars import check_times, held_type, refusal
from toolkit.loader.dataset.opened import Stored
from toolkit.loader.dataset.tables import held_by, packed_form

if TYPE_CHECKING:
    import polars as pl

__all__ = ["with_class_names", "with_features", "with_pandas", "with_polars"]

_NULLABLE = {
    pa.int8(): "Int8",
    pa.int16(): "Int16",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint8(): "UInt8",
    pa.uint16(): "UInt16",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
    pa.bool_(): "boolean",
}


def with_class_names(stored: Stored, read: pa.Table) -> pa.Table:
    """Return the table with labels as Arrow dictionaries: the ids are the indices, the class names their values."""
    for place, name in enumerate(read.column_names):
        if _is_label(stored, name):
            names = pa.array(stored.classes[name], pa.string())
            ids = [_checked_ids(name, chunk, len(names)) for chunk in read[name].chunks]
            dtype = pa.dictionary(pa.int32(), pa.string())
            chunks = [pa.DictionaryArray.from_arrays(chunk, names) for chunk in ids]
            read = read.set_column(place, pa.field(name, dtype), pa.chunked_array(chunks, dtype))
    return read


def with_polars(stored: Stored, read: pa.Table) -> pl.DataFrame:
    """Return a polars frame, labels as an Enum of the class names: to_physical() gives the ids."""
    import polars as pl

    for name in read.column_names:
        _check_polars_can(name, read[name])
    held = {name: read[name].cast(held_type(read[name].type)) for name in read.column_names}
    frame = pl.DataFrame({name: _series(name, column) for name, column in held.items()})
    for name in read.column_names:
        if _is_label(stored, name):
            for chunk in read[name].chunks:
                _checked_ids(name, chunk, len(stored.classes[name]))
            names = stored.classes[name]
            labels = pl.Series(name, names, dtype=pl.Enum(names))
            frame = frame.with_columns(labels.gather(frame[name]))
    return frame


def with_pandas(stored: Stored, read: pa.Table) -> Any:
    """Return a pandas frame, labels as categories: .cat.codes gives the ids, -1 where there is none.

    Whole numbers and bools of which some are missing have pandas' nullable types: as floats, large ones would change.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise _not_installed("to_pandas", "pandas") from error
    named = with_class_names(stored, read)
    columns = {}
    for name in named.column_names:
        column = named[name]
        nullable = _NULLABLE.get(column.type) if column.null_count else None
        mapped = {} if nullable is None else {column.type: pd.api.types.pandas_dtype(nullable)}
        try:
            columns[name] = column.to_pandas(types_mapper=mapped.get)
        except (pa.ArrowException, ValueError, OverflowError) as error:  # times that Python has none for
            raise UsageError(f"to_pandas: column {name!r}, {column.type}: {error}. Leave it out") from error
    return pd.DataFrame(columns, index=pd.RangeIndex(len(read)))


def with_features(stored: Stored, read: pa.Table) -> Any:
    """Return a dataset of Hugging Face `datasets`: labels as ClassLabel, images as Image."""
    try:
        import datasets
        from datasets.table import InMemoryTable
    except ImportError as error:
        raise _not_installed("to_hf", "datasets") from error
    try:
        features = datasets.Features.from_arrow_schema(read.schema.remove_metadata())
    except ValueError as error:
        raise UsageError(f"to_hf: {error} Leave that column out, or take to_arrow()") from error
    for name in read.column_names:
        held = held_by(stored, name)
        feature = None if held is None else packed_form(held).feature
        if feature is not None:
            features[name] = getattr(datasets, feature)()
        elif _is_label(stored, name):
            for chunk in read[name].chunks:
                _checked_ids(name, chunk, len(stored.classes[name]))
            features[name] = datasets.ClassLabel(names=list(stored.classes[name]))
        elif name in stored.classes:
            is_large = pa.types.is_large_list(read.schema.field(name).type)
            of_lists = getattr(datasets, "LargeList" if is_large else "List", datasets.Sequence)
            features[name] = of_lists(datasets.ClassLabel(names=list(stored.classes[name])))
    table = read.replace_schema_metadata().cast(features.arrow_schema)
    return datasets.Dataset(InMemoryTable(table), info=datasets.DatasetInfo(features=features))


def _check_polars_can(name: str, column: pa.ChunkedArray) -> None:
    reason = refusal(column.type)
    if reason is not None:
        raise UsageError(f"to_polars: column {name!r}: {reason}. Leave it out, or take to_arrow()")
    check_times(name, column.chunks)


def _series(name: str, column: pa.ChunkedArray) -> pl.Series:
    import polars as pl

    try:
        return pl.Series(name, pl.from_arrow(column))
    except pl.exceptions.PolarsError as error:  # a time zone that it doesn't know
        reason = str(error).partition("\n")[0]
        raise UsageError(f"to_polars: column {name!r}: {reason} Leave it out, or take to_arrow()") from error


def _is_label(stored: Stored, name: str) -> bool:
    return name in stored.classes and not is_list_of_ids(stored.schema.field(name).type)


def _checked_ids(column: str, ids: pa.Array, classes: int) -> pa.Array:
    """Return ids as int32. Raises UsageError: one is none of the classes'."""
    bounds = pc.min_max(ids).as_py()
    if bounds["min"] is not None and not 0 <= bounds["min"] <= bounds["max"] < classes:
        raise UsageError(
            f"column {column} has ids from {bounds['min']} to {bounds['max']}, and there are {classes} classes: "
            "pack it again"
        )
    return ids.cast(pa.int32())


def _not_installed(call: str, package: str) -> UsageError:
    return UsageError(f"{call} needs {package}, which isn't installed: pip install {package}")
