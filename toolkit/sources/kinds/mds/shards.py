"""Read the samples of an MDS shard: its file or compressed file, checked against size, hashes and offsets.

A shard: uint32 sample count, uint32 offset of each sample and of the end, a JSON text that the index repeats, samples.
A sample: the uint32 size of each value whose encoding has none, then the values. All little-endian.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from toolkit.errors import SourceError
from toolkit.sources.base import too_large
from toolkit.sources.file_bytes import FileBytes, compression_of, open_bytes
from toolkit.sources.kinds.mds.index import OFFSET_BYTES, MDSShard
from toolkit.sources.names import printable
from toolkit.sources.regular import open_file
from toolkit.sources.state import FileState, check_unchanged
from toolkit.storage.files import read_range, storage_errors

__all__ = ["COMPRESSIONS", "ShardReader", "is_hash_known"]

COMPRESSIONS: Mapping[str, str] = {
    "br": "brotli",
    "bz2": "bzip2",
    "gz": "gzip",
    "snappy": "snappy",
    "zstd": "zstd",
}
"""Compressions that an index may name, as toolkit.sources.file_bytes calls them."""

_UNMARKED = ("brotli", "snappy")  # nothing in a file says that it is one

_CHUNK_BYTES = 1024 * 1024
_OFFSETS_AT_ONCE = 64 * 1024
_HEAD_BYTES = 16  # of a file, that tell its compression


class _Hash(Protocol):
    def update(self, data: bytes | memoryview, /) -> object: ...

    def hexdigest(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ShardReader:
    """Reads a shard. It can be pickled and holds no open file.

    Attributes:
        shard: What the index says of it.
        path: The file that is read: the shard's own, or the compressed one.
        state: What that file was like when it was found.
        is_compressed: It is the compressed one.
    """

    shard: MDSShard
    path: str
    state: FileState
    is_compressed: bool

    def samples(
        self, first: int, count: int, columns: Sequence[int], most: int
    ) -> Iterator[tuple[list[memoryview], str]]:
        """Yield the bytes of these columns of samples `first` to `first + count`, or why one can't be used.

        Args:
            first: The first sample.
            count: How many.
            columns: Numbers of the columns, ascending.
            most: Bytes of a value at the most; a sample with a larger one is not used, and it isn't read.

        Raises:
            SourceError: The shard isn't what the index says, is damaged, or isn't what it was when it was found.
            StorageError: It can't be read.
        """
        with storage_errors("read", self.path), open_file(self.path) as file:
            fd = file.fileno()
            check_unchanged(self.path, self.state, FileState.of(os.fstat(fd)))
            if first == 0:
                self._check_hashes(fd)
            content = self._open(fd)
            self._check_count(content)
            read = _Samples(self.shard, content, columns, most, self._fault)
            for start, ends in self._offsets(self._open(fd), first, count):
                yield from read.between(start, ends)
            if self.is_compressed:
                self._check_end(content)

    def _open(self, fd: int) -> FileBytes:
        """Return the shard's content from its front."""
        kind = ""
        if self.is_compressed:
            kind = COMPRESSIONS[self.shard.compression or ""]
            head = read_range(fd, 0, min(_HEAD_BYTES, self.state.size))
            if kind not in _UNMARKED and compression_of(head, self.path) != kind:
                raise self._fault(f"the index says that it is {self.shard.compression}, and it isn't")
        return open_bytes(fd, self.path, kind, chunk_bytes=_CHUNK_BYTES)

    def _check_hashes(self, fd: int) -> None:
        """Read the file for those of its hashes that are known here, or else its decompressed content for those."""
        told, content = self.shard.raw, self._open(fd)
        if self.shard.compressed is not None and self.is_compressed and _hashes(self.shard.compressed.hashes):
            told, content = self.shard.compressed, open_bytes(fd, self.path, "", chunk_bytes=_CHUNK_BYTES)
        hashes = _hashes(told.hashes)
        if not hashes:
            return
        left = told.bytes
        while left and (data := content.read(min(_CHUNK_BYTES, left))):
            left -= len(data)
            for one in hashes.values():
                one.update(data)
        for name, one in hashes.items():
            if one.hexdigest() != told.hashes[name].lower():
                raise self._fault(f"its {name} is {one.hexdigest()}, and the index says {told.hashes[name]!a}")

    def _check_count(self, content: FileBytes) -> None:
        head = bytes(content.read(OFFSET_BYTES))
        there = int.from_bytes(head, "little")
        if len(head) < OFFSET_BYTES or there != self.shard.samples:
            raise self._fault(f"it holds {there} samples, and the index says {self.shard.samples}")

    def _offsets(self, content: FileBytes, first: int, count: int) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield where some samples begin, and where each of them ends."""
        shard = self.shard
        least = OFFSET_BYTES * (shard.samples + 2)
        content.skip_to(OFFSET_BYTES * (1 + first))
        start = self._offset_table(content, 1)[0]
        if start < least or (first == 0 and count == 0 and start > shard.raw.bytes):
            raise self._fault(f"sample {first} is said to begin at byte {start}, within the table of offsets")
        for done in range(0, count, _OFFSETS_AT_ONCE):
            ends = self._offset_table(content, min(_OFFSETS_AT_ONCE, count - done))
            wrong = np.flatnonzero(np.diff(ends, prepend=start) < 0)
            if wrong.size:
                number = first + done + int(wrong[0])
                raise self._fault(f"sample {number} is said to end before it begins, at byte {ends[wrong[0]]}")
            if ends[-1] > shard.raw.bytes:
                raise self._fault(f"its samples are said to reach to byte {ends[-1]} of {shard.raw.bytes}")
            yield int(start), ends
            start = ends[-1]
        if first + count == shard.samples and start != shard.raw.bytes:
            raise self._fault(f"its samples are said to end at byte {start} of {shard.raw.bytes}")

    def _offset_table(self, content: FileBytes, count: int) -> NDArray[np.int64]:
        data = content.read(OFFSET_BYTES * count)
        if len(data) < OFFSET_BYTES * count:
            raise self._fault("it ends within the table of offsets")
        return np.frombuffer(data, "<u4").astype(np.int64)

    def _check_end(self, content: FileBytes) -> None:
        """Read what is left of a compressed shard, which has to come to the size that the index says."""
        content.skip_to(self.shard.raw.bytes)
        if content.position != self.shard.raw.bytes or len(content.read(1)):
            raise self._fault(f"it doesn't hold the {self.shard.raw.bytes} bytes that the index says, decompressed")

    def _fault(self, what: str) -> SourceError:
        return SourceError(
            f"{printable(self.path)!r}: {what}. The shard is damaged, or the index is another's: get or write it "
            f"again, or leave it out with --exclude {printable(self.shard.raw.name)!r}"
        )


class _Samples:
    """Takes the wanted values of samples from a shard's content, front to back."""

    def __init__(
        self,
        shard: MDSShard,
        content: FileBytes,
        columns: Sequence[int],
        most: int,
        fault: Callable[[str], SourceError],
    ) -> None:
        self._columns = shard.columns
        self._content = content
        self._wanted = frozenset(columns)
        self._most = most
        self._fault = fault
        self._sizes = struct.Struct(f"<{sum(size is None for *_, size in shard.columns)}I")

    def between(self, start: int, ends: NDArray[np.int64]) -> Iterator[tuple[list[memoryview], str]]:
        """Yield the values of neighbouring samples, or why one has none: the first begins at `start`."""
        at = start
        for end in ends.tolist():
            if not self._content.skip_to(at):
                raise self._fault(f"it ends before byte {at}")
            yield self._values(at, end)
            at = end

    def _values(self, at: int, end: int) -> tuple[list[memoryview], str]:
        told = self._content.read(min(self._sizes.size, end - at))
        if len(told) < self._sizes.size:
            return [], f"a sample of {end - at} bytes that ends within the sizes of its values"
        of_values = iter(self._sizes.unpack(told))
        sizes = [next(of_values) if size is None else size for *_, size in self._columns]
        at += self._sizes.size
        if at + sum(sizes) != end:
            return [], f"its values are said to take {sum(sizes)} bytes, and it has {end - at} for them"
        values = []
        for number, size in enumerate(sizes):
            if number in self._wanted:
                if size > self._most:
                    return [], f"column {self._columns[number][0]!r}: {too_large(size, self._most)}"
                self._content.skip_to(at)
                values.append(self._content.read(size))
                if len(values[-1]) < size:
                    raise self._fault(f"it ends before byte {at + size}")
            at += size
        return values, ""


def is_hash_known(name: str) -> bool:
    """Tell whether a hash of that name can be checked."""
    return bool(_hashes({name: ""}))


def _hashes(names: Iterable[str]) -> dict[str, _Hash]:
    """Return those of the hashes that hashlib or xxhash knows."""
    made: dict[str, _Hash] = {}
    for name in names:
        if name in xxhash.algorithms_available:
            made[name] = getattr(xxhash, name)()
        elif name in hashlib.algorithms_available and not name.startswith("shake_"):
            with contextlib.suppress(ValueError):  # known to OpenSSL, and switched off
                made[name] = hashlib.new(name, usedforsecurity=False)
    return made
