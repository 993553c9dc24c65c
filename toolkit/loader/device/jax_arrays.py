"""JAX arrays over a batch's memory.

On a CPU device JAX aliases host memory that lies on a 64-byte boundary and has the dtype it wants; elsewhere it copies.
It frees a dead array's host memory late, when its own collector runs (jax 0.10: references are parked until then), so
the collector is asked to run before each batch is handed over: 0.1 microseconds, and blocks come back in time.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from toolkit.errors import LoaderError

__all__ = ["convert", "free_dead_arrays", "narrowed", "typed"]

try:
    from jax._src.lib import _jax

    free_dead_arrays = _jax.collect_garbage
except (ImportError, AttributeError):  # a private name: without it blocks come back at Python's next collection

    def free_dead_arrays() -> None:
        """Do nothing."""


def convert(values: Any, dtype: str | None = None) -> Any:
    """Return a JAX array on the default device. int64 becomes int32 unless jax_enable_x64 is set, as JAX has it.

    Raises:
        LoaderError: A whole number doesn't fit the narrower type: JAX itself would wrap it around.
    """
    if isinstance(values, list):
        return [convert(value, dtype) for value in values]
    if not isinstance(values, np.ndarray):
        return values
    free_dead_arrays()
    return jax.device_put(narrowed(typed(values, dtype)))


def typed(values: NDArray[Any], dtype: str | None) -> NDArray[Any]:
    """Return the array as what its numbers mean: numpy has no bfloat16 and holds uint16."""
    return values.view(jax.dtypes.bfloat16) if dtype == "bfloat16" and values.dtype == np.uint16 else values


def narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Return the array in the dtype that JAX makes of it. Raises LoaderError when a number doesn't fit that."""
    wanted = jax.dtypes.canonicalize_dtype(values.dtype)
    if values.dtype == wanted:
        return values
    made: NDArray[Any] = values.astype(wanted)
    if values.dtype.kind in "iu" and (made != values).any():
        wide = values[made != values].flat[0]
        raise LoaderError(
            f"{wide} is no {wanted}, which JAX makes of {values.dtype}: "
            "jax.config.update('jax_enable_x64', True), or leave the column out with columns="
        )
    return made
