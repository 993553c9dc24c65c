"""Torch tensors on a device: to CUDA by copies from page-locked memory on a stream of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from toolkit.errors import UsageError
from toolkit.escapes import short
from toolkit.loader.outputs.kinds.torch.arrays import convert
from toolkit.loader.outputs.kinds.torch.page_locked import CopyEvent, HeldCopies, PageLocked
from toolkit.loader.outputs.values import convert_columns, each_inside
from toolkit.memory.pool import Allocate, aligned

__all__ = ["CopiedArrays", "CopyDriver", "MovedArrays", "device_arrays"]

_PORTABLE = 1  # cudaHostRegisterPortable: locked for every CUDA context of the process


def device_arrays(device: Any) -> MovedArrays | CopiedArrays | None:
    """Return what gives tensors on `device`; None for "cpu", where they lie already.

    Raises:
        UsageError: torch knows no such device, or can't use it here.
    """
    try:
        wanted = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise UsageError(
            f"device={short(device, 80, quoted=True)} is no device of torch: {short(error, 240).splitlines()[0]}"
        ) from error
    if wanted.type == "cpu":
        return None
    if wanted.type == "cuda":
        _check_cuda(wanted)
        return CopiedArrays(Cuda(wanted))
    try:
        torch.empty(1).to(wanted)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise UsageError(f"device={str(wanted)!r} can't be used here: {str(error).splitlines()[0]}") from error
    return MovedArrays(wanted)


class MovedArrays:
    """Tensors copied to a device when a batch is delivered."""

    allocate: Allocate = staticmethod(aligned)
    mesh = None

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


class CopyDriver(Protocol):
    """A device that copies for itself, from memory that it has locked."""

    def lock(self, address: int, nbytes: int) -> object:
        """Page-lock memory. Raises RuntimeError."""

    def unlock(self, address: int) -> object:
        """Undo lock()."""

    def stream(self) -> AbstractContextManager[None]:
        """Return in what copy() and mark() are to be called, by the consumer's thread."""

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor on the device, and begin to fill it."""

    def mark(self) -> CopyEvent:
        """Let the consumer's work on the device wait for the copies so far; return what passes when they are done."""


class CopiedArrays:
    """Tensors that a device copies for itself while the consumer and earlier work on the device go on.

    The block copied from goes back to the loader when its copy is done.
    """

    mesh = None

    def __init__(self, driver: CopyDriver) -> None:
        self._driver = driver
        self._copies = HeldCopies()
        self.allocate: Allocate = PageLocked(driver.lock, driver.unlock).allocate

    def columns(self, columns: Mapping[str, Any], dtypes: Mapping[str, str | None]) -> dict[str, Any]:
        """Return the columns as tensors on the device, on their way there."""
        self.collect()
        with self._driver.stream():
            try:
                return _each(columns, dtypes, self._driver.copy)
            finally:  # where memory of the device runs out, too: other columns are on their way
                self._copies.hold(self._driver.mark(), dict(columns))

    def mask(self, mask: NDArray[np.bool_]) -> Any:
        """Return it as it is."""
        return mask

    def collect(self) -> None:
        """Give back the memory of copies that are done."""
        self._copies.drop_done()


class Cuda:
    """Copies on a CUDA stream of their own. The stream that is the consumer's at that time waits for them."""

    def __init__(self, device: torch.device) -> None:
        self._stream = torch.cuda.Stream(device)
        self._device = self._stream.device  # with its index: "cuda" may mean another one in another thread
        self._runtime = torch.cuda.cudart()
        self._consumer = torch.cuda.current_stream(self._device)

    def lock(self, address: int, nbytes: int) -> object:
        """Register memory for every CUDA context of the process. Raises torch.cuda.CudaError, a RuntimeError."""
        return torch.cuda.check_error(self._runtime.cudaHostRegister(address, nbytes, _PORTABLE))

    def unlock(self, address: int) -> object:
        """Unregister it."""
        return self._runtime.cudaHostUnregister(address)

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Copy on the stream of copies, for the one that is current now."""
        self._consumer = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            yield

    def copy(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return the tensor's copy, whose memory stays until the consumer's stream is done with it."""
        there = tensor.to(self._device, non_blocking=True)
        there.record_stream(self._consumer)
        return there

    def mark(self) -> CopyEvent:
        """Let the consumer's stream wait, on the device."""
        event = torch.cuda.Event()
        event.record(self._stream)
        self._consumer.wait_event(event)
        return event  # type: ignore[no-any-return]  # torch's types aren't followed


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
    return convert_columns(columns, dtypes, lambda name, values, dtype: _moved(convert(values, dtype), move))


def _moved(values: Any, move: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    return move(values) if isinstance(values, torch.Tensor) else each_inside(values, lambda one: _moved(one, move))
