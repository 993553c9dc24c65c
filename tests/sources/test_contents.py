"""A value is stored or refused for the same reason, whatever source it came from."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import parquet_inputs
import pytest
import tfrecords
from sources import tars

from toolkit.format.kinds import Kind
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

Values = list[bytes]


def numpy_file(array: np.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    sink = io.BytesIO()
    np.lib.format.write_array(sink, array, version)
    return sink.getvalue()


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
    NPY[:40]: "no NumPy file that can be read: ",
    NPY[:6] + b"\x09\x00" + NPY[8:]: "a NumPy file of the unknown version 9.0",
    numpy_file(np.array([{}], object)): "a NumPy file of Python objects, which can't be read safely",
}
JSON = {
    b'{"a": [1, null, "\xc3\xa9"]}': None,
    b" 5 ": None,
    b'{"a": 1': "no valid JSON: ",
    b"": "no valid JSON: ",
    b"[" * 100_000: "no valid JSON: ",
}


def parquet(path: Path, values: Values, kind: Kind) -> dict[str, object]:
    made = [value.decode() for value in values] if kind is Kind.JSON else values
    return {"source": parquet_inputs.write(path / "in.parquet", {"value": made}), "kinds": {"value": kind}}


def tfrecord(path: Path, values: Values, kind: Kind) -> dict[str, object]:
    made = [tfrecords.example(value=[value]) for value in values]
    return {"source": tfrecords.write(path / "in.tfrecord", made), "kinds": {"value": kind}}


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
