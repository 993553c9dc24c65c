"""JAX arrays placed by a sharding over several devices or processes: each process fills and gives what it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.loader.outputs.kinds.jax.arrays import free_dead_arrays, narrowed
from toolkit.loader.outputs.spec import RowRange

__all__ = ["Placement", "process_count", "process_index", "process_ranges"]

_Plan = tuple[list[RowRange], list[tuple[Any, tuple[slice, ...]]]]


def process_count() -> int:
    """Return how many processes share the devices."""
    return int(jax.process_count())


def process_index() -> int:
    """Return which of them this is."""
    return int(jax.process_index())


def process_ranges(sharding: Any, rows: int) -> dict[int, list[RowRange]]:
    """Return the rows that each process' devices hold of an array (rows,), by process: in order, each once."""
    spans: dict[int, set[RowRange]] = {}
    for device, (index,) in sharding.devices_indices_map((rows,)).items():
        spans.setdefault(device.process_index, set()).add(index.indices(rows)[:2])
    return {process: _merged(spans[process]) for process in sorted(spans)}


class Placement:
    """A sharding of arrays whose first axis are the rows of a global batch."""

    def __init__(self, sharding: Any) -> None:
        if not isinstance(sharding, jax.sharding.Sharding):
            raise UsageError(f"sharding must be a jax.sharding.Sharding, got {type(sharding).__name__}")
        self._sharding = sharding
        self._known: dict[tuple[int, ...], _Plan] = {}

    def ranges(self, shape: tuple[int, ...]) -> Sequence[RowRange]:
        """Return the rows [low, high) that this process' devices hold, in order, each once.

        Raises:
            UsageError: The sharding doesn't divide the shape, or has no device of this process.
        """
        return self._plan(shape)[0]

    def place(self, local: NDArray[Any], shape: tuple[int, ...]) -> Any:
        """Return the global array; `local` has the rows of ranges(shape). CPU devices use its memory as it is."""
        free_dead_arrays()
        local = narrowed(local)
        parts = [jax.device_put(local[index], target) for target, index in self._plan(shape)[1]]
        return jax.make_array_from_single_device_arrays(shape, self._sharding, parts)

    def _plan(self, shape: tuple[int, ...]) -> _Plan:
        known = self._known.get(shape)
        if known is None:
            known = self._known[shape] = self._planned(shape)
        return known

    def _planned(self, shape: tuple[int, ...]) -> _Plan:
        try:
            self._sharding.shard_shape(shape)
        except ValueError as error:
            raise UsageError(f"a batch of {shape} can't be placed by {self._sharding}: {error}") from error
        spans = {
            device: [index.indices(size)[:2] for index, size in zip(of, shape, strict=True)]
            for device, of in self._sharding.addressable_devices_indices_map(shape).items()
        }
        if not spans:
            raise UsageError(
                f"{self._sharding} has no device of this process ({process_index()} of {process_count()}): "
                "make the mesh of jax.devices(), or load in those processes only whose devices are in it"
            )
        ranges = _merged({rows for rows, *_ in spans.values()})
        begins = np.concatenate(([0], np.cumsum([high - low for low, high in ranges])))
        parts = []
        for device, ((low, high), *others) in spans.items():
            which = next(i for i, (first, last) in enumerate(ranges) if first <= low and high <= last)
            start = int(begins[which]) + low - ranges[which][0]
            parts.append(
                (
                    _target(device, self._sharding.memory_kind),
                    (slice(start, start + high - low), *(slice(*other) for other in others)),
                )
            )
        return ranges, parts


def _target(device: Any, memory_kind: str | None) -> Any:
    """Return where device_put() is to put what a device holds: its own memory, or another kind that it can use."""
    if memory_kind in (None, device.default_memory().kind):
        return device
    return jax.sharding.SingleDeviceSharding(device, memory_kind=memory_kind)


def _merged(spans: set[RowRange]) -> list[RowRange]:
    ranges: list[RowRange] = []
    for low, high in sorted(spans):
        if ranges and low <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(high, ranges[-1][1]))
        else:
            ranges.append((low, high))
    return ranges
