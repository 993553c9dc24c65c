"""Read the numbers of a mask or label map as they are stored: palette places and gray values, never through colours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL.ImageFile import ImageFile

__all__ = ["ids_of", "largest_gray"]

_FEW_BITS = re.compile(r"L;([24])")  # PIL's name for gray of so few bits
_GRAY_MODES = ("L", "I")
_SIXTEEN_BITS = frozenset({"PNG", "PPM"})  # formats whose mode I, in older versions of PIL, holds 0 to 65535


def largest_gray(image: ImageFile) -> int | None:
    """Return the largest gray value that a file can hold, where PIL stretches values to 255 or 65535; else None.

    Args:
        image: An opened picture that isn't decoded yet.
    """
    if image.mode not in _GRAY_MODES or not image.tile:
        return None
    decoder, _, _, arguments = image.tile[0]
    raw = arguments[0] if isinstance(arguments, tuple) else arguments
    few = _FEW_BITS.match(raw) if isinstance(raw, str) else None
    if few is not None:
        return (1 << int(few[1])) - 1
    return arguments[1] if decoder.startswith("ppm") and isinstance(arguments, tuple) else None


def ids_of(image: ImageFile, largest: int | None) -> Callable[[Any], NDArray[np.integer[Any]]]:
    """Return what makes an array (height, width) of a band of the picture.

    Args:
        image: A decoded picture.
        largest: What largest_gray() said of it.

    Raises:
        ValueError: It has colours, or numbers of 32 bits.
    """
    mode = image.mode
    if mode in ("I", "F") and (mode == "F" or image.format not in _SIXTEEN_BITS):
        raise ValueError(f"pixels of 32 bits (PIL's mode {mode}) are no ids: write them with at most 16 bits")
    if mode not in ("1", "P", "L", "I") and not mode.startswith("I;16"):
        raise ValueError(
            f'a picture in colour (PIL\'s mode {mode}) has no ids: mode="id" takes palettes and gray of at most 16 bits'
        )
    if largest is None:
        return np.asarray
    shown = 255 if mode == "L" else 65535

    def stored(band: Any) -> NDArray[np.integer[Any]]:
        """Undo PIL's round(value * shown / largest)."""
        values = np.asarray(band).astype(np.int64)
        return (values * largest + shown // 2) // shown

    return stored
