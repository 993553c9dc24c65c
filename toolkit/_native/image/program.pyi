from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

# A C-contiguous buffer of bytes: bytes, bytearray, memoryview or a uint8 array.
_Bytes = bytes | bytearray | memoryview | NDArray[np.uint8]

OK: int
NOT_JPEG: int
UNSUPPORTED: int
TRUNCATED: int
CORRUPT: int
TOO_LARGE: int
NO_MEMORY: int
CUT: int
UNFIT: int
MAX_SIDE: int
MAX_PIXELS: int
MAX_OPS: int
MAX_DEPTH: int
MAX_MIXED: int
MIN_ALPHA: float
MAX_ALPHA: float
MAX_SCANS: int
DTYPES: tuple[str, ...]
FLOATS: tuple[str, ...]

class DrawnLevel(NamedTuple):
    mean: float
    deviation: float
    start: float
    change: float
    whole: bool

class ImageError(ValueError):
    status: int
    def __init__(self, status: int, message: str) -> None: ...

class Scratch:
    room: Callable[[int], str | None] | None
    limit: int
    def __init__(self) -> None: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def own_decodes(self) -> int: ...
    def message(self, index: int) -> str: ...

class ImageProgram:
    def __new__(
        cls,
        ops: Sequence[tuple[Any, ...]],
        *,
        tensor_ops: Sequence[tuple[Any, ...]] = (),
        mode: str = "rgb",
        dtype: str = "uint8",
        layout: str = "hwc",
        scale: Sequence[float] | None = None,
        bias: Sequence[float] | None = None,
        max_pixels: int = 178956970,
        max_bytes: int = ...,
        exif: bool = True,
        icc: bool = False,
        fast: bool = False,
        tolerant: bool = False,
        ignore: int = 0,
        patch: int = 0,
        first_step: int = 1,
    ) -> Self: ...
    @property
    def ops(self) -> tuple[tuple[Any, ...], ...]: ...
    @property
    def tensor_ops(self) -> tuple[tuple[Any, ...], ...]: ...
    @property
    def random(self) -> bool: ...
    @property
    def output_dtype(self) -> np.dtype[Any]: ...
    @property
    def output_shape(self) -> tuple[int, int, int] | None: ...
    def result_size(self, height: int, width: int, key: int | None = None) -> tuple[int, int]: ...
    def run(
        self,
        addresses: NDArray[np.uint64],
        lengths: NDArray[np.int64],
        out_addresses: NDArray[np.uint64],
        out_size_bytes: int,
        scratch: Scratch,
        statuses: NDArray[np.int32],
        keys: NDArray[np.uint64] | None = None,
    ) -> int: ...
    def run_raw(
        self,
        addresses: NDArray[np.uint64],
        sizes: NDArray[np.int64],
        out_addresses: NDArray[np.uint64],
        out_size_bytes: int,
        scratch: Scratch,
        statuses: NDArray[np.int32],
        keys: NDArray[np.uint64] | None = None,
    ) -> int: ...
    def decode(
        self, data: _Bytes, scratch: Scratch, key: int | None = None, warn: Callable[[str], None] | None = None
    ) -> NDArray[Any]: ...
    def apply(self, pixels: NDArray[np.uint8], scratch: Scratch, key: int | None = None) -> NDArray[Any]: ...

def run_together(
    programs: Sequence[ImageProgram],
    addresses: NDArray[np.uint64],
    lengths: NDArray[np.int64],
    out_addresses: NDArray[np.uint64],
    out_sizes_bytes: NDArray[np.int64],
    scratch: Scratch,
    statuses: NDArray[np.int32],
    keys: Sequence[NDArray[np.uint64] | None],
) -> int: ...
def op_table() -> dict[str, tuple[str, dict[str, tuple[float, float] | tuple[str, ...]]]]: ...
def probe(data: _Bytes) -> tuple[int, int, int, int, bool]: ...
def probe_many(addresses: NDArray[np.uint64], lengths: NDArray[np.int64], found: NDArray[np.int32]) -> None: ...
def _decode_eighth(data: _Bytes, scratch: Scratch) -> None: ...
def simd_level() -> str: ...
def _set_simd_level(name: str) -> None: ...
