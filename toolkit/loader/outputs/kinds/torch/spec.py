"""torch as an output: tensors over the memory that was filled, or on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

from toolkit.loader.outputs.spec import Arrays, OutputSpec, PlacementOption
from toolkit.loader.outputs.values import Converter

__all__ = ["SPEC"]


class TorchOutput(OutputSpec):
    """Tensors that share a batch's memory; with `device`, on it."""

    name = "torch"
    package = "torch"
    extra = "torch"
    options: ClassVar[Mapping[str, PlacementOption]] = {
        "device": PlacementOption("device={value!r} is of torch: say output='torch', or leave it out")
    }

    def _converter(self) -> Converter:
        from toolkit.loader.outputs.kinds.torch.arrays import convert

        return convert

    def arrays(self, *, device: Any = None, sharding: Any = None) -> Arrays:
        """Return what gives tensors on `device`; None is the memory that was filled."""
        host = super().arrays()
        if device is None:
            return host
        from toolkit.loader.outputs.kinds.torch.device import device_arrays

        return device_arrays(device) or host

    def ready(self) -> Callable[[Iterable[Any]], object]:
        """Make a first tensor; those on the CPU are there at once."""
        wait = super().ready()
        import torch

        torch.zeros(1)
        return wait


SPEC = TorchOutput()
