"""Run steps on pixels that come from a step in Python: all of a part in one native call where they have one size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image.program import OK, TOO_LARGE, UNFIT, ImageError, ImageProgram, Scratch
from toolkit.pipelines.image.finish import Patchify
from toolkit.pipelines.image.ops import first_too_large, split_steps
from toolkit.pipelines.pixels import PIXEL_MODES
from toolkit.pipelines.step import Step
from toolkit.pipelines.value_step import Call, ValueFaultError, Values

__all__ = ["PixelStretch"]


class PixelStretch:
    """Steps on pixels behind a step in Python, and how they are written. Immutable; used by every worker at once.

    Args:
        steps: The steps, fitted to what they take.
        names: What they draw by.
        channels: Of the pixels: 1, 3 or 4.
        max_pixels: A picture with more is refused.
        first_step: The number of the first one in its slot, for messages.

    Raises:
        ValueError: A step has an argument that the kernels do not take, or steps stand in an order that they do not.
    """

    def __init__(
        self, steps: Sequence[Step], names: Sequence[str], channels: int, *, max_pixels: int, first_step: int
    ) -> None:
        self.steps = tuple(steps)
        self._channels, self._mode, self._max_pixels = channels, PIXEL_MODES[channels], max_pixels
        self._ops, finish, tensor_ops = split_steps(steps, names)
        self._program = ImageProgram(
            self._ops, tensor_ops=tensor_ops, mode=self._mode, max_pixels=max_pixels, first_step=first_step, **finish
        )

    def run(self, values: Values, call: Call) -> Values:
        """Return what the steps make of pixels, none of which is missing. Raises ValueFaultError."""
        pictures = [self._checked(i, value) for i, value in enumerate(values)]
        scratch = call.scratch if call.scratch is not None else Scratch()
        shape = self._program.output_shape
        if shape is None:
            return self._one_by_one(pictures, scratch, call.samples)
        out = np.empty((len(pictures), *shape), self._program.output_dtype)
        if not pictures:
            return out
        addresses = np.array([each.ctypes.data for each in pictures], np.uint64)
        sizes = np.array([each.shape for each in pictures], np.int64)
        places = np.uint64(out.ctypes.data) + np.arange(len(out), dtype=np.uint64) * np.uint64(out[0].nbytes)
        statuses = np.empty(len(pictures), np.int32)
        if self._program.run_raw(addresses, sizes, places, out[0].nbytes, scratch, statuses, call.samples):
            i = int(np.flatnonzero(statuses != OK)[0])
            raise self._fault(i, ImageError(int(statuses[i]), scratch.message(i)), pictures[i], call.samples)
        return out

    def _one_by_one(
        self, pictures: Sequence[NDArray[np.uint8]], scratch: Scratch, keys: NDArray[np.uint64] | None
    ) -> list[Any]:
        made = []
        for i, picture in enumerate(pictures):
            try:
                made.append(self._program.apply(picture, scratch, None if keys is None else int(keys[i])))
            except (ImageError, ValueError, MemoryError) as error:
                raise self._fault(i, error, picture, keys) from error
        return made

    def _checked(self, i: int, value: Any) -> NDArray[np.uint8]:
        """Return pixels as the kernels read them. Raises ValueFaultError: they are none, whatever a rule says."""
        if not isinstance(value, np.ndarray) or value.dtype != np.uint8 or value.ndim != 3 or not value.size:
            given = f"{value.dtype.name} {value.shape}" if isinstance(value, np.ndarray) else type(value).__name__
            raise ValueFaultError(i, f"it takes uint8 (height, width, {self._channels}), got {given}", self._text(0))
        if value.shape[2] != self._channels:
            fault = f"it takes {self._channels} channels, got {value.shape[2]}"
            raise ValueFaultError(i, fault, self._text(0))
        return np.ascontiguousarray(value)

    def _fault(
        self, i: int, error: Exception, picture: NDArray[np.uint8], keys: NDArray[np.uint64] | None
    ) -> ValueFaultError:
        failed = 0
        if isinstance(error, ImageError) and error.status in (TOO_LARGE, UNFIT):
            height, width, _ = picture.shape
            key = None if keys is None else int(keys[i])
            failed = first_too_large(self._ops, self._mode, self._max_pixels, height, width, key)
            patchify = [place for place, step in enumerate(self.steps, start=1) if isinstance(step, Patchify)]
            if failed == 0 and patchify and error.status == UNFIT:
                failed = patchify[0]
        return ValueFaultError(i, str(error), self._text(max(0, failed - 1)))

    def _text(self, place: int) -> str:
        return self.steps[place].text()
