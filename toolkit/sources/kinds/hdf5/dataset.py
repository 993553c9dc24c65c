"""A dataset of an HDF5 file as an array: what may be read of it, and its rows in blocks of bounded memory."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.format.kinds import Kind
from toolkit.sources.arrays.columns import TypeWords, UnfitTypeError
from toolkit.sources.arrays.stored import StoredArray
from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.kinds.hdf5.opened import h5py_module, hdf5_errors, opened
from toolkit.sources.names import printable
from toolkit.sources.state import FileState

__all__ = ["Hdf5Array", "Hdf5Words", "read_dataset"]

_MOST_CHUNK_BYTES = 256 * 1024 * 1024
_MOST_BAND_BYTES = 32 * 1024 * 1024  # of chunks side by side that are read together
_MOST_RATIO = 1032  # as of deflate
_SMALL_BYTES = 1024 * 1024  # what may be claimed without being there
_MOST_ROWS_AT_ONCE = 16  # of values that differ in length: several rows may share one
_FILTERS = {
    4: "szip",
    307: "bzip2",
    32001: "blosc",
    32004: "lz4",
    32008: "bitshuffle",
    32013: "zfp",
    32015: "zstd",
    32026: "blosc2",
}
_MATLAB = "MATLAB_class"  # an attribute of each dataset of version 7.3
_TEXTS = (None, Kind.TEXT, Kind.JSON, Kind.LABEL)


class Hdf5Array(StoredArray):
    """A dataset.

    Attributes:
        name: Its path in the file, or that of a link to it.
        place: Where it lies in the file, behind no link.
        attributes: How many attributes it has.
    """

    def __init__(
        self, name: str, path: str, state: FileState, place: str, dtype: np.dtype[Any], shape: tuple[int, ...]
    ) -> None:
        self.name = name
        self.path = path
        self.state = state
        self.place = place
        self.dtype = dtype
        self.shape = shape
        self.attributes = 0
        if dtype.hasobject and shape:
            self.more_row_bytes = state.size // max(1, shape[0])  # no more than all of it

    @classmethod
    def of(cls, name: str, path: str, state: FileState, place: str, dataset: Any) -> Hdf5Array:
        """Return what an open dataset is; it isn't kept."""
        made = cls(name, path, state, place, dataset.dtype, tuple(dataset.shape or ()))
        made.attributes = len(dataset.attrs)
        if dataset.chunks is not None and made.shape:
            beside = [-(-side // chunk) * chunk for side, chunk in zip(made.shape[1:], dataset.chunks[1:], strict=True)]
            row = math.prod(beside) * made.dtype.itemsize
            made.cache_bytes = min(_MOST_CHUNK_BYTES, dataset.chunks[0] * row)
            if dataset.chunks[0] * row <= _MOST_BAND_BYTES:
                made.band_rows = min(dataset.chunks[0], max(1, made.shape[0]))
        return made

    def blocks(self, first: int, stop: int, step: int) -> AbstractContextManager[Iterator[NDArray[Any]]]:
        """Read rows; the file is open until the block ends."""
        return closing(self._blocks(first, stop, step))

    def _blocks(self, first: int, stop: int, step: int) -> Generator[NDArray[Any], None, None]:
        where = f"array {self.name!r} of {printable(self.path)!r}"
        with opened(self.path, self.state, self.cache_bytes) as file:
            with hdf5_errors(where):
                dataset = file[self.place]
            while first < stop:
                rows = min(step, stop - first)
                with hdf5_errors(where):
                    block = self._some(dataset, first, rows) if self.dtype.hasobject else dataset[first : first + rows]
                yield block
                first += len(block)

    def _some(self, dataset: Any, first: int, rows: int) -> NDArray[Any]:
        """Return some rows of values that differ in length, as many as fill a piece."""
        found: list[NDArray[Any]] = []
        total, at_once, count = 0, 1, 0
        while count < rows and total < PIECE_BYTES:
            block = dataset[first + count : first + min(rows, count + at_once)]
            found.append(block)
            size = _size(block)
            total += size
            count += len(block)
            at_once = max(1, min(_MOST_ROWS_AT_ONCE, 2 * at_once, PIECE_BYTES * len(block) // max(1, size)))
        return np.concatenate(found)


class Hdf5Words(TypeWords):
    """What HDF5 says of types: texts, values of several lengths, enumerations."""

    def arrow_type(self, dtype: np.dtype[Any], asked: Kind | None) -> pa.DataType | None:
        """Return the type of texts, of bytes of any length (uint8), and of lists of numbers."""
        h5py = h5py_module()
        if h5py.check_ref_dtype(dtype) is not None:
            raise UnfitTypeError("its values are references to other objects of the file")
        if h5py.check_string_dtype(dtype) is not None:
            return pa.string() if asked in _TEXTS else pa.binary()
        base = h5py.check_vlen_dtype(dtype)
        if base is None:
            return None
        if base == np.uint8 and asked is not Kind.VALUE:
            return pa.binary()
        if base.kind not in "biuf" or base.itemsize > 8:
            raise UnfitTypeError(f"its values are arrays of {base} of several lengths")
        return pa.list_(pa.from_numpy_dtype(base.newbyteorder("=")))

    def classes(self, dtype: np.dtype[Any]) -> tuple[str, ...] | None:
        """Return the names of an enumeration that counts from 0."""
        names = h5py_module().check_enum_dtype(dtype)
        if not names or sorted(names.values()) != list(range(len(names))):
            return None
        if not all(isinstance(name, str) for name in names):
            raise UnfitTypeError("the names of its enumeration aren't UTF-8")
        return tuple(sorted(names, key=names.__getitem__))


def read_dataset(name: str, path: str, state: FileState, place: str, dataset: Any) -> Hdf5Array:
    """Return a dataset as an array, after checking that its values are in this file and can be there.

    Raises:
        SourceError: They lie in other files, need a filter that isn't there, or are more than there can be.
    """
    where = f"array {name!r} of {printable(path)!r}"
    with hdf5_errors(where):
        if dataset.is_virtual:
            files = sorted({printable(str(source.file_name)) for source in dataset.virtual_sources()})
            raise SourceError(f"{where} is virtual: its values lie elsewhere ({', '.join(files[:3])}). {_COPY}")
        if dataset.external:
            files = [printable(str(external[0])) for external in dataset.external]
            raise SourceError(f"{where} has its values in other files ({', '.join(files[:3])}). {_COPY}")
        if _MATLAB in dataset.attrs:
            raise SourceError(
                f"{where} was written by MATLAB, whose axes come in reverse order: its first index isn't the row. "
                "Write a copy with each array transposed, or name the arrays to pack with --columns"
            )
        _check_filters(where, dataset)
        array = Hdf5Array.of(name, path, state, place, dataset)
        if not array.shape:
            return array
        size = dataset.id.get_type().get_size()
        claimed, there = math.prod(array.shape) * size, dataset.id.get_storage_size()
        chunk_bytes = math.prod(dataset.chunks or ()) * size
    if claimed > max(_SMALL_BYTES, there * _MOST_RATIO):
        raise SourceError(
            f"{where} claims {claimed} bytes by its shape {array.shape}, and {there} are there: most were never "
            "written. Write it anew, or name the arrays to pack with --columns"
        )
    if chunk_bytes > _MOST_CHUNK_BYTES and dataset.chunks:
        raise SourceError(
            f"{where} is stored in chunks of {chunk_bytes} bytes, which are read whole, and {_MOST_CHUNK_BYTES} at the "
            "most are: write it in smaller ones (h5repack -l CHUNK=...)"
        )
    return array


_COPY = "Only the file itself is read: write a copy that has them, or name the arrays to pack with --columns"


def _check_filters(where: str, dataset: Any) -> None:
    h5py = h5py_module()
    properties = dataset.id.get_create_plist()
    for number in range(properties.get_nfilters()):
        code, _, _, said = properties.get_filter(number)
        if not h5py.h5z.filter_avail(code):
            name = _FILTERS.get(code) or said.decode("utf-8", "backslashreplace") or "a filter without a name"
            raise SourceError(
                f"{where} is compressed by {name} (filter {code}), which this HDF5 library hasn't: write it with gzip "
                "or lzf (h5repack -f GZIP=4), or name the arrays to pack with --columns"
            )


def _size(block: NDArray[Any]) -> int:
    """Return about how many bytes the values of a block take that differ in length."""
    if block.dtype.names is not None:
        return sum(_size(block[name]) for name in block.dtype.names)
    if block.dtype.kind != "O":
        return block.nbytes
    return sum(value.nbytes if isinstance(value, np.ndarray) else len(value) for value in block.reshape(-1).tolist())
