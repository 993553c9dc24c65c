import numpy as np
from numpy.typing import NDArray

def hash_values(
    offsets: NDArray[np.int32] | NDArray[np.int64], data: NDArray[np.uint8], seed: int, out: NDArray[np.uint64]
) -> None: ...
def hash_numbers(values: NDArray[np.int64], seed: int, out: NDArray[np.uint64]) -> None: ...
