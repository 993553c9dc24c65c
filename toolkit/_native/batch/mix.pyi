from typing import Final

import numpy as np
from numpy.typing import NDArray

BLENDED: Final[tuple[str, ...]]

def blend(
    values: NDArray[np.uint8], item: int, dtype: str, pairs: NDArray[np.int64], shares: NDArray[np.float32]
) -> None: ...
def swap_boxes(
    values: NDArray[np.uint8],
    planes: int,
    height: int,
    width: int,
    pixel: int,
    pairs: NDArray[np.int64],
    boxes: NDArray[np.int64],
) -> None: ...
def paste_boxes(
    values: NDArray[np.uint8],
    planes: int,
    height: int,
    width: int,
    channels: int,
    dtype: str,
    pairs: NDArray[np.int64],
    boxes: NDArray[np.int64],
) -> None: ...
