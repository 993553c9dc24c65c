"""A column of a view as training code takes it: a numpy array of numbers, or a list of anything else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.escapes import short
from toolkit.format.schema import is_scalar
from toolkit.format.values import python_values
from toolkit.loader.dataset.opened import Stored
from toolkit.loader.dataset.samples import Samples
from toolkit.loader.dataset.tables import held_by, missing_error, read_column

__all__ = ["UNSET", "column_values"]

_SHOWN = 80  # characters of a value that an error shows


class _Unset:
    def __repr__(self) -> str:
        return "an error"


UNSET: Any = _Unset()
"""What stands for "say which samples have no value"."""


def column_values(
    stored: Stored, column: str, rows: NDArray[np.int64] | None, missing: Any, media: bool
) -> NDArray[Any] | list[Any]:
    """Return the values of a stored column at rows, or at all where `rows` is None.

    Raises:
        UsageError: It holds a medium and `media` is false, or `missing` is no value of that type.
        SampleError: A number is missing, and `missing` isn't given.
        CorruptShardError: A value isn't what was packed.
    """
    held = held_by(stored, column)
    if held is not None:
        if not media:
            raise UsageError(
                f"column {column} holds {held.medium.stored.plural}, and all of them would be in memory at once: "
                f"column({column!r}, media=True) if they are to be, or ds[i][{column!r}] one by one"
            )
        reader = Samples(stored.fetcher, stored.schema, [one for one in stored.columns if one.name == column])
        every = range(stored.rows) if rows is None else rows.tolist()
        return [_or(missing, reader.read(row)[column]) for row in every]
    read = read_column(stored, column, rows)
    if not is_scalar(read.type):
        return [_or(missing, value) for value in python_values(read)]
    if read.null_count:
        read = _filled(stored, column, rows, read, missing)
    return np.asarray(read.to_numpy())


def _or(missing: Any, value: Any) -> Any:
    return missing if value is None and missing is not UNSET else value


def _filled(
    stored: Stored, column: str, rows: NDArray[np.int64] | None, read: pa.ChunkedArray, missing: Any
) -> pa.ChunkedArray:
    if missing is UNSET:
        instead = f", or say what stands for them: column({column!r}, missing=-1)"
        raise missing_error(stored, column, rows, read, instead)
    try:
        value = pa.scalar(missing, read.type)
        if pa.types.is_integer(read.type) and value.as_py() not in (None, missing):
            raise ValueError(f"{missing} would become {value}")
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UsageError(
            f"column {column} has values of type {read.type}: {short(missing, _SHOWN, quoted=True)} can't stand for "
            "those that are missing"
        ) from error
    if not value.is_valid:
        raise UsageError(f"column {column} is an array of {read.type}, which can't hold None: missing takes a number")
    return pc.if_else(pc.is_valid(read), read, value)
