from typing import Final

import numpy as np
from numpy.typing import NDArray

MAX_CHANNELS: Final[int]
FLOATS: Final[tuple[str, ...]]

def normalize_pixels(
    pixels: NDArray[np.uint8],
    out: NDArray[np.float32],
    there: NDArray[np.uint8],
    inner: int,
    scale: NDArray[np.float32],
    bias: NDArray[np.float32],
) -> None: ...
def normalize_floats(
    values: NDArray[np.uint8],
    dtype: str,
    there: NDArray[np.uint8],
    inner: int,
    mean: NDArray[np.float64],
    std: NDArray[np.float64],
) -> None: ...
