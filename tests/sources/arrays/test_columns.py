"""What a row of an array is stored as: the values are NumPy's own, whatever their type, order and bytes."""

from __future__ import annotations

import io
import pickle
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis.extra import numpy as hnp

from toolkit.errors import UsageError
from toolkit.format.kinds import Kind
from toolkit.sources.arrays.columns import ArrayColumn, TypeWords, UnfitTypeError, columns_of


def one(array: np.ndarray[Any, Any], asked: Kind | None = None) -> ArrayColumn:
    (column,) = columns_of("x", array.dtype, array.shape[1:], {} if asked is None else {"x": asked}, TypeWords())
    assert column.field == "x"
    return pickle.loads(pickle.dumps(column))


def values(array: np.ndarray[Any, Any], asked: Kind | None = None) -> pa.Array:
    column = one(array, asked)
    made = column.values(array)
    made.validate(full=True)
    assert made.type == column.type
    assert len(made) == len(array)
    return made


def loaded(made: pa.Array) -> np.ndarray[Any, Any]:
    return np.stack([np.load(io.BytesIO(data), allow_pickle=False) for data in made.to_pylist()])


NUMBERS = [
    "?",
    "i1",
    "u1",
    "<i2",
    ">i2",
    "<u2",
    "<i4",
    ">i4",
    "<u4",
    "<i8",
    ">u8",
    "<f2",
    ">f2",
    "<f4",
    ">f4",
    "<f8",
    ">f8",
]


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 1)])
def test_numbers_keep_type_and_value(dtype: str, shape: tuple[int, ...]) -> None:
    array = (np.arange(np.prod(shape)).reshape(shape) % 7).astype(dtype)
    made = values(array)
    assert made.to_pylist() == array.tolist()
    native = array.dtype.newbyteorder("=")
    expected = pa.from_numpy_dtype(native)
    assert made.type == (expected if len(shape) == 1 else pa.list_(expected, shape[1]))


@pytest.mark.parametrize("dtype", [*NUMBERS, "<c8", ">c16"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_more_axes_are_tensors_of_that_type_and_shape(dtype: str, order: Any) -> None:
    array = np.asarray((np.arange(4 * 2 * 3 * 2).reshape(4, 2, 3, 2) % 5).astype(dtype), order=order)
    assert one(array).kind is Kind.TENSOR
    found = loaded(values(array))
    assert found.dtype == array.dtype.newbyteorder("<")
    assert np.array_equal(found, array)
    # Whatever the machine's order and NumPy's version, the same bytes.
    file = io.BytesIO()
    np.save(file, np.ascontiguousarray(array[0], array.dtype.newbyteorder("<")))
    assert values(array)[0].as_py() == file.getvalue()


@given(hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4)))
def test_values_are_numpy_s_own_or_refused(array: np.ndarray[Any, Any]) -> None:
    made = None
    refusals = ""
    try:
        column = one(array)
        made = column.values(array)
    except UnfitTypeError as error:
        refusals = str(error)
    if made is None:
        assert array.dtype.kind in "cfmMSUV"
        assert array.dtype.kind not in "mM" or "out of the range" in refusals or "no equal" in refusals
        return
    if array.dtype.kind == "U":  # some of them are no text
        return
    made.validate(full=True)
    if column.kind is Kind.TENSOR:
        assert loaded(made).tobytes() == np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    elif array.dtype.kind in "biu":
        assert made.to_pylist() == array.tolist()
    elif array.dtype.kind == "f":
        flat = np.array([None if one is None else one for one in _flat(made.to_pylist())], array.dtype)
        assert np.array_equal(flat, array.reshape(-1), equal_nan=True)


def _flat(value: Any) -> list[Any]:
    return [one for part in value for one in _flat(part)] if isinstance(value, list) else [value]


def test_texts_and_bytes() -> None:
    texts = np.array(["", "é", "日本", "a\0b"])
    assert values(texts).to_pylist() == texts.tolist()
    assert values(texts.astype(texts.dtype.newbyteorder(">"))).to_pylist() == texts.tolist()
    assert values(texts.reshape(2, 2)).to_pylist() == texts.reshape(2, 2).tolist()
    data = np.array([b"", b"ab", b"\xff"])
    assert values(data).to_pylist() == data.tolist()
    assert values(np.array([b"ab", b"c"]), Kind.TEXT).to_pylist() == ["ab", "c"]
    assert values(np.array([b"ab\0", b"abc"], "V3")).to_pylist() == [b"ab\0", b"abc"]


