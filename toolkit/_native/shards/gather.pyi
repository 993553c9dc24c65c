import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.body import Body

def find_values(
    bodies: list[Body],
    rows: NDArray[np.int64],
    validity: NDArray[np.int32],
    offsets: int,
    data: int,
    offset_width: int,
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    statuses: NDArray[np.int32],
    bad_chunks: NDArray[np.int64],
) -> None: ...
def gather_values(
    bodies: list[Body],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    places: NDArray[np.int64],
    statuses: NDArray[np.int32],
    bad_chunks: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int: ...
def gather_windows(
    bodies: list[Body],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    strides: NDArray[np.int64],
    inside: NDArray[np.int64],
    statuses: NDArray[np.int32],
    bad_chunks: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> int: ...
