"""Values are what their column stores, or refused: Arrow cuts off what it has no room for."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from toolkit.pack.writer.nested import fitting
from toolkit.sources.contents import UnfitError

NOON = datetime(2020, 1, 2, 12, 0, 0, 7000)


@pytest.mark.parametrize(
    ("value", "dtype", "says"),
    [
        (NOON, pa.timestamp("s"), "2020-01-02 12:00:00.007000 is no whole number of s"),
        ([NOON + timedelta(microseconds=1)], pa.list_(pa.timestamp("ms")), "is no whole number of ms"),
        (timedelta(microseconds=1), pa.duration("ms"), "is no whole number of ms"),
        (time(1, 2, 3, 4), pa.time32("s"), "01:02:03.000004 is no whole number of s"),
        (NOON, pa.date32(), "is a date with a time, and no date32"),
        (NOON, pa.date64(), "is a date with a time, and no date64"),
        (NOON.replace(tzinfo=UTC), pa.timestamp("us"), "has a time zone, and timestamp.us. has none"),
        (NOON, pa.timestamp("us", "Europe/Berlin"), "has no time zone, and timestamp.us, tz=Europe/Berlin. has one"),
        (np.ma.array([1, 2], mask=[0, 1]), pa.list_(pa.int64()), "a masked array"),
        (Decimal("1.5"), pa.timestamp("us"), "is no timestamp"),
        (Decimal("1.5"), pa.duration("us"), "is no duration"),
        (2**62, pa.time64("us"), "is no time64"),
        (65520, pa.date64(), "is no date64"),
        (torch.zeros(2, dtype=torch.bfloat16), pa.list_(pa.float32()), "no array that NumPy has"),
        ([[1], 2], pa.list_(pa.list_(pa.int64())), "2 is no list<item: int64>"),
        (np.array(1), pa.list_(pa.int64()), "is no list<item: int64>"),
        (time(1, tzinfo=UTC), pa.time64("us"), "has a time zone, and time64.us. has none"),
    ],
)
def test_what_arrow_would_change_is_refused(value: Any, dtype: pa.DataType, says: str) -> None:
    with pytest.raises(UnfitError, match=says):
        fitting(value, dtype)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (NOON, pa.timestamp("ms")),
        (NOON, pa.timestamp("ns")),
        (NOON.replace(tzinfo=UTC), pa.timestamp("us", "UTC")),
        (timedelta(days=-1, milliseconds=5), pa.duration("ms")),
        (time(1, 2, 3, 4), pa.time64("us")),
        (date(2020, 1, 2), pa.date32()),
        ([[1], [], [2, 3]], pa.list_(pa.list_(pa.int64()))),
        ([[[1]], [[2, 3]]], pa.list_(pa.list_(pa.list_(pa.float32())))),
        (date(2020, 1, 2), pa.date64()),
    ],
)
def test_what_fits_comes_back(value: Any, dtype: pa.DataType) -> None:
    back = pa.array([fitting(value, dtype)], dtype)[0].as_py()
    assert (back.to_pydatetime() if hasattr(back, "to_pydatetime") else back) == value
