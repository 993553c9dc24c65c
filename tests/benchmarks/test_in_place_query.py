"""The comparison of queries with polars alone runs with few rows, and finds answers that differ."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import in_place_query
from turns import BenchmarkError


def test_sides_are_measured(tmp_path: Path) -> None:
    (case,) = in_place_query.measure(rows=300, cases=("group",), repeats=1, work=tmp_path)
    assert case.name == "group"
    assert [len(each) for each in case.seconds.values()] == [1, 1]


def test_what_cannot_be_measured() -> None:
    with pytest.raises(BenchmarkError, match="there is no case 'sort'"):
        in_place_query.measure(cases=("sort",))
    with pytest.raises(BenchmarkError, match="at least 1"):
        in_place_query.measure(rows=0)
