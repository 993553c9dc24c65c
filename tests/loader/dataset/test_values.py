"""Columns of any Arrow type through toolkit.open and a loader."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from format.arrow_values import LEAVES, TYPES, arrays, make_array
from format.pure_reader import PureReader
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keyed_rows import keyed

import toolkit
from toolkit.checks.verify import verify
from toolkit.errors import SampleError


def is_number(dtype: pa.DataType) -> bool:
    return pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_boolean(dtype)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(st.integers(1, 30), st.data())
def test_round_trip(
    tmp_path_factory: pytest.TempPathFactory,
    commit_rows: Callable[..., str],
    rows: int,
    data: st.DataObject,
) -> None:
    root = tmp_path_factory.mktemp("d") / "ds"
    columns = {f"c{i}": data.draw(arrays(TYPES, rows, nan=False)) for i in range(data.draw(st.integers(1, 3)))}
    whole = keyed(columns)
    cut = data.draw(st.integers(0, rows))
    commit_rows(root, {"train": [[whole.slice(0, cut)], [whole.slice(cut)]]}, batch_body_bytes=600)
    expected = whole.to_pylist()
    ds = toolkit.open(root)
    assert [ds[i] for i in range(len(ds))] == expected
    assert [sample["__key__"] for sample in PureReader(root).samples("train")] == ds.keys()
    assert verify(root, full=True, jobs=1).findings == ()
    gaps = [name for name, array in columns.items() if is_number(array.type) and array.null_count]
    if gaps:
        with pytest.raises(SampleError, match="the value is missing"):
            list(ds.loader(batch_size=rows, threads=1))
    names = [name for name in columns if name not in gaps]
    if not names:
        return
    some = toolkit.open(root, columns=names)
    with some.loader(batch_size=7, shuffle="full", threads=2) as loader:
        for batch in loader:
            for name in names:
                values = batch[name]
                if is_number(columns[name].type):
                    assert values.dtype == np.dtype(columns[name].type.to_pandas_dtype())
                    values = values.tolist()
                assert values == [expected[row][name] for row in batch.rows.tolist()]


@pytest.mark.parametrize("dtype", LEAVES, ids=str)
def test_every_leaf_type(tmp_path: Path, commit_rows: Callable[..., str], dtype: pa.DataType) -> None:
    array = make_array(dtype, 12, random.Random(1), 0.0, nan=False)
    commit_rows(tmp_path / "ds", {"train": [[keyed({"x": array})]]})
    ds = toolkit.open(tmp_path / "ds")
    assert [ds[i]["x"] for i in range(12)] == array.to_pylist()
    (batch,) = ds.loader(batch_size=12)
    assert list(batch["x"]) == array.to_pylist()


def test_a_column_named_like_another_columns_child(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    inner = pa.array([{"b": b"inside"}], pa.struct([("b", pa.binary())]))
    beside = pa.array([b"beside"])
    for number, columns in enumerate(({"a": inner, "a.b": beside}, {"a.b": beside, "a": inner})):
        commit_rows(tmp_path / f"{number}", {"train": [[keyed(columns)]]})
        ds = toolkit.open(tmp_path / f"{number}")
        assert ds[0] == {"__key__": "k0", "a": {"b": b"inside"}, "a.b": b"beside"}
        (batch,) = ds.loader(batch_size=1)
        assert dict(batch) == {"a": [{"b": b"inside"}], "a.b": [b"beside"]}
