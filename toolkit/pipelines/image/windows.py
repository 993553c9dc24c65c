"""What a pipeline cuts out of a picture, when it does nothing else: such pixels are copied as they are stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines.image.decode_step import DecodeImage, Mode
from toolkit.pipelines.image.geometry import CenterCrop, Crop
from toolkit.pipelines.image.image_step import FinishStep

__all__ = ["Windows", "plain_windows"]

_AS_PIXELS = {"dtype": "uint8", "layout": "hwc"}


@dataclass(frozen=True, slots=True)
class Windows:
    """Crops, one out of the other.

    Attributes:
        crops: At least one.
        max_pixels: Pictures with more are refused.
    """

    crops: tuple[Crop | CenterCrop, ...]
    max_pixels: int

    def side(self, size: NDArray[np.int64], vertical: bool) -> tuple[NDArray[np.int64], ...]:
        """Return three int64 (n,) for one side of n pictures: what of the picture is seen, and where.

        The first pixel of the picture that is seen, how many are, and the first one's place in the result. The rest of
        the result is zeros.
        """
        origin, first, end = np.zeros_like(size), np.zeros_like(size), size  # of the result; of what is seen
        for crop in self.crops:
            length = crop.height if vertical else crop.width
            match crop:
                case Crop(top, left, _, _):
                    origin = origin + (top if vertical else left)
                case CenterCrop():
                    over = size - length
                    # Python's round(over / 2), halves to even; where the picture is smaller, less than half in front.
                    origin = origin + np.where(over < 0, -(-over // 2), np.rint(over / 2).astype(np.int64))
            first, end = np.maximum(first, origin), np.minimum(end, origin + length)
            size = np.full_like(size, length)
        seen = np.maximum(end - first, 0)
        return first, seen, np.where(seen > 0, first - origin, 0)


def plain_windows(steps: Sequence[object]) -> Windows | None:
    """Return the windows of a slot that only crops RGB to uint8 (height, width, 3); None of any other."""
    decode, *rest = steps
    crops: list[Crop | CenterCrop] = []
    written: dict[str, Any] = {}
    for step in rest:
        match step:
            case Crop() | CenterCrop():
                crops.append(step)
            case FinishStep():
                step.finish(written)
            case _:
                return None
    if not crops or not isinstance(decode, DecodeImage) or decode.mode is not Mode.RGB:
        return None
    return Windows(tuple(crops), decode.max_pixels) if _AS_PIXELS | written == _AS_PIXELS else None
