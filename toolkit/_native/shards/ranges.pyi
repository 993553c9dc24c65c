from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.fetch import FetchBuffer

RANGE_GONE: int
RANGE_KIND: int
RANGE_LINK: int
RANGE_SHORT: int
RANGE_SUM: int
RANGE_STAT: int
RANGE_PLACE: int
RANGE_ROOT: int
RANGE_ERRNO: int

def read_range(
    root: int, path: bytes, offset: int, length: int, sums: bytes | None, size: int = -1, mtime_ns: int = -1
) -> bytes | None: ...

class Ranges:
    def __new__(
        cls,
        roots: NDArray[np.int32],
        paths: Sequence[bytes | None],
        offsets: NDArray[np.int64],
        lengths: NDArray[np.int64],
        sums: Sequence[bytes | None],
        sizes: NDArray[np.int64] | None = None,
        mtimes_ns: NDArray[np.int64] | None = None,
        *,
        walk: bool = False,
    ) -> Self: ...
    def look(self, statuses: NDArray[np.int32], bad_chunks: NDArray[np.int64]) -> int: ...
    def read(
        self,
        places: NDArray[np.int64],
        out: NDArray[np.uint8],
        statuses: NDArray[np.int32],
        bad_chunks: NDArray[np.int64],
    ) -> int: ...
    def read_into(
        self,
        into: FetchBuffer,
        addresses: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        statuses: NDArray[np.int32],
        bad_chunks: NDArray[np.int64],
    ) -> int: ...
    def take(self, statuses: NDArray[np.int32], bad_chunks: NDArray[np.int64]) -> tuple[list[bytes | None], int]: ...
