from typing import Self

import numpy as np
from numpy.typing import NDArray

class BatchMessage:
    rows: int
    body_bytes: int
    buffers: NDArray[np.int64]
    metadata: dict[str, bytes]
    def __new__(cls, message: bytes) -> Self: ...
    def places_fault(self, empty: NDArray[np.int32], head: int, head_bytes: int) -> str | None: ...

def decode_base64(text: bytes) -> bytes: ...
