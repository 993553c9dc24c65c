import numpy as np
from numpy.typing import NDArray

def permute_sources(
    sizes: NDArray[np.int64],
    keys: NDArray[np.uint64],
    firsts: NDArray[np.int64],
    epoch: int,
    sources: NDArray[np.int64],
    numbers: NDArray[np.int64],
    out: NDArray[np.int64],
) -> None: ...
