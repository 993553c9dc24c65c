"""Torch tensors on a device: to CUDA by copies from page-locked memory on a stream of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.loader.device.page_locked import HeldCopies, PageLocked
from toolkit.loader.device.torch_arrays import convert
from toolkit.memory.pool import Allocate, aligned

__all__ = ["CudaArrays", "MovedArrays", "device_arrays"]

_PORTABLE = 1  # cudaHostRegisterPortable: locked for every CUDA context of the process


def device_arrays(device: Any) -> MovedArrays | CudaArrays | None:
    """Return what gives tensors on `device`; None for "cpu", where they lie already.

    Raises:
        UsageError: torch knows no such device, or can't use it here.
    """
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UsageError(f"device={device!r} is no device of torch: {str(error).splitlines()[0]}") from error
    if wanted.type == "cpu":
        return None
    if wanted.type == "cuda":
        _check_cuda(wanted)
        return CudaArrays(wanted)
    try:
        torch.empty(1).to(wanted)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"device={str(wanted)!r} can't be used here: {str(error).splitlines()[0]}") from error
    return MovedArrays(wanted)


class MovedArrays:
    """Tensors copied to a device when a batch is delivered."""

    allocate: Allocate = staticmethod(aligned)

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def columns(self, columns: Mapping[str, Any], dtypes: Mapping[str, str | None]) -> dict[str, Any]:
        """Return the columns as tensors on the device."""
        return _each(columns, dtypes, lambda tensor: tensor.to(self._device))

    def mask(self, mask: NDArray[np.bool_]) -> Any:
        """Return it as it is."""
        return mask

    def collect(self) -> None:
        """Do nothing: tensors keep no memory of ours."""


class CudaArrays:
    """Tensors that a CUDA device copies for itself while the consumer and earlier kernels go on.

    Copies run on a stream of their own; the stream that is the consumer's at delivery waits for them, on the device and
    not on the CPU. The block copied from goes back to the loader when its copy is done.
    """

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)
        self._device = self._stream.device  # with its index: "cuda" may mean another one in another thread
        self._copies = HeldCopies()
        runtime = torch.cuda.cudart()
        self.allocate: Allocate = PageLocked(
            lambda address, nbytes: torch.cuda.check_error(runtime.cudaHostRegister(address, nbytes, _PORTABLE)),
            runtime.cudaHostUnregister,
        ).allocate

    def columns(self, columns: Mapping[str, Any], dtypes: Mapping[str, str | None]) -> dict[str, Any]:
        """Return the columns as tensors on the device, on their way there."""
        self.collect()
        consumer = torch.cuda.current_stream(self._device)

        def copied(tensor: torch.Tensor) -> torch.Tensor:
            there = tensor.to(self._device, non_blocking=True)
            there.record_stream(consumer)  # its memory is the copies' stream's, and stays until the consumer's is done
            return there

        with torch.cuda.stream(self._stream):
            event = torch.cuda.Event()
            try:
                return _each(columns, dtypes, copied)
            finally:  # where memory of the device runs out, too: copies may be on their way
                event.record(self._stream)
                consumer.wait_event(event)
                self._copies.hold(event, dict(columns))

    def mask(self, mask: NDArray[np.bool_]) -> Any:
        """Return it as it is."""
        return mask

    def collect(self) -> None:
        """Give back the memory of copies that are done."""
        self._copies.drop_done()


def _check_cuda(device: torch.device) -> None:
    if not torch.cuda.is_available():
        why = (
            "has no CUDA" if torch.version.cuda is None else f"is built for CUDA {torch.version.cuda} and finds no GPU"
        )
        raise UsageError(
            f"device={str(device)!r}: torch {torch.__version__} {why}. Install a torch with CUDA where there is an "
            "NVIDIA GPU and driver (nvidia-smi lists them), or leave device= out for tensors on the CPU"
        )
    there = torch.cuda.device_count()
    if device.index is not None and device.index >= there:
        raise UsageError(f"device={str(device)!r}: there are {there} CUDA devices, cuda:0 to cuda:{there - 1}")


def _each(
    columns: Mapping[str, Any], dtypes: Mapping[str, str | None], move: Callable[[torch.Tensor], torch.Tensor]
) -> dict[str, Any]:
    return {name: _moved(convert(values, dtypes.get(name)), move) for name, values in columns.items()}


def _moved(values: Any, move: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(values, list):
        return [_moved(value, move) for value in values]
    return move(values) if isinstance(values, torch.Tensor) else values
