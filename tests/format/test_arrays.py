"""Arrays by their buffers are what pyarrow makes of the same values, and need no pandas."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import make_folder

from toolkit.format.arrays import numbers, to_array, truths, valid_rows, value_offsets

VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.binary(): st.binary(max_size=9),
    pa.string(): st.text(max_size=9),
    pa.large_binary(): st.binary(max_size=9),
    pa.large_string(): st.text(max_size=9),
    pa.bool_(): st.booleans(),
    pa.binary(3): st.binary(min_size=3, max_size=3),
}


def values_of(dtype: pa.DataType) -> st.SearchStrategy[Any]:
    if pa.types.is_struct(dtype):
        return st.fixed_dictionaries({field.name: st.none() | values_of(field.type) for field in dtype})
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return st.lists(st.none() | values_of(dtype.value_type), max_size=4)
    if pa.types.is_fixed_size_list(dtype):
        return st.lists(st.none() | values_of(dtype.value_type), min_size=dtype.list_size, max_size=dtype.list_size)
    return VALUES[dtype]


TYPES = st.recursive(
    st.sampled_from(list(VALUES)),
    lambda inner: st.one_of(
        st.builds(pa.list_, inner),
        st.builds(pa.large_list, inner),
        st.builds(pa.list_, inner, st.sampled_from([1, 4])),
        st.lists(inner, min_size=1, max_size=3).map(
            lambda types: pa.struct([(f"f{i}", t) for i, t in enumerate(types)])
        ),
    ),
    max_leaves=4,
)


@settings(deadline=None)  # the first array of pyarrow imports pandas
@given(st.data(), TYPES, st.booleans())
def test_the_same_array_as_pyarrow_makes(data: st.DataObject, dtype: pa.DataType, nulls: bool) -> None:
    one = st.none() | values_of(dtype) if nulls else values_of(dtype)
    values = data.draw(st.lists(one, max_size=12))
    array, theirs = to_array(values, dtype), pa.array(values, dtype)
    array.validate(full=True)
    assert array.type == dtype
    assert repr(array.to_pylist()) == repr(theirs.to_pylist())  # repr: NaN is no other NaN's equal
    assert array.null_count == theirs.null_count


@given(st.lists(st.none() | st.booleans(), max_size=40), st.integers(0, 12))
def test_bits_of_a_sliced_array(values: list[bool | None], start: int) -> None:
    array = pa.array(values, pa.bool_()).slice(min(start, len(values)))
    left = values[start:]
    assert truths(array).tolist() == [bool(value) for value in left]
    assert valid_rows(array).tolist() == [value is not None for value in left]


def test_numbers_and_offsets_of_a_sliced_array() -> None:
    assert numbers(pa.array([1, 2, 3, 4], pa.int64()).slice(1, 2)).tolist() == [2, 3]
    assert value_offsets(pa.array(["a", "bc", "d"]).slice(1)).tolist() == [1, 3, 4]
    assert value_offsets(pa.array([[1], [2, 3]], pa.large_list(pa.int64()))).dtype == np.int64
    assert valid_rows(pa.nulls(2)).tolist() == [False, False]


def test_text_may_come_as_its_bytes_and_must_be_text() -> None:
    assert to_array(["é", "é".encode(), None], pa.string()).to_pylist() == ["é", "é", None]
    for bad in (b"\xff", "\udcff"):
        with pytest.raises(UnicodeError):
            to_array([bad], pa.string())


def test_offsets_that_do_not_fit_are_an_error() -> None:
    huge = memoryview(np.zeros(2**20, np.uint8))
    with pytest.raises(pa.ArrowCapacityError, match="int32"):
        to_array([huge] * 2048, pa.binary())


def test_a_pack_and_its_opening_import_no_pandas(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    make_folder(tmp_path / "src", {"train/ant": 3, "val/ant": 2})
    code = textwrap.dedent(
        """
        import sys
        import toolkit
        from toolkit.pack.job import PackJob
        from toolkit.pack.run import pack
        pack(PackJob(source=sys.argv[1], dataset=sys.argv[2]))
        assert "pandas" not in sys.modules
        assert len(list(toolkit.open(sys.argv[2], split="train"))) == 3
        assert "pandas" not in sys.modules
        """
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "src"), str(tmp_path / "ds")], check=True, timeout=60)
