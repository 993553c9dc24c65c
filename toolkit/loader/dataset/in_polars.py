"""What polars makes of Arrow's types: those that it has none for, and those that it would take for other values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from toolkit.errors import UsageError

__all__ = ["check_times", "held_type", "refusal"]

_DAY_SECONDS = 86_400
_MOST = 2**63 - 1


def refusal(dtype: pa.DataType) -> str | None:
    """Return why polars can't hold values of a type; None when it can."""
    what = None
    if pa.types.is_decimal256(dtype):
        what = f"polars has no {dtype}, decimals of more than 38 digits"
    elif pa.types.is_decimal(dtype) and not 0 <= dtype.scale <= dtype.precision:
        what = f"polars has no {dtype}, a decimal of that scale"
    elif pa.types.is_interval(dtype):
        what = f"polars has no {dtype}, intervals of months"
    elif pa.types.is_fixed_size_list(dtype) and dtype.list_size == 0:
        what = f"polars has no {dtype}, lists of no values"
    elif pa.types.is_struct(dtype) and dtype.num_fields == 0:
        what = f"polars has no {dtype}, structs of nothing"
    return what or next(filter(None, map(refusal, _parts(dtype))), None)


def held_type(dtype: pa.DataType) -> pa.DataType:
    """Return the type with wide decimals for narrow ones: within lists and structs polars mistakes these."""
    if pa.types.is_decimal(dtype):
        return pa.decimal128(dtype.precision, dtype.scale)
    if pa.types.is_struct(dtype):
        return pa.struct([child.with_type(held_type(child.type)) for child in dtype])
    if pa.types.is_map(dtype) or not dtype.num_fields:
        return dtype
    item = dtype.value_field.with_type(held_type(dtype.value_type))
    if pa.types.is_fixed_size_list(dtype):
        return pa.list_(item, dtype.list_size)
    return pa.large_list(item) if pa.types.is_large_list(dtype) else pa.list_(item)


def _parts(dtype: pa.DataType) -> Iterator[pa.DataType]:
    yield from (dtype.field(i).type for i in range(dtype.num_fields))


def check_times(name: str, arrays: Sequence[pa.Array]) -> None:
    """Raise UsageError for what polars would make another time of: it has neither seconds nor times beyond a day."""
    for array in arrays:
        dtype = array.type
        if pa.types.is_struct(dtype):
            check_times(name, array.flatten())
        elif dtype.num_fields:
            check_times(name, [array.flatten()])
        elif getattr(dtype, "unit", "") == "s" and (pa.types.is_timestamp(dtype) or pa.types.is_duration(dtype)):
            _check_range(name, array.view(pa.int64()), -(_MOST // 1000), _MOST // 1000)
        elif pa.types.is_time(dtype):
            ticks = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[dtype.unit] * _DAY_SECONDS
            _check_range(name, array.view(pa.int32() if dtype.bit_width == 32 else pa.int64()), 0, ticks - 1)


def _check_range(name: str, values: pa.Array, least: int, most: int) -> None:
    bounds: dict[str, Any] = pc.min_max(values).as_py()
    if bounds["min"] is not None and not least <= bounds["min"] <= bounds["max"] <= most:
        raise UsageError(f"column {name!r} has a time that polars can't hold. Leave it out")
