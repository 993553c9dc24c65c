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

class ShardMap:
    length: int
    def __new__(cls, fd: int, length: int) -> Self: ...
    def will_need(self, offset: int, length: int) -> None: ...
    def read(self, offset: int, length: int) -> bytes | None: ...

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
