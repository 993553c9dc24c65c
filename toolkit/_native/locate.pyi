from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from toolkit._native.chunks import Body

class FileIdentity:
    def __init__(self, path: bytes, device: int, inode: int, size: int, mtime_ns: int) -> None: ...
    def changed(self) -> bool: ...

class Locator:
    def __init__(
        self, starts: NDArray[np.int64], open_batch: Callable[[int], tuple[Body, FileIdentity]], keep: int
    ) -> None: ...
    def locate(self, rows: NDArray[np.int64], inner: NDArray[np.int64]) -> list[Body]: ...
