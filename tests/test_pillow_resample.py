"""The oracle is itself held against the PIL that is installed."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import picture
from PIL import Image
from pillow_resample import STOCK_PILLOW, resize


@pytest.mark.parametrize("size", [(64, 48), (31, 17), (200, 160), (48, 20), (7, 90)])
@pytest.mark.parametrize("source", [(64, 48), (450, 380), (5, 4)])
def test_it_is_pillows(source: tuple[int, int], size: tuple[int, int]) -> None:
    image = picture(sum(source), *source)
    expected = np.asarray(image.resize(size, Image.Resampling.BILINEAR), np.int16)
    difference = np.abs(resize(np.asarray(image), *size) - expected)
    assert difference.max() <= (0 if STOCK_PILLOW else 2)