@pytest.mark.parametrize("code", [0xD800, 0x110000, 0xFFFFFFFF])
@pytest.mark.parametrize("order", ["<", ">"])
def test_code_points_that_are_no_text_are_left_to_the_check_of_texts(code: int, order: str) -> None:
    array = np.array([ord("a"), code, ord("b")], f"{order}u4").view(f"{order}U1")
    made = one(array).values(array)
    assert made[0].as_py() == "a"
    assert made[2].as_py() == "b"
    with pytest.raises(pa.ArrowInvalid):
        made.validate(full=True)


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns"])
@pytest.mark.parametrize("order", ["<", ">"])
def test_dates_and_times_are_equal(unit: str, order: str) -> None:
    array = np.array(["1969-03-01", "NaT", "2024-02-29"], "M8[D]").astype(f"{order}M8[{unit}]")
    made = values(array)
    assert made.null_count == 1
    back = np.array(made.to_numpy(zero_copy_only=False), f"M8[{unit}]")
    assert np.array_equal(back, array.astype(f"M8[{unit}]"), equal_nan=True)
    if unit not in "YM":
        spans = np.array([-5, 0, 7], f"{order}m8[{unit}]")
        assert np.array_equal(values(spans).to_numpy(zero_copy_only=False), spans)


def test_a_structured_array_is_a_column_for_each_of_its_fields() -> None:
    dtype = np.dtype([("a", ">i4"), ("b", [("c", "U3"), ("d", "<f4", (2,))])])
    array = np.zeros(3, dtype)
    array["a"] = [1, 2, 3]
    array["b"]["d"] = [[1, 2], [3, 4], [5, 6]]
    found = {column.field: column.values(array).to_pylist() for column in columns_of("t", dtype, (), {}, TypeWords())}
    assert found == {"t.a": [1, 2, 3], "t.b.c": ["", "", ""], "t.b.d": [[1, 2], [3, 4], [5, 6]]}
    assert [column.field for column in columns_of("", dtype, (), {}, TypeWords())] == ["a", "b.c", "b.d"]


@pytest.mark.parametrize(
    ("dtype", "shape", "reason"),
    [
        ("O", (), "Python objects"),
        (np.longdouble, (), "differs from machine"),
        (np.clongdouble, (2,), "differs from machine"),
        ("M8", (), "no equal"),
        ("M8[fs]", (), "no equal"),
        ("M8[10s]", (), "no equal"),
        ("m8[Y]", (), "no equal"),
        ("V0", (), "take no bytes"),
        ("f4", (3, 0), "take no bytes"),
        ([("a", "i4")], (2,), "only one a row"),
    ],
)
def test_what_has_no_equal_is_refused(dtype: Any, shape: tuple[int, ...], reason: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given_type = np.dtype(dtype)
    with pytest.raises(UnfitTypeError, match=reason):
        list(columns_of("x", given_type, shape, {}, TypeWords()))


def test_a_time_out_of_range_is_refused() -> None:
    array = np.array([1 << 40], "M8[Y]")
    with pytest.raises(UnfitTypeError, match="out of the range of date32"):
        one(array).values(array)


@pytest.mark.parametrize("shape", [(3, 5, 4), (3, 5, 4, 1), (3, 5, 4, 3), (3, 5, 4, 4)])
def test_pictures_are_png_files_of_the_same_pixels(shape: tuple[int, ...]) -> None:
    from PIL import Image

    array = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    made = values(array, Kind.IMAGE)
    assert one(array, Kind.IMAGE).kind is Kind.IMAGE
    for data, pixels in zip(made.to_pylist(), array, strict=True):
        found = np.asarray(Image.open(io.BytesIO(data)))
        assert np.array_equal(found, pixels.reshape(found.shape))


@pytest.mark.parametrize(
    ("shape", "dtype"), [((2, 3, 32, 32), "u1"), ((2, 3072), "u1"), ((2, 8, 8), "f4"), ((2,), "u1")]
)
def test_what_is_no_picture_is_refused_with_its_shape(shape: tuple[int, ...], dtype: str) -> None:
    with pytest.raises(UsageError, match=r"--kind x=image: a row is .* pictures are height x width"):
        one(np.zeros(shape, dtype), Kind.IMAGE)


def test_kinds_that_are_asked_for() -> None:
    array = np.arange(12, dtype=">u2").reshape(2, 3, 2)
    assert values(array, Kind.BYTES).to_pylist() == [row.astype("<u2").tobytes() for row in array]
    assert values(array, Kind.VALUE).to_pylist() == array.tolist()
    assert np.array_equal(loaded(values(array[:, 0], Kind.TENSOR)), array[:, 0])
