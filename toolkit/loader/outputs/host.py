"""Arrays over the very memory that a batch was filled in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.loader.outputs.values import Converter, convert_columns
from toolkit.memory.pool import aligned

__all__ = ["HostArrays"]


class HostArrays:
    """Arrays over host memory, which they keep alive, or of its values."""

    allocate = staticmethod(aligned)
    mesh = None

    def __init__(self, convert: Converter, collect: Callable[[], None]) -> None:
        """See OutputSpec.converter() and collector()."""
        self._convert = convert
        self.collect = collect

    def columns(self, columns: Mapping[str, Any], dtypes: Mapping[str, str | None]) -> dict[str, Any]:
        """Return the columns over the same memory."""
        return convert_columns(columns, dtypes, lambda name, values, dtype: self._convert(values, dtype))

    def mask(self, mask: NDArray[np.bool_]) -> Any:
        """Return it as it is."""
        return mask
