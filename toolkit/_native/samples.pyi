from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.chunks import Body

OTHER: int
BINARY: int
TEXT: int
BOOL: int

class FileIdentity:
    def __init__(self, path: bytes, device: int, inode: int, size: int, mtime_ns: int) -> None: ...
    def changed(self) -> bool: ...

class SampleReader:
    def __init__(
        self, starts: NDArray[np.int64], open_batch: Callable[[int], tuple[Body, FileIdentity]], keep: int
    ) -> None: ...
    def add(self, name: str, code: int, validity: NDArray[np.int32], offsets: int, data: int, width: int) -> None: ...
    def read(self, row: int) -> dict[str, Any] | tuple[int, int, int]: ...
