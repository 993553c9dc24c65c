from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.body import Body

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
