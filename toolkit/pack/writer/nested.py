"""Look at values before Arrow converts them: it cuts fractions off, takes text for a list, and leaves fields out.

What passes here means the same in the column; the rest, as a number that is too large, Arrow refuses by itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np
import pyarrow as pa

from toolkit.sources.contents import UnfitError

__all__ = ["fitting", "type_name"]

_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_SHOWN = (bool, int, float, str, bytes)
_TIMES = (date, time, timedelta)  # a datetime is a date
_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1, "ns": 1}


def fitting(value: Any, dtype: pa.DataType) -> Any:
    """Return what Arrow makes a value of `dtype` of. Raises UnfitError when it is none."""
    if value is None:
        return None
    if pa.types.is_struct(dtype):
        return _struct(value, dtype)
    if any(is_list(dtype) for is_list in _LISTS):
        if isinstance(value, np.ma.MaskedArray):
            raise UnfitError("a masked array can't be stored: .tolist() gives None for what is masked")
        if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iufb":
            return _numbers(value, dtype.value_type)
        if type(value).__module__.partition(".")[0] == "torch":
            return fitting(_of_torch(value), dtype)
        if not isinstance(value, list | tuple | np.ndarray) or (isinstance(value, np.ndarray) and not value.ndim):
            raise _unfit(value, dtype)
        return [fitting(one, dtype.value_type) for one in value]
    if isinstance(value, np.datetime64 | np.timedelta64):
        return _time(value, dtype)
    if isinstance(value, np.generic):
        value = value.item()
    _check_plain(value, dtype)
    if isinstance(value, _TIMES):
        _check_time(value, dtype)
    return value


def _of_torch(tensor: Any) -> Any:
    try:
        return tensor.detach().cpu().numpy()
    except (AttributeError, TypeError, RuntimeError) as error:  # such as bfloat16, which NumPy hasn't
        raise UnfitError(f"no array that NumPy has: {error}") from error


def type_name(value: object) -> str:
    """Return a value for a message: itself where it is short, else what it is."""
    text = repr(value) if type(value) in _SHOWN else ""
    if text and len(text) <= 80:
        return text
    shape = getattr(value, "shape", None)
    kind = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
    return f"a value of type {kind}" + ("" if shape is None else f" of {' x '.join(map(str, shape)) or 'no axes'}")


def _struct(value: Any, dtype: pa.DataType) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _unfit(value, dtype)
    types = {field.name: field.type for field in dtype}
    for name in value:
        if name not in types:
            raise UnfitError(f"it has {name!r}, which {dtype} hasn't")
    return {name: fitting(value.get(name), of) for name, of in types.items()}


def _numbers(array: np.ndarray[Any, Any], dtype: pa.DataType) -> Any:
    """Return an array of numbers that Arrow converts without changing any."""
    kinds = "iu" if pa.types.is_integer(dtype) else "iuf" if pa.types.is_floating(dtype) else "b"
    if array.dtype.kind not in kinds or not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype)):
        return [fitting(one, dtype) for one in array.tolist()]
    own = np.dtype(dtype.to_pandas_dtype())
    if array.dtype == own:
        return array
    return [fitting(one, dtype) for one in array.tolist()]


def _time(value: Any, dtype: pa.DataType) -> Any:
    unit = "D" if dtype == pa.date32() else getattr(dtype, "unit", None)
    if unit is None or isinstance(value, np.datetime64) == pa.types.is_duration(dtype):
        raise _unfit(value, dtype)
    word = "datetime64" if isinstance(value, np.datetime64) else "timedelta64"
    exact = value.astype(f"{word}[{unit}]")
    if not np.isnat(value) and exact.astype(value.dtype) != value:
        raise UnfitError(f"{value} is no whole number of {unit}, as {dtype} has")
    return exact


def _check_time(value: date | time | timedelta, dtype: pa.DataType) -> None:
    """Refuse what Arrow would cut off: parts of a unit, the time of a day, and a time zone."""
    if isinstance(value, datetime) and (pa.types.is_date32(dtype) or pa.types.is_date64(dtype)):
        raise UnfitError(f"{value} is a date with a time, and no {dtype}: give its .date()")
    unit = getattr(dtype, "unit", None)
    if unit in _MICROSECONDS:
        part = value.microseconds if isinstance(value, timedelta) else getattr(value, "microsecond", 0)
        if part % _MICROSECONDS[unit] or (unit != "ns" and getattr(value, "nanosecond", 0)):  # pandas has nanoseconds
            raise UnfitError(f"{value} is no whole number of {unit}, as {dtype} has")
    zone, has_zone = getattr(dtype, "tz", None), getattr(value, "tzinfo", None) is not None
    if has_zone and zone is None:
        raise UnfitError(f"{value} has a time zone, and {dtype} has none")
    if zone is not None and not has_zone:
        raise UnfitError(f"{value} has no time zone, and {dtype} has one: say which it is in")


def _check_plain(value: Any, dtype: pa.DataType) -> None:
    if pa.types.is_integer(dtype):
        fits = isinstance(value, int) and not isinstance(value, bool)
    elif pa.types.is_floating(dtype):
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if isinstance(value, float) and math.isfinite(value):
            with np.errstate(over="ignore"):
                fits = fits and bool(np.isfinite(np.dtype(dtype.to_pandas_dtype()).type(value)))
    elif pa.types.is_boolean(dtype):
        fits = isinstance(value, bool)
    elif dtype in (pa.string(), pa.large_string()):
        fits = isinstance(value, str)
    elif dtype in (pa.binary(), pa.large_binary()) or pa.types.is_fixed_size_binary(dtype):
        fits = isinstance(value, bytes | bytearray | memoryview)
    elif pa.types.is_timestamp(dtype) or pa.types.is_duration(dtype):
        of = timedelta if pa.types.is_duration(dtype) else datetime
        fits = isinstance(value, of) or type(value) is int  # so many of its units
    elif pa.types.is_time(dtype):
        fits = isinstance(value, time)
    elif pa.types.is_date(dtype):
        fits = isinstance(value, date)
    else:
        fits = not isinstance(value, bool | float)
    if not fits:
        raise _unfit(value, dtype)


def _unfit(value: object, dtype: pa.DataType) -> UnfitError:
    return UnfitError(f"{type_name(value)} is no {dtype}")
