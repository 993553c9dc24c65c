"""The oracle is itself held against the PIL that is installed."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import picture
from PIL import Image
from pillow_resample import STOCK_PILLOW, resize, resize_rgba


@pytest.mark.parametrize("size", [(64, 48), (31, 17), (200, 160), (48, 20), (7, 90)])
@pytest.mark.parametrize("source", [(64, 48), (450, 380), (5, 4)])
@pytest.mark.parametrize("filter", ["nearest", "bilinear", "bicubic", "lanczos"])
def test_it_is_pillows(source: tuple[int, int], size: tuple[int, int], filter: str) -> None:
    image = picture(sum(source), *source)
    expected = np.asarray(image.resize(size, Image.Resampling[filter.upper()]), np.int16)
    difference = np.abs(resize(np.asarray(image), *size, filter) - expected)
    # Newer Pillows start with the rows where a picture is more than twice as high as wide.
    turned = size[1] / source[1] > 2 * size[0] / source[0] or source[1] > 2 * source[0]
    assert difference.max() <= (2 if not STOCK_PILLOW else int(turned))

    box = (source[0] / 7, source[1] / 11, source[0] / 1.3, source[1] / 1.7)
    expected = np.asarray(image.resize(size, Image.Resampling[filter.upper()], box), np.int16)
    difference = np.abs(resize(np.asarray(image), *size, filter, box) - expected)
    assert turned or difference.max() <= (2 if not STOCK_PILLOW else 0)

    image.putalpha(picture(sum(size), *source).convert("L"))
    expected = np.asarray(image.resize(size, Image.Resampling[filter.upper()]), np.int16)
    difference = np.abs(resize_rgba(np.asarray(image), *size, filter) - expected)
    visible = difference * (expected[:, :, 3:] > 16)  # a colour divided by a small alpha amplifies one level
    assert visible.max() <= (0 if STOCK_PILLOW and not turned else 16)
