from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.locate import Locator

OTHER: int
BINARY: int
TEXT: int
BOOL: int

class SampleReader:
    def __init__(self, locator: Locator) -> None: ...
    def add(self, name: str, code: int, validity: NDArray[np.int32], offsets: int, data: int, width: int) -> None: ...
    def read(self, row: int) -> dict[str, Any] | tuple[int, int, int]: ...
