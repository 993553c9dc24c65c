"""A partner that is made smaller and pasted equals the same in numpy, and Pillow's BILINEAR to a level."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from toolkit._native.batch.mix import paste_boxes

PAIR = np.array([[2, 0]])


def weights(size: int, out: int) -> np.ndarray:
    """(out, size): how much each input counts."""
    scale = size / out
    middles = (np.arange(out)[:, None] + 0.5) * scale
    made = np.maximum(1 - np.abs((np.arange(size)[None] + 0.5 - middles) / scale), 0)
    return np.asarray(made / made.sum(1, keepdims=True))


def resized(picture: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """A picture (planes, height, width, channels), smaller."""
    down, across = weights(picture.shape[1], rows), weights(picture.shape[2], columns)
    return np.einsum("jy,ix,pyxc->pjic", down, across, picture.astype(np.float64))


@pytest.mark.parametrize("name", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("box", [(0, 1, 0, 1), (3, 9, 2, 13), (0, 11, 0, 17), (10, 11, 0, 17)])
def test_a_paste_is_numpys(name: str, box: tuple[int, int, int, int]) -> None:
    rng = np.random.default_rng(3)
    values = (rng.random((3, 2, 11, 17, 3)) * 255).astype(name)
    top, bottom, left, right = box
    wanted = values.astype(np.float64)
    for one, other in ((0, 2), (2, 0)):
        wanted[one][:, top:bottom, left:right] = resized(values[other], bottom - top, right - left)
    paste_boxes(values.reshape(-1).view(np.uint8), 2, 11, 17, 3, name, PAIR, np.array([box]))
    np.testing.assert_allclose(values, wanted, rtol=2e-3 if name == "float16" else 1e-5, atol=0.51 * (name == "uint8"))


def test_a_paste_is_pillows() -> None:
    rng = np.random.default_rng(4)
    values = rng.integers(0, 256, (2, 64, 48, 3), np.uint8)
    wanted = values.copy()
    for one in (0, 1):
        small = Image.fromarray(values[1 - one]).resize((19, 30), Image.Resampling.BILINEAR)
        wanted[one, 5:35, 7:26] = np.asarray(small)
    paste_boxes(values.reshape(-1), 1, 64, 48, 3, "uint8", np.array([[0, 1]]), np.array([[5, 35, 7, 26]]))
    assert np.abs(values.astype(int) - wanted).max() <= 1


VALUES = np.zeros(3 * 12, np.uint8)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: paste_boxes(VALUES, 1, 3, 4, 1, "int32", PAIR, np.array([[0, 1, 0, 1]])), "int32 can't be resized"),
        (lambda: paste_boxes(VALUES, 1, 3, 4, 1, "uint8", PAIR, np.array([[1, 1, 0, 1]])), "box 0 is empty"),
        (
            lambda: paste_boxes(VALUES, 1, 3, 4, 1, "uint8", PAIR, np.array([[0, 4, 0, 1]])),
            "box 0 doesn't lie in 3 x",
        ),
        (lambda: paste_boxes(VALUES, 1, 3, 4, 1 << 40, "uint8", PAIR, np.array([[0, 1, 0, 1]])), "no picture has"),
        (lambda: paste_boxes(VALUES, 1, 3, 0, 1, "uint8", PAIR, np.array([[0, 1, 0, 1]])), "no picture has"),
    ],
)
def test_what_can_not_be_is_refused(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()
