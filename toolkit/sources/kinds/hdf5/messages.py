"""What a process that reads HDF5 files answers: frames, and what a file holds as plain values.

Nothing in an answer is code: the process may have been led astray by the file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from toolkit.sources.kinds.hdf5.dataset import Hdf5Array
from toolkit.sources.kinds.hdf5.opened import h5py_module
from toolkit.sources.kinds.hdf5.walk import Found
from toolkit.sources.state import FileState

__all__ = ["ALIVE", "BATCH", "END", "ERROR", "FOUND", "HEAD", "found_in", "message_of"]

HEAD = struct.Struct("<cQ")
"""Before each frame: what it is, and how many bytes follow. Before a request: the same, with END."""
ALIVE, BATCH, END, ERROR, FOUND = b"a", b"b", b".", b"e", b"f"


class _Array(msgspec.Struct, array_like=True):
    name: str
    place: str
    dtype: Any
    shape: tuple[int, ...]
    attributes: int
    cache_bytes: int
    band_rows: int


class _Message(msgspec.Struct, array_like=True):
    state: FileState
    arrays: list[_Array]
    names: list[str]
    links: list[str]
    attributes: int


def message_of(found: Found) -> bytes:
    """Return what a file holds as a message."""
    arrays = [
        _Array(one.name, one.place, _told(one.dtype), one.shape, one.attributes, one.cache_bytes, one.band_rows)
        for one in found.arrays
    ]
    state = found.arrays[0].state if found.arrays else FileState(0, 0, 0, 0)
    return msgspec.msgpack.encode(_Message(state, arrays, found.names, found.links, found.attributes))


def found_in(path: str, message: bytes) -> Found:
    """Return what a message says that a file holds."""
    told = msgspec.msgpack.decode(message, type=_Message)
    arrays = []
    for one in told.arrays:
        array = Hdf5Array(one.name, path, told.state, one.place, _dtype(one.dtype), one.shape)
        array.attributes, array.cache_bytes, array.band_rows = one.attributes, one.cache_bytes, one.band_rows
        arrays.append(array)
    return Found(arrays, told.names, told.links, told.attributes)


def _told(dtype: np.dtype[Any]) -> Sequence[Any]:
    """Return a type, and what h5py has noted of it, as values that messages have."""
    h5py = h5py_module()
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return ["array", _told(base), shape]
    if dtype.names is not None:
        assert dtype.fields is not None
        members = [(name, _told(dtype.fields[name][0]), dtype.fields[name][1]) for name in dtype.names]
        return ["record", members, dtype.itemsize]
    if h5py.check_ref_dtype(dtype) is not None:
        return ["reference"]
    if dtype.kind == "O" and (text := h5py.check_string_dtype(dtype)) is not None:
        return ["text", text.encoding]
    if (base := h5py.check_vlen_dtype(dtype)) is not None:
        return ["vlen", _told(np.dtype(base))]
    if names := h5py.check_enum_dtype(dtype):
        return ["enum", dtype.str, [(name, int(value)) for name, value in names.items()]]
    return ["plain", dtype.str]


def _dtype(told: Sequence[Any]) -> np.dtype[Any]:
    h5py: Any = h5py_module()
    made: np.dtype[Any]
    match told:
        case ["array", base, shape]:
            made = np.dtype((_dtype(base), tuple(shape)))
        case ["record", members, size]:
            names, formats, offsets = zip(*members, strict=True) if members else ((), (), ())
            formats = tuple(map(_dtype, formats))
            made = np.dtype(
                {"names": list(names), "formats": list(formats), "offsets": list(offsets), "itemsize": size}
            )
        case ["reference"]:
            made = np.dtype(h5py.ref_dtype)
        case ["text", encoding]:
            made = np.dtype(h5py.string_dtype(encoding))
        case ["vlen", base]:
            made = np.dtype(h5py.vlen_dtype(_dtype(base)))
        case ["enum", text, names]:
            made = np.dtype(h5py.enum_dtype(dict(names), np.dtype(text)))
        case ["plain", text]:
            made = np.dtype(text)
        case _:
            raise ValueError(f"no type is told by {told!r}")
    return made
