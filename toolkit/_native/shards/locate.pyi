import os
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.body import Body

class FileIdentity:
    def __new__(cls, path: bytes, status: os.stat_result) -> Self: ...
    def changed(self) -> bool: ...
    def rewritten(self) -> bool: ...

class Locator:
    def __init__(
        self,
        starts: NDArray[np.int64],
        open_table: Callable[[int], tuple[NDArray[np.int64], int]],
        open_batch: Callable[[int], tuple[Body, FileIdentity]],
        want_batches: Callable[[list[int]], object],
        keep: int,
    ) -> None: ...
    def locate(self, rows: NDArray[np.int64], inner: NDArray[np.int64]) -> list[Body]: ...
