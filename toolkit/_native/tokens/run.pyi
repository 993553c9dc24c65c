from typing import Self

import numpy as np
from numpy.typing import NDArray

from toolkit._native.tokens.gather import TokenShard

class TokenRun:
    shards: int
    tokens: int
    width: int
    def __new__(cls, shard_tokens: NDArray[np.int64], width: int) -> Self: ...
    @property
    def open_shards(self) -> int: ...
    def close_shards(self) -> None: ...
    def attach(self, shard: int, run: TokenShard) -> None: ...
    def take_touched(self) -> list[int]: ...
    def gather(
        self,
        starts: NDArray[np.int64],
        counts: NDArray[np.int64],
        places: NDArray[np.int64],
        tokens: NDArray[np.uint8],
        out_width: int,
        row_tokens: int,
        *,
        block: int = 0,
        key: int = 0,
        targets: NDArray[np.uint8] | None = None,
        segments: NDArray[np.int32] | None = None,
        positions: NDArray[np.int32] | None = None,
        mask_junctions: bool = False,
    ) -> tuple[list[int], tuple[int, int, int, int] | None]: ...
