import numpy as np
from numpy.typing import NDArray

READ_GOOD: int
READ_CHANGED: int
STAT_OTHER: int

def read_files(
    paths: list[bytes],
    sizes: NDArray[np.int64],
    mtimes_ns: NDArray[np.int64],
    inodes: NDArray[np.uint64],
    out: memoryview | NDArray[np.uint8],
    statuses: NDArray[np.int32],
) -> int: ...
def stat_files(
    folder: bytes,
    names: list[bytes],
    sizes: NDArray[np.int64],
    mtimes_ns: NDArray[np.int64],
    ctimes_ns: NDArray[np.int64],
    inodes: NDArray[np.uint64],
    statuses: NDArray[np.int32],
) -> None: ...
def start_writeback(fd: int, offset: int, length: int) -> None: ...
