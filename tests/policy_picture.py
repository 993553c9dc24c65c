"""The picture that policies are tried on: made by integers alone, so that every numpy and PIL has the same."""

from __future__ import annotations

import numpy as np
from PIL import Image


def policy_picture(width: int = 61, height: int = 47) -> Image.Image:
    """Return an RGB picture of waves, edges and grain."""
    y, x = np.mgrid[:height, :width].astype(np.int64)
    grain = (x * 2654435761 + y * 40503 + x * y * 97) % 31
    planes = [
        40 + (x * 3 + y) % 150 + grain // 2,
        30 + (x * x // 40 + 2 * y) % 190 + grain,
        20 + np.where((x // 9 + y // 7) % 2, 140, 0) + grain + y,
    ]
    return Image.fromarray(np.stack([np.clip(plane, 0, 255) for plane in planes], axis=2).astype(np.uint8))
