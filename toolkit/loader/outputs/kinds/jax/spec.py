"""JAX as an output: arrays over the memory that was filled, or placed by a sharding over devices and processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from toolkit.loader.outputs.spec import Arrays, OutputSpec, PlacementOption, RowPlacement
from toolkit.loader.outputs.values import Converter

__all__ = ["SPEC"]


class JaxOutput(OutputSpec):
    """JAX arrays on the default device; with `sharding`, of the global batch."""

    name = "jax"
    package = "jax"
    extra = "jax"
    options: ClassVar[Mapping[str, PlacementOption]] = {
        "sharding": PlacementOption("sharding= gives JAX arrays: say output='jax', got {output!r}", implies=True)
    }

    def _converter(self) -> Converter:
        from toolkit.loader.outputs.kinds.jax.arrays import convert

        return convert

    def collector(self) -> Callable[[], None]:
        """Return JAX's own collector."""
        from toolkit.loader.outputs.kinds.jax.arrays import free_dead_arrays

        collect: Callable[[], None] = free_dead_arrays
        return collect

    def arrays(self, *, device: Any = None, sharding: Any = None) -> Arrays:
        """Return what gives arrays on the default device, or as `sharding` says."""
        host = super().arrays()
        if sharding is None:
            return host
        from toolkit.loader.outputs.kinds.jax.mesh import MeshArrays

        return MeshArrays(sharding)

    def rows(self, sharding: Any = None) -> RowPlacement:
        """Return what gives arrays on the default device, or as `sharding` says."""
        host = super().rows()
        if sharding is None:
            return host
        from toolkit.loader.outputs.kinds.jax.placement import Placement, process_count

        placement = Placement(sharding)
        return RowPlacement(placement.place, placement.ranges, process_count())

    def ready(self) -> Callable[[Iterable[Any]], object]:
        """Start JAX's backend; its arrays come before they are computed."""
        self.converter()
        import jax

        jax.block_until_ready(jax.numpy.zeros(1))
        return lambda arrays: jax.block_until_ready(list(arrays))

    def registrar(self) -> Callable[[type[Mapping[str, Any]]], None] | None:
        """Return what lets JAX take batches as pytrees."""
        return _register


def _register(kind: type[Mapping[str, Any]]) -> None:
    from toolkit.loader.outputs.kinds.jax.tree import register

    register(kind)


SPEC = JaxOutput()
