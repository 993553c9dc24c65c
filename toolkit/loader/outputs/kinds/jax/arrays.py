"""JAX arrays over a batch's memory.

On a CPU device JAX aliases host memory that lies on a 64-byte boundary and has the dtype it wants; elsewhere it copies.
It frees a dead array's host memory late, when its own collector runs (jax 0.10: references are parked until then), so
the collector is asked to run before each batch is handed over: 0.1 microseconds, and blocks come back in time.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from toolkit.loader.outputs.values import UnfitValueError, each_inside, unfit
from toolkit.pipelines.arrays import plain_array

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
        UnfitValueError: JAX has no such dtype; the array is masked; or a number doesn't fit the narrower dtype: JAX
            itself would wrap a whole number around, and make a finite one infinite.
    """
    if not isinstance(values, np.ndarray):
        return each_inside(values, lambda value: convert(value, dtype))
    free_dead_arrays()
    return jax.device_put(narrowed(typed(values, dtype)))


def typed(values: NDArray[Any], dtype: str | None) -> NDArray[Any]:
    """Return the array as what its numbers mean: numpy has no bfloat16 and holds uint16."""
    return values.view(jax.dtypes.bfloat16) if dtype == "bfloat16" and values.dtype == np.uint16 else values


@functools.cache
def _has(dtype: np.dtype[Any]) -> bool:
    try:
        jax.device_put(np.empty(0, dtype))
    except TypeError:
        return False
    return True


def narrowed(values: NDArray[Any]) -> NDArray[Any]:
    """Return the array in the dtype that JAX makes of it. Raises UnfitValueError as convert()."""
    try:
        values = plain_array(values)
    except ValueError as error:
        raise UnfitValueError(str(error)) from error
    if not _has(values.dtype):
        raise unfit("JAX", values.dtype)
    wanted = jax.dtypes.canonicalize_dtype(values.dtype)
    if values.dtype == wanted:
        return values
    with np.errstate(over="ignore"):
        made: NDArray[Any] = values.astype(wanted)
    bad = made != values if values.dtype.kind in "iu" else np.isinf(made) & np.isfinite(values)
    if bad.any():
        raise UnfitValueError(
            f"{values[bad].flat[0]} is no {wanted}, which JAX makes of {values.dtype}: "
            "jax.config.update('jax_enable_x64', True), or leave the column out with columns="
        )
    return made
