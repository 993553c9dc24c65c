from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

_Bytes = bytes | bytearray | memoryview | NDArray[np.uint8]

CHUNK_BYTES: int
READ_OK: int
READ_NULL: int
READ_CRC: int
READ_FAULT: int
READ_RANGE: int
READ_TEXT: int
READ_ITEMS: int

def crc32c(data: _Bytes, crc: int = 0, *, table: bool = False) -> int: ...
def crc32c_backend() -> str: ...

class ChunkSums:
    def update(self, data: _Bytes) -> None: ...
    def digest(self) -> bytes: ...

class ShardMap:
    length: int
    def __new__(cls, fd: int, length: int) -> Self: ...

class Body:
    rows: int
    buffer_count: int
    def __new__(
        cls,
        shard: ShardMap,
        offset: int,
        length: int,
        rows: int,
        sums: bytes,
        buffers: NDArray[np.int64],
        remember: bool = True,
    ) -> Self: ...
    def buffer(self, number: int) -> tuple[int, int]: ...
    @property
    def checked_chunks(self) -> int: ...
    def read(self, start: int, out: _Bytes) -> tuple[int, int]: ...

class FetchBuffer:
    nbytes: int
    room: Callable[[int], object] | None
    def take(self, address: int, length: int) -> bytes: ...

def fetch_fixed(
    bodies: list[Body],
    rows: NDArray[np.int64],
    validity: NDArray[np.int32],
    data: int,
    width: int,
    out: NDArray[np.uint8],
    statuses: NDArray[np.int32],
    bad_chunks: NDArray[np.int64],
) -> int: ...
def fetch_binary(
    bodies: list[Body],
    rows: NDArray[np.int64],
    validity: NDArray[np.int32],
    offsets: int,
    data: int,
    offset_width: int,
    into: FetchBuffer,
    addresses: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    statuses: NDArray[np.int32],
    bad_chunks: NDArray[np.int64],
) -> int: ...
def fetch_bytes(
    bodies: list[Body],
    rows: NDArray[np.int64],
    validity: NDArray[np.int32],
    offsets: int,
    data: int,
    offset_width: int,
    statuses: NDArray[np.int32],
    bad_chunks: NDArray[np.int64],
) -> tuple[list[bytes | None], int]: ...
