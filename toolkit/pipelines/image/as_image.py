"""The step that takes a tensor for an image: as_image."""

from __future__ import annotations

import numpy as np

from toolkit.pipelines.pixels import PIXEL_MODES
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import Layout, MisfitError, State, ValueKind
from toolkit.pipelines.value_step import Call, Values, ValueStep

__all__ = ["AsImage"]


@register
class AsImage(ValueStep):
    """Take uint8 tensors (height, width, 1, 3 or 4 channels) for pixels: steps on images may follow.

    Of a tensor (height, width) each number is a gray pixel. Heights and widths may be open, channels may not.
    """

    word = "as_image"
    is_slow = True  # what follows takes its time

    def after(self, state: State) -> State:
        """Make pixels of a tensor."""
        if state.kind is ValueKind.PIXELS:
            raise MisfitError("a tensor", state, "leave as_image out")
        shape = state.shape or ()
        if state.kind is not ValueKind.TENSOR or state.layout is not None:
            fix = 'say .array("uint8", (height, width, channels)) first; image files are read by .decode_image()'
            raise MisfitError("a uint8 tensor", state, fix)
        channels = 1 if len(shape) == 2 else shape[2] if len(shape) == 3 else None
        if state.dtype != "uint8" or channels not in PIXEL_MODES or any(size == 0 for size in shape):
            expected = "a uint8 tensor (height, width, channels) of 1, 3 or 4 channels"
            raise MisfitError(expected, state, "give its shape where it is read")
        return State(ValueKind.PIXELS, "uint8", (*shape[:2], channels), Layout.HWC)

    def run(self, values: Values, call: Call) -> Values:
        """Give a gray picture its channel."""
        if isinstance(values, np.ndarray):
            return values[..., None] if values.ndim == 3 else values
        return [value[..., None] if value.ndim == 2 else value for value in values]
