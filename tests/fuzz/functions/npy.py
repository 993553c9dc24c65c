"""The check of NumPy files, and the loader's reader of them, against numpy.load."""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
from fuzz.inputs import refused

from toolkit.pipelines.arrays import read_npy
from toolkit.sources.contents import UnfitError, check_tensor


def _loaded(data: bytes) -> tuple[Any, int] | None:
    """Return what NumPy reads, and how many bytes it leaves; None when it refuses, or the shape is beyond the bytes."""
    file = io.BytesIO(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            array = np.load(file, allow_pickle=False)
    except Exception:  # whatever a damaged header leads its parser to
        return None
    return (array, len(data) - file.tell()) if isinstance(array, np.ndarray) else None


def _read(data: bytes) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return read_npy(data, None, None)
    except ValueError as error:
        return str(error)


def fuzz(data: bytes) -> object:
    """Use one input."""
    read = _read(data)
    try:
        check_tensor(data)
    except UnfitError as error:
        reason = refused(error)
        assert isinstance(read, str), (reason, read)  # what is no value of a column, the loader doesn't read either
        loaded = _loaded(data) if "bytes for the shape" not in reason else None
        assert loaded is None or loaded[0].dtype.hasobject or loaded[1], (reason, loaded)
        return reason[:24]
    loaded = _loaded(data)
    assert loaded is not None, data
    array, left = loaded
    assert left == 0, data
    if isinstance(read, str):
        assert array.dtype.kind not in "biufc" or data[6] == 3, read
        return read[:12]
    assert read.shape == array.shape
    assert read.dtype == array.dtype.newbyteorder("=")
    assert read.tobytes() == array.astype(read.dtype).tobytes()
    return array.dtype.str, array.ndim


def _file(array: Any, version: tuple[int, int] | None = None) -> bytes:
    sink = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array(sink, array, version)
    return sink.getvalue()


def seeds() -> list[bytes]:
    """Return files of many types, shapes, orders and versions."""
    grid = np.arange(12, dtype=">i2").reshape(3, 4)
    record = np.zeros(2, [("a", "<f4"), ("é", "S3", (2,))])
    arrays = [
        np.arange(5, dtype=np.float32), grid, np.asfortranarray(grid), np.float64(2.5) * np.ones(()), np.zeros((0, 3)),
        np.array([True, False]), np.array(["ab", "c"]), np.array([b"ab"]), np.array(["2020-01-01"], "M8[D]"),
        np.array([1 + 2j]), np.zeros((2, 0), "V4"), record, np.zeros(3, np.float16),
    ]  # fmt: skip
    made = [_file(array) for array in arrays]
    made += [_file(grid, (2, 0)), _file(grid, (3, 0)), made[0][:-2], made[0] + b"more"]
    old = b"{'descr': '<i4', 'fortran_order': False, 'shape': (2L, 1L), }\n"
    return [*made, b"\x93NUMPY\x01\x00" + len(old).to_bytes(2, "little") + old + bytes(8)]
