"""Arrays of .npy files and of members of .npz archives: their headers, and rows in blocks of bounded memory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, closing
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.sources.arrays.stored import StoredArray
from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.kinds.numpy.archive import Region, pieces_of
from toolkit.sources.names import printable
from toolkit.sources.npy import MOST_HEAD_BYTES, NpyError, NpyHeader, PickledError, read_npy_header
from toolkit.sources.regular import open_file
from toolkit.sources.state import FileState, check_unchanged
from toolkit.storage.files import read_range, storage_errors

__all__ = ["NumpyArray", "read_array"]

_MOST_INFLATED_BYTES = 64 * 1024 * 1024  # of an array that can be read by rows only once all of it is there
_PICKLE_ADVICE = (
    "reading them would run code that the file chooses. Save plain arrays: np.savez('data.npz', x=..., y=...), "
    "with one length for all rows, or padded"
)


class NumpyArray(StoredArray):
    """An array of a NumPy file."""

    def __init__(self, name: str, region: Region, header: NpyHeader) -> None:
        self.name = name
        self.path = region.path
        self.state = region.state
        self.dtype = header.dtype
        self.shape = header.shape
        self.is_one_pass = region.is_deflated
        self._region = region
        self._header = header

    def blocks(self, first: int, stop: int, step: int) -> AbstractContextManager[Iterator[NDArray[Any]]]:
        """Read rows: of plain bytes where they lie, of deflated ones by inflating all that is before."""
        if self._region.is_deflated:
            whole = self._is_spread
            return closing(self._inflated_whole(first, stop, step) if whole else self._inflated(first, stop, step))
        return closing(self._plain(first, stop, step))

    @property
    def _is_spread(self) -> bool:
        """Whether the values of a row lie apart."""
        return self._header.is_fortran and len(self.shape) > 1

    @property
    def _row_bytes(self) -> int:
        return self._header.data_bytes // self.rows

    def _rows(self, data: bytes | bytearray, rows: int) -> NDArray[Any]:
        return np.frombuffer(data, self.dtype).reshape(rows, *self.shape[1:])

    def _plain(self, first: int, stop: int, step: int) -> Generator[NDArray[Any], None, None]:
        region = self._region
        begin = region.offset + self._header.head_bytes
        with storage_errors("read", self.path), open_file(self.path) as file:
            fd = file.fileno()
            check_unchanged(self.path, self.state, FileState.of(os.fstat(fd)))
            crc = zlib.crc32(read_range(fd, region.offset, self._header.head_bytes))
            for at in range(first, stop, step):
                rows = min(step, stop - at)
                if self._is_spread:
                    yield self._gathered(fd, begin, at, rows)
                    continue
                data = read_range(fd, begin + at * self._row_bytes, rows * self._row_bytes)
                if len(data) < rows * self._row_bytes:
                    raise SourceError(f"{self._shown} ends before its row {at + rows}: the file was cut short")
                if region.crc is not None:
                    crc = zlib.crc32(data, crc)
                yield self._rows(data, rows)
        if region.crc is not None and stop == self.rows:
            # Slices read their rows alone: the last one looks at all of them.
            if first or self._is_spread:
                for _ in pieces_of(region, PIECE_BYTES):
                    pass
            elif crc != region.crc:
                raise SourceError(f"{self._shown} is damaged: its CRC32 is another. Save it anew")

    def _gathered(self, fd: int, begin: int, first: int, rows: int) -> NDArray[Any]:
        """Return rows whose values lie apart: a run of them for each place in a row."""
        width = self.dtype.itemsize
        places = self._row_bytes // width
        runs = np.empty((places, rows), self.dtype)
        for place in range(places):
            data = read_range(fd, begin + (place * self.rows + first) * width, rows * width)
            if len(data) < rows * width:
                raise SourceError(f"{self._shown} ends before its row {first + rows}: the file was cut short")
            runs[place] = np.frombuffer(data, self.dtype)
        # The last index moves slowest: places are those of a row in Fortran order.
        return runs.T.reshape(rows, *self.shape[1:], order="F")

    def _inflated(self, first: int, stop: int, step: int) -> Generator[NDArray[Any], None, None]:
        ahead = self._header.head_bytes + first * self._row_bytes
        with closing(pieces_of(self._region, PIECE_BYTES)) as pieces:
            waiting = bytearray()
            for at in range(first, stop, step):
                rows = min(step, stop - at)
                wanted = rows * self._row_bytes
                while len(waiting) < ahead + wanted:
                    drop = min(ahead, len(waiting))
                    del waiting[:drop]
                    ahead -= drop
                    piece = next(pieces, None)
                    if piece is None:  # sizes agreed when it was looked at
                        raise SourceError(f"{self._shown} ends before its row {at + rows}")
                    waiting += piece
                data = bytes(memoryview(waiting)[ahead : ahead + wanted])
                del waiting[: ahead + wanted]
                ahead = 0
                yield self._rows(data, rows)
            if stop == self.rows:
                for _ in pieces:  # to the check at its end
                    pass

    def _inflated_whole(self, first: int, stop: int, step: int) -> Generator[NDArray[Any], None, None]:
        data = b"".join(pieces_of(self._region, PIECE_BYTES))
        flat = np.frombuffer(data, self.dtype, offset=self._header.head_bytes)
        every = flat.reshape(self.shape, order="F")
        for at in range(first, stop, step):
            yield np.ascontiguousarray(every[at : min(stop, at + step)])

    @property
    def _shown(self) -> str:
        return f"array {self.name!r} of {printable(self.path)!r}"


def read_array(name: str, region: Region) -> NumpyArray:
    """Read the header of the .npy file that a region holds.

    Raises:
        SourceError: It is none, or holds what can't be read in safety or by rows; names file and array.
        StorageError: It can't be read.
    """
    where = f"array {name!r} of {printable(region.path)!r}"
    try:
        header = read_npy_header(_Head(region))
        header.check_size(region.size - header.head_bytes)
    except PickledError as error:
        raise SourceError(f"{where} is pickled, since it holds Python objects: {_PICKLE_ADVICE}") from error
    except NpyError as error:
        raise SourceError(f"{where}: {error}. Save it anew") from error
    array = NumpyArray(name, region, header)
    if region.is_deflated and array._is_spread and region.size > _MOST_INFLATED_BYTES:
        raise SourceError(
            f"{where} is compressed and in Fortran order, so that no row is there before all of its {region.size} "
            "bytes are: save it with np.ascontiguousarray(), or by np.savez"
        )
    return array


class _Head:
    """The first bytes of a region, as a stream."""

    def __init__(self, region: Region) -> None:
        with closing(pieces_of(region, MOST_HEAD_BYTES)) as pieces:
            data = bytearray()
            while len(data) < MOST_HEAD_BYTES and (piece := next(pieces, None)) is not None:
                data += piece
        self._data = bytes(data)
        self._at = 0

    def read(self, size: int, /) -> bytes:
        """Return the next bytes."""
        piece = self._data[self._at : self._at + size]
        self._at += len(piece)
        return piece

    def tell(self) -> int:
        """Return how many were read."""
        return self._at
