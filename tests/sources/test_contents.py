"""A value is stored or refused for the same reason, whatever source it came from."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import parquet_inputs
import pytest
import tfrecords
from hypothesis import given
from hypothesis import strategies as st
from sources import tars

from toolkit.format.kinds import Kind
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack
from toolkit.sources.contents import UnfitError, check_json, check_tensor

Values = list[bytes]


def numpy_file(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    sink = io.BytesIO()
    np.lib.format.write_array(sink, array, version)
    return sink.getvalue()


def with_header(header: bytes, values: bytes = bytes(24)) -> bytes:
    return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + values


NPY = numpy_file(np.arange(6, dtype=np.float32).reshape(2, 3))
TENSORS = {
    NPY: None,
    numpy_file(np.zeros((0, 3))): None,
    numpy_file(np.zeros(2), (2, 0)): None,
    numpy_file(np.zeros(2), (3, 0)): None,
    b"": "no NumPy file (.npy)",
    b"something else": "no NumPy file (.npy)",
    NPY[:-1]: "a NumPy file of 23 bytes for the shape (2, 3) of float32",
    NPY + b"\0": "a NumPy file of 25 bytes for the shape (2, 3) of float32",
    NPY[:40]: "a NumPy file that ends within its header",
    NPY[:9]: "a NumPy file that ends within its header",
    with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (6,), }"): None,
    with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (6L,), }"): None,
    with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)"): "no NumPy file that can be read: ",
    with_header(b"{'descr': '<f4\n', 'fortran_order': \"\"\""): "no NumPy file that can be read: ",
    with_header(b"(" * 5000): "no NumPy file that can be read: ",
    with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (6,)}" + b" " * 20000): (
        "a NumPy file with a header of 20055 bytes, 10000 at the most are read"
    ),
    with_header(b"{'descr': '<f4', 'fortran_order': False}"): "a NumPy file whose header doesn't say descr",
    with_header(b"{'descr': '<f4', 'fortran_order': 1, 'shape': (6,)}"): "a NumPy file whose fortran_order is 1",
    with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': [6]}"): "a NumPy file of the shape [6], which is",
    with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (True, 6)}"): "a NumPy file of the shape (True, 6)",
    with_header(b"{'descr': '<f4', 'fortran_order': False, 'shape': (-2, -3)}"): "a NumPy file of 24 bytes for the",
    with_header(b"{'descr': 'no', 'fortran_order': False, 'shape': (6,)}"): "no NumPy file that can be read: ",
    with_header(b"{'descr': [('a', '<f4'), ('a', '<f4')], 'fortran_order': False, 'shape': (3,)}"): (
        "no NumPy file that can be read: "
    ),
    with_header(b"{'descr': '|S0', 'fortran_order': False, 'shape': (%d, %d)}" % (1 << 62, 4), b""): (
        "a NumPy file of 0 bytes for the shape"
    ),
    NPY[:6] + b"\x09\x00" + NPY[8:]: "a NumPy file of the unknown version 9.0",
    numpy_file(np.array([{}], object)): "a NumPy file of Python objects, which can't be read safely",
}
JSON = {
    b'{"a": [1, null, "\xc3\xa9"]}': None,
    b" 5 ": None,
    b'{"a": 1': "no valid JSON: ",
    b"": "no valid JSON: ",
    b"[" * 100_000: "no valid JSON: ",
    b"[1, NaN]": "no valid JSON: NaN is no JSON value",
    b"-Infinity": "no valid JSON: -Infinity is no JSON value",
    rb'"\ud83d\ude00 \\ud800"': None,
    rb'{"a": ["\uD800"]}': r"no valid JSON: \ud800 is a lone surrogate, which is no character",
    rb'{"\udc00\ud800": 1}': r"no valid JSON: \udc00 is a lone surrogate",
    b'"a\x01"': "no valid JSON: Invalid control character",
    b"\xef\xbb\xbf1": "no valid JSON: ",
    b"9" * 5000: "no valid JSON: ",
    b"1 2": "no valid JSON: ",
    b"01": "no valid JSON: ",
    b"1e999": None,
}


def parquet(path: Path, values: Values, kind: Kind) -> dict[str, object]:
    made = [value.decode() for value in values] if kind is Kind.JSON else values
    return {"source": parquet_inputs.write(path / "in.parquet", {"value": made}), "kind": {"value": kind}}


def tfrecord(path: Path, values: Values, kind: Kind) -> dict[str, object]:
    made = [tfrecords.example(value=[value]) for value in values]
    return {"source": tfrecords.write(path / "in.tfrecord", made), "kind": {"value": kind}}


def tar(path: Path, values: Values, kind: Kind) -> dict[str, object]:
    extension = "json" if kind is Kind.JSON else "npy"
    items = [(f"{number:02d}.{extension}", value) for number, value in enumerate(values)]
    return {"source": tars.write(path / "in.tar", tars.tar_bytes(items))}


@pytest.mark.parametrize("write", [parquet, tfrecord, tar])
@pytest.mark.parametrize(("kind", "cases"), [(Kind.TENSOR, TENSORS), (Kind.JSON, JSON)])
def test_equal_reasons(
    write: Callable[[Path, Values, Kind], dict[str, object]],
    kind: Kind,
    cases: dict[bytes, str | None],
    tmp_path: Path,
) -> None:
    options = write(tmp_path, list(cases), kind)
    options["source"] = str(options["source"])
    result = pack(PackJob(dataset=str(tmp_path / "ds"), max_rejects=100, **options))  # type: ignore[arg-type]
    wanted = [reason for reason in cases.values() if reason is not None]
    told = [reject.reason.partition(": ")[2] for reject in result.rejects]
    assert [reason[: len(start)] for reason, start in zip(told, wanted, strict=True)] == wanted
    assert result.samples == len(cases) - len(wanted)


def test_tensor_headers_mean_what_they_mean_to_numpy() -> None:
    arrays = [
        np.zeros((2, 3), "<f8", order="F"),
        np.array(["日本", "é"]),
        np.zeros(3, [("日", "<f4"), ("é", "u1", (2, 2))]),
        np.zeros(2, "M8[ns]"),
        np.zeros((), ">c16"),
        np.zeros(0, "V5"),
        np.zeros(2, {"names": ["a", "b"], "formats": ["u1", "<f8"], "offsets": [0, 16], "itemsize": 32}),
    ]
    for array in arrays:
        for version in ((1, 0), (2, 0), (3, 0)):
            sink = io.BytesIO()
            try:
                np.lib.format.write_array(sink, array, version)
            except UnicodeEncodeError:
                continue
            data = sink.getvalue()
            check_tensor(data)
            with pytest.raises(UnfitError):
                check_tensor(data + b"\0")
            assert np.load(io.BytesIO(data)).dtype == array.dtype


@given(data=st.data())
def test_a_tensor_is_accepted_only_if_numpy_loads_it_whole(data: st.DataObject) -> None:
    mutated = bytearray(data.draw(st.sampled_from([case for case, reason in TENSORS.items() if reason is None])))
    for _ in range(data.draw(st.integers(1, 4))):
        mutated[data.draw(st.integers(0, min(len(mutated) - 1, 140)))] = data.draw(st.integers(0, 255))
    why = ""
    try:
        check_tensor(bytes(mutated))
    except UnfitError as fault:
        why = str(fault)
    assert not why.rstrip().endswith(":")
    if not why:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = np.load(io.BytesIO(bytes(mutated)), allow_pickle=False)
        assert loaded.nbytes <= len(mutated)


@given(st.text(alphabet='"\\udD8cC0a{}[]:, 1eE+-.NInfity', max_size=20))
def test_json_is_accepted_only_if_another_reader_takes_it(text: str) -> None:
    try:
        check_json(text)
    except UnfitError:
        return
    value = msgspec.json.decode(text.encode())  # refuses NaN and lone surrogates itself
    assert value == json.loads(text)
