"""Sort rows by columns: stable, what is missing last."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.format.schema import KEY, is_scalar
from toolkit.loader.dataset.in_polars import refusal
from toolkit.loader.dataset.naming import checked_names
from toolkit.loader.dataset.opened import Stored
from toolkit.loader.dataset.tables import held_by, read_table

__all__ = ["sorted_places"]

_ROW = "row"
_MOST_ROWS = (1 << 32) - 2  # what polars numbers


def sorted_places(
    stored: Stored, rows: NDArray[np.int64] | None, by: str | Sequence[str], descending: bool | Sequence[bool]
) -> NDArray[np.int64]:
    """Return the places of rows, in the order of columns: int64; of all rows where `rows` is None.

    Raises:
        UsageError: A column can't be sorted by, or `descending` fits none.
        NotFoundError: There is no such column.
        CorruptShardError: A value isn't what was packed.
    """
    names = checked_names("sort", [by] if isinstance(by, str) else by, stored.schema, own=(KEY,))
    down: list[bool] = []
    if isinstance(descending, bool):
        down = [descending] * len(names)
    elif isinstance(descending, (list, tuple)):
        down = list(descending)
    if not names or len(down) != len(names) or not all(isinstance(one, bool) for one in down):
        raise UsageError("sort takes a column or several, and descending= is True, False or a list with one for each")
    for name in names:
        _check_sortable(stored, name)
    read = read_table(stored, names, rows)
    if len(read) > _MOST_ROWS:
        raise UsageError(f"sort: {len(read):,} rows are more than can be sorted at once: sort views of them")
    return _order(read, down)


def _check_sortable(stored: Stored, name: str) -> None:
    dtype = stored.schema.field(name).type
    is_time = pa.types.is_temporal(dtype) and not pa.types.is_interval(dtype)
    is_text = dtype in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    if held_by(stored, name) is not None or not (is_scalar(dtype) or is_text or is_time or pa.types.is_decimal(dtype)):
        raise UsageError(f"sort: column {name} holds {dtype}, which has no order: numbers, texts and times have one")


def _order(read: pa.Table, down: Sequence[bool]) -> NDArray[np.int64]:
    import polars as pl

    columns: dict[str, pl.Series] = {}
    turned: list[bool] = []
    for name, is_down in zip(read.column_names, down, strict=True):
        column = read[name]
        key = str(len(columns))
        if pa.types.is_floating(column.type):
            # NaN stands above all numbers; negated it still does, and so comes behind them either way.
            numbers = pl.Series(key, pl.from_arrow(column.cast(pa.float64())))
            columns[key] = -numbers if is_down else numbers
            turned.append(False)
        else:
            columns[key] = pl.Series(key, pl.from_arrow(_comparable(column)))
            turned.append(is_down)
    frame = pl.DataFrame(columns).lazy().with_row_index(_ROW)
    # By the lazy engine, which takes half as long as the eager one does.
    order = frame.sort(list(columns), descending=turned, nulls_last=True, maintain_order=True).select(_ROW).collect()
    return order[_ROW].to_numpy().astype(np.int64)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values that polars compares as it would those, had it their type."""
    dtype = column.type
    if pa.types.is_temporal(dtype):  # it has neither seconds, nor times beyond a day, nor all time zones
        plain = pa.int32() if dtype.bit_width == 32 else pa.int64()
        return pa.chunked_array([chunk.view(plain) for chunk in column.chunks], plain)
    if refusal(dtype) is not None:  # decimals: it has those of 38 digits
        ranks = pc.rank(column, tiebreaker="dense")
        return pa.chunked_array([pc.if_else(column.combine_chunks().is_valid(), ranks, None)])
    return column
