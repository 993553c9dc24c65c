import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

def when_gone(thing: object, done: Callable[[], object]) -> None: ...

class GiveBack:
    def __new__(
        cls,
        pool: weakref.ref[Any],
        free: deque[NDArray[np.uint8]],
        block: NDArray[np.uint8],
        returned: Callable[[], object] | None,
        puts: tuple[Callable[[int], object], ...],
    ) -> Self: ...
    def __call__(self) -> None: ...

class Held:
    other: int
    blocks: dict[str, int]
    def _stand_in(self, table: dict[int, Any], number: int, puts: tuple[Callable[[int], object], ...]) -> None: ...
    def drop_block(self, column: str) -> None: ...
    def end(self) -> None: ...
