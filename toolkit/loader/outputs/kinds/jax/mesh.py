"""A loader's batches as JAX arrays of the global batch, placed by NamedShardings: each process reads its part only."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from toolkit.errors import LoaderError, UsageError, did_you_mean
from toolkit.loader.outputs.kinds.jax.arrays import free_dead_arrays, typed
from toolkit.loader.outputs.kinds.jax.placement import Placement, process_index, process_ranges
from toolkit.loader.outputs.spec import RowRange
from toolkit.loader.outputs.values import convert_columns
from toolkit.memory.pool import aligned

__all__ = ["MeshArrays"]


class MeshArrays:
    """Places columns by one sharding for all of them, or by one a column. Built before the first sample is read.

    Attributes:
        rank, world_size: Which of the processes that have devices in the mesh this is, and how many they are.
    """

    allocate = staticmethod(aligned)

    def __init__(self, sharding: Any) -> None:
        """Raises UsageError: no NamedSharding, or one for all columns that cuts more than the batch axis."""
        self._shared: NamedSharding | None = None
        self._named: dict[str, NamedSharding] = {}
        if isinstance(sharding, Mapping):
            self._named = {name: _checked(each, f"sharding[{name!r}]") for name, each in sharding.items()}
            if not self._named:
                raise UsageError("sharding={} names no column: give one for each, or one NamedSharding for all")
        else:
            self._shared = _checked(sharding, "sharding")
            if any(axis is not None for axis in self._shared.spec[1:]):
                raise UsageError(
                    f"{self._shared.spec} for all columns cuts more than their first axis, the batch, and columns "
                    "differ in the others: give a mapping, sharding={column: NamedSharding(...), ...}"
                )
        self._batch_axes = {
            name: NamedSharding(each.mesh, PartitionSpec(*each.spec[:1]), memory_kind=each.memory_kind)
            for name, each in (self._named or {"": self._shared}).items()
        }
        processes = sorted({device.process_index for one in self._batch_axes.values() for device in one.device_set})
        if process_index() not in processes:
            raise UsageError(
                f"the mesh has no device of process {process_index()}, only of {', '.join(map(str, processes))}: make "
                "it of jax.devices(), or load in those processes only"
            )
        self.rank, self.world_size = processes.index(process_index()), len(processes)
        self._placements: dict[str, Placement] = {}
        self._global_batch = 0

    @property
    def mesh(self) -> MeshArrays:
        """Itself: the mesh says what each process reads."""
        return self

    def ranges(self, global_batch: int) -> Sequence[RowRange]:
        """Return the places of a global batch that this process' devices hold.

        Raises:
            UsageError: The batch can't be cut equally, or a process would need other samples for one column than for
                another.
        """
        self._global_batch = global_batch
        found: dict[str, dict[int, list[RowRange]]] = {}
        for name, sharding in self._batch_axes.items():
            parts = _parts(sharding)
            if global_batch % parts:
                whose = f"column {name!r}: " if name else ""
                raise UsageError(
                    f"{whose}a global batch of {global_batch} samples (batch_size times {self.world_size} processes) "
                    f"can't be cut into {parts} equal parts, which {sharding.spec} asks for on a mesh of "
                    f"{dict(sharding.mesh.shape)}: take a multiple of {parts}"
                )
            found[name] = process_ranges(sharding, global_batch)
        first = next(iter(found))
        for name, ranges in found.items():
            if ranges != found[first]:
                process = next(p for p in {**found[first], **ranges} if ranges.get(p) != found[first].get(p))
                raise UsageError(
                    f"process {process} would hold samples {_said(found[first].get(process))} of column {first!r} and "
                    f"{_said(ranges.get(process))} of {name!r}, and reads the same for all columns: cut their first "
                    "axis alike, and replicate what is to be whole everywhere in your jitted function"
                )
        return found[first][process_index()]

    def check(self, names: Sequence[str], shapes: Mapping[str, tuple[int, ...] | None]) -> None:
        """Check batches before any is read: `names` of their columns, and of what is known a sample's shape.

        Raises:
            UsageError: A column is a list (None in `shapes`), has no sharding, or can't be cut by it.
        """
        for name in self._named:
            if name not in names:
                raise UsageError(
                    f"sharding= names {name!r}, and batches have {', '.join(names)}.{did_you_mean(name, names)}"
                )
        for name in names:
            placement, shape = self._placement(name), shapes.get(name, ())
            if shape is None:
                raise UsageError(_is_a_list(name))
            if name in shapes:
                placement.ranges((self._global_batch, *shape))

    def columns(self, columns: Mapping[str, Any], dtypes: Mapping[str, str | None]) -> dict[str, Any]:
        """Return global arrays over this process' samples of each column.

        Raises:
            UsageError, LoaderError: What a batch map made can't be placed; a number doesn't fit JAX's type.
        """
        return convert_columns(columns, dtypes, self._placed)

    def mask(self, mask: NDArray[np.bool_]) -> Any:
        """Return bool (global batch,), cut as the columns are."""
        first = next(iter(self._batch_axes.values()))
        placement = self._placements.setdefault("", Placement(first))
        return placement.place(mask, (self._global_batch,))

    def collect(self) -> None:
        """Let JAX give dead arrays' memory back."""
        free_dead_arrays()

    def _placed(self, name: str, values: Any, dtype: str | None) -> Any:
        if not isinstance(values, np.ndarray):
            raise LoaderError(_is_a_list(name))
        return self._placement(name).place(typed(values, dtype), (self._global_batch, *values.shape[1:]))

    def _placement(self, name: str) -> Placement:
        known = self._placements.get(name)
        if known is None:
            sharding = self._shared or self._named.get(name)
            if sharding is None:
                raise UsageError(
                    f"sharding= has none for column {name!r}: name every column, or leave it out with columns="
                )
            known = self._placements[name] = Placement(sharding if self._named else self._batch_axes[""])
        return known


def _checked(sharding: Any, what: str) -> NamedSharding:
    if not isinstance(sharding, NamedSharding):
        raise UsageError(
            f"{what} must be a jax.sharding.NamedSharding, got {type(sharding).__name__}: "
            "NamedSharding(jax.make_mesh((n,), ('data',)), PartitionSpec('data'))"
        )
    if not isinstance(sharding.mesh, Mesh) or PartitionSpec.UNCONSTRAINED in sharding.spec:
        raise UsageError(f"{what} must say where everything lies, on a mesh of devices, got {sharding}")
    return sharding


def _parts(sharding: NamedSharding) -> int:
    """Return into how many parts a sharding of (samples,) cuts them."""
    axes = sharding.spec[0] if len(sharding.spec) else None
    names = axes if isinstance(axes, tuple) else () if axes is None else (axes,)
    return math.prod(sharding.mesh.shape[name] for name in names)


def _said(ranges: Sequence[RowRange] | None) -> str:
    return ", ".join(f"{low}..{high - 1}" for low, high in ranges) if ranges else "none"


def _is_a_list(name: str) -> str:
    return (
        f"column {name!r} comes as a list, which can't be placed on a mesh: give it a slot with a fixed shape, or "
        "leave it out with columns="
    )
