import numpy as np
from numpy.typing import NDArray

def permute(n: int, key: int, positions: NDArray[np.int64], out: NDArray[np.int64]) -> None: ...
