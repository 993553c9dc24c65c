"""NumPy files through their source: every value is what numpy.load reads, or the file is refused.

The first byte of an input says what the rest is: a .npy file, an archive, or a .npy file that is put into an archive
as it is or deflated. numpy.load is asked about what is taken alone: of what is refused, it may read some.
"""

from __future__ import annotations

import io
import os
import warnings
import zipfile
from typing import Any

import numpy as np
import pyarrow as pa
from fuzz.inputs import File, pieces, refused

from toolkit.errors import ToolkitError
from toolkit.sources.kinds.numpy.source import NumpySource
from toolkit.sources.options import SourceOptions

_FILES = {False: File("x.npy"), True: File("x.npz")}
_FAR = ("date", "timestamp", "duration")
_METHODS = {2: zipfile.ZIP_STORED, 3: zipfile.ZIP_DEFLATED}


def _archive(data: bytes, method: int) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        archive.writestr("x.npy", data)
    return sink.getvalue()


def _near(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch without dates and times: Python has no years that far away."""
    names = [field.name for field in batch.schema if not any(word in str(field.type) for word in _FAR)]
    return batch.select(names)


def _plain(value: Any) -> Any:
    """A stored value as NumPy has it."""
    if isinstance(value, bytes) and value.startswith(b"\x93NUMPY"):
        return np.load(io.BytesIO(value), allow_pickle=False)
    return value


def _same(found: Any, wanted: Any) -> bool:
    """Tell whether a value is NumPy's; of texts, dates and records it is enough that they came through."""
    wanted = np.asarray(wanted)
    if wanted.dtype.kind not in "biufc":
        return True
    return np.array_equal(np.asarray(found, wanted.dtype), wanted, equal_nan=wanted.dtype.kind in "fc")


def fuzz(data: bytes) -> object:
    """Use one input."""
    mode, rest = (data[0] & 3 if data else 0), data[1:]
    if mode in _METHODS:
        rest = _archive(rest, _METHODS[mode])
    for file in _FILES.values():
        if os.path.exists(file.path):
            os.unlink(file.path)
    path = _FILES[mode > 0].write(rest)
    rows: list[dict[str, Any]] = []
    rejects = 0
    options = SourceOptions(paths=(path,), slice_bytes=512)
    try:
        for _, _, found in pieces(NumpySource(options)):
            rejects += len(found.rejects)
            rows += _near(found.batch).to_pylist()
    except ToolkitError as error:
        return refused(error).replace(path, "")[:40]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = np.load(path, allow_pickle=False)
    arrays = {"x": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    arrays = {name: array for name, array in arrays.items() if np.ndim(array)}
    for name, array in arrays.items():
        if rows and array.dtype.names is None and name in rows[0]:
            assert len(array) == len(rows) + rejects, name
            if not rejects:
                assert all(_same(_plain(row[name]), value) for row, value in zip(rows, array, strict=True)), name
    return tuple((array.dtype.str, array.ndim) for array in arrays.values())[:4], rejects


def _npy(array: Any) -> bytes:
    sink = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array(sink, array)
    return sink.getvalue()


def seeds() -> list[bytes]:
    """Return files of many types and orders, and archives as NumPy writes them."""
    grid = np.arange(24, dtype=">i2").reshape(4, 3, 2)
    record = np.zeros(3, [("a", "<f4"), ("b", "S3", (2,))])
    arrays = [
        np.arange(5, dtype=np.float32), grid, np.asfortranarray(grid), np.array([True, False, True]),
        np.array(["ab", "c"]), np.array([b"ab"]), np.array(["2020-01-01", "NaT"], "M8[D]"), np.array([1 + 2j]),
        record, np.zeros((3, 2), np.float16), np.zeros((0, 3)), np.array([None], object), np.array([3, 4], "m8[W]"),
    ]  # fmt: skip
    made = [bytes([mode]) + _npy(array) for mode in (0, 2, 3) for array in arrays]
    for save in (np.savez, np.savez_compressed):
        sink = io.BytesIO()
        save(sink, x_train=grid, y_train=np.arange(4), x_test=grid[:2], y_test=np.arange(2), n=np.ones(()))
        made.append(b"\1" + sink.getvalue())
    return made
