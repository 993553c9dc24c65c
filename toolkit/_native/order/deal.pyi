import numpy as np
from numpy.typing import NDArray

def deal(key: int, quotas: NDArray[np.int64], sources: NDArray[np.int32], numbers: NDArray[np.int32]) -> None: ...
