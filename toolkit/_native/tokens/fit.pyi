import numpy as np
from numpy.typing import NDArray

def fit_rows(
    lengths: NDArray[np.int64], capacity: int, best: bool, rows: NDArray[np.int64], places: NDArray[np.int64]
) -> int: ...
