from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from toolkit.pipelines.arrays import array_from_bytes, array_from_list, convert_numbers, read_npy
from toolkit.pipelines.check import DTYPES

NUMBERS = st.sampled_from([np.dtype(name) for name in DTYPES])
PLAIN = hnp.arrays(NUMBERS, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))


def npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version, allow_pickle=True)
    return stream.getvalue()


@settings(deadline=None)
@given(hnp.arrays(NUMBERS, 6), NUMBERS)
def test_what_is_said_to_fit_is_the_same_number(values: np.ndarray, dtype: np.dtype[Any]) -> None:
    if values.dtype.kind == "f" and dtype.kind != "f":
        return  # refused by the rule of the step
    out, bad, _ = convert_numbers(dtype, values)
    for before, after, wrong in zip(values.tolist(), out.tolist(), bad.tolist(), strict=True):
        if dtype.kind in "iu":
            assert wrong == (not np.iinfo(dtype).min <= before <= np.iinfo(dtype).max)
            assert wrong or after == before
        elif dtype.kind == "f":
            assert wrong == (np.isinf(after) and np.isfinite(before))


@settings(deadline=None)
@given(PLAIN, st.booleans(), st.sampled_from("<>"))
def test_npy_round_trip(array: np.ndarray, fortran: bool, order: str) -> None:
    stored = np.asarray(array, order="F" if fortran else "C").astype(array.dtype.newbyteorder(order))
    read = read_npy(npy(stored), array.dtype, array.shape)
    assert read.dtype == array.dtype
    np.testing.assert_array_equal(read, array)
    assert read.flags.writeable


@settings(deadline=None)
@given(st.data())
def test_a_damaged_npy_is_an_error_or_an_array(data: st.DataObject) -> None:
    whole = bytearray(npy(np.arange(6, dtype=np.int32)))
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    with contextlib.suppress(ValueError):
        read_npy(bytes(whole[:cut]), None, None)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (npy(np.arange(3))[:-1], "the header says int64 .3,., and 23 bytes follow"),
        (npy(np.arange(3)) + b"x", "25 bytes follow"),
        (npy(np.array([{}])), "no plain numbers"),
        (npy(np.zeros(2, [("a", "i4")])), "no plain numbers"),
        (b"PK\3\4", "magic string"),
        (b"", "magic string"),
        (npy(np.arange(3.0)), r"it is float64, expected int64: \.npy\('float64', …\)\.cast"),
        (npy(np.arange(4)), r"its shape is \(4,\), expected \(3\)"),
    ],
)
def test_npy_that_is_not_what_was_said(data: bytes, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        read_npy(data, np.dtype(np.int64), (3,))


def test_a_header_that_claims_terabytes_takes_no_memory() -> None:
    whole = npy(np.zeros(10, np.uint8)).replace(b"(10,), }            ", b"(1000000000000,), } ")
    with pytest.raises(ValueError, match=r"uint8 \(1000000000000,\), and \d+ bytes follow"):
        read_npy(whole, None, None)


@settings(deadline=None)
@given(PLAIN.filter(lambda array: array.ndim > 0 and array.size > 0))
def test_bytes_and_lists_become_arrays(array: np.ndarray) -> None:
    raw = array.astype(array.dtype.newbyteorder("<")).tobytes()
    np.testing.assert_array_equal(array_from_bytes(raw, array.dtype, array.shape), array)
    np.testing.assert_array_equal(array_from_bytes(raw, array.dtype, (None, *array.shape[1:])), array)
    np.testing.assert_array_equal(array_from_list(array.tolist(), array.dtype, array.shape), array)
    np.testing.assert_array_equal(array_from_list(array.reshape(-1).tolist(), array.dtype, array.shape), array)


def test_whole_numbers_on_both_sides_of_int64_stay_exact() -> None:
    made = array_from_list([2**63 + 1, 0], np.dtype(np.uint64), (2,))
    assert made.tolist() == [2**63 + 1, 0]


@pytest.mark.parametrize(
    ("value", "dtype", "shape", "says"),
    [
        ([1, None], "int64", (2,), "null inside"),
        (["a"], "int64", (1,), "no number"),
        ([[1], [1, 2]], "int64", (2, 2), "inhomogeneous"),
        ([1, 300], "uint8", (2,), "300 doesn't fit uint8"),
        ([1.5], "int64", (1,), "a list of float64 is no int64"),
        ([2**63, -1], "int64", (2,), "doesn't fit int64"),
        ([2**64, 1], "uint64", (2,), "null inside, or what is no number"),
        ([1, 2, 3], "int64", (2,), r"3 values, expected \(2\)"),
        ([[1, 2, 3]], "int64", (3, 1), r"the shape \(1, 3\), expected \(3, 1\)"),
        ([1, 2, 3], "int64", (None, 2), r"expected \(any, 2\)"),
    ],
)
def test_lists_that_are_no_arrays(value: list[Any], dtype: str, shape: tuple[int | None, ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        array_from_list(value, np.dtype(dtype), shape)


def test_bytes_of_another_length() -> None:
    with pytest.raises(ValueError, match="7 bytes are no whole number of float32"):
        array_from_bytes(b"1234567", np.dtype(np.float32), (2,))
    with pytest.raises(ValueError, match=r"1 values, expected \(2\)"):
        array_from_bytes(b"1234", np.dtype(np.float32), (2,))
