"""What a pipeline cuts out of a picture, when it does nothing else: such pixels are copied as they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines.image_steps import Cast, CenterCrop, Crop, DecodeImage, Layout, Mode, ToLayout

__all__ = ["Windows", "plain_windows"]


@dataclass(frozen=True, slots=True)
class Windows:
    """Crops, one inside the other.

    Attributes:
        crops: At least one.
        max_pixels: Pictures with more are refused.
    """

    crops: tuple[Crop | CenterCrop, ...]
    max_pixels: int

    def of(self, height: NDArray[np.int64], width: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return int64 (n,) top and left of what is cut out of pictures; -1 where it isn't all within the picture."""
        top, left = np.zeros(len(height), np.int64), np.zeros(len(width), np.int64)
        good = height * width <= self.max_pixels
        for crop in self.crops:
            match crop:
                case Crop(y, x, _, _):
                    good &= (y >= 0) & (x >= 0) & (y + crop.height <= height) & (x + crop.width <= width)
                    top, left = top + y, left + x
                case CenterCrop():
                    good &= (crop.height <= height) & (crop.width <= width)
                    # As Python's round(difference / 2): halves to even.
                    top = top + np.rint((height - crop.height) / 2).astype(np.int64)
                    left = left + np.rint((width - crop.width) / 2).astype(np.int64)
            height, width = np.full_like(height, crop.height), np.full_like(width, crop.width)
        return np.where(good, top, -1), np.where(good, left, -1)


def plain_windows(steps: Sequence[object]) -> Windows | None:
    """Return the windows of a slot that only crops RGB to uint8 (height, width, 3); None of any other."""
    decode, *rest = steps
    crops: list[Crop | CenterCrop] = []
    for step in rest:
        match step:
            case Crop() | CenterCrop():
                crops.append(step)
            case Cast("uint8") | ToLayout(Layout.HWC):
                pass
            case _:
                return None
    if not isinstance(decode, DecodeImage) or decode.mode is not Mode.RGB or not crops:
        return None
    return Windows(tuple(crops), decode.max_pixels)
