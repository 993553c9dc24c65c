"""JAX arrays of token batches, placed by a sharding: each process fills and gives the rows that its devices hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.loader.device.jax_arrays import free_dead_arrays, narrowed

__all__ = ["Placement", "process_count"]


def process_count() -> int:
    """Return how many processes share the devices."""
    return int(jax.process_count())


class Placement:
    """A sharding of (rows, seq_len)."""

    def __init__(self, sharding: Any) -> None:
        if not isinstance(sharding, jax.sharding.Sharding):
            raise UsageError(f"sharding must be a jax.sharding.Sharding, got {type(sharding).__name__}")
        self._sharding = sharding
        self._known: dict[tuple[int, int], tuple[list[tuple[int, int]], list[tuple[Any, slice, slice]]]] = {}

    def ranges(self, shape: tuple[int, int]) -> Sequence[tuple[int, int]]:
        """Return the rows [low, high) that this process' devices hold, in order, each once.

        Raises:
            UsageError: The sharding doesn't divide the shape.
        """
        return self._plan(shape)[0]

    def place(self, local: NDArray[Any], shape: tuple[int, int]) -> Any:
        """Return the global array; `local` has the rows of ranges(shape). CPU devices use its memory as it is."""
        free_dead_arrays()
        local = narrowed(local)
        parts = [jax.device_put(local[rows, columns], device) for device, rows, columns in self._plan(shape)[1]]
        return jax.make_array_from_single_device_arrays(shape, self._sharding, parts)

    def _plan(self, shape: tuple[int, int]) -> tuple[list[tuple[int, int]], list[tuple[Any, slice, slice]]]:
        known = self._known.get(shape)
        if known is None:
            known = self._known[shape] = self._planned(shape)
        return known

    def _planned(self, shape: tuple[int, int]) -> tuple[list[tuple[int, int]], list[tuple[Any, slice, slice]]]:
        try:
            self._sharding.shard_shape(shape)
        except ValueError as error:
            raise UsageError(f"a batch of {shape} can't be placed by {self._sharding}: {error}") from error
        indices = self._sharding.addressable_devices_indices_map(shape)
        spans = {
            device: [index.indices(size)[:2] for index, size in zip(of, shape, strict=True)]
            for device, of in indices.items()
        }
        ranges: list[tuple[int, int]] = []
        for low, high in sorted({tuple(rows) for rows, _ in spans.values()}):
            if ranges and low <= ranges[-1][1]:
                ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
            else:
                ranges.append((low, high))
        begins = np.concatenate(([0], np.cumsum([high - low for low, high in ranges])))
        parts = []
        for device, ((low, high), (left, right)) in spans.items():
            which = next(i for i, (first, last) in enumerate(ranges) if first <= low and high <= last)
            start = int(begins[which]) + low - ranges[which][0]
            parts.append((device, slice(start, start + high - low), slice(left, right)))
        return ranges, parts
