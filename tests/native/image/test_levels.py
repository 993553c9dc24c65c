"""Ranges of a program's steps that are drawn anew for each picture by a normal level."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from variates_oracle import drawn_level, fold

from toolkit._native.image import program as image
from toolkit._native.image.program import DrawnLevel

BRIGHTER = DrawnLevel(9.0, 0.5, 0.1, 1.8, False)


def jitter(level: object, step_id: int = 3, field: str = "brightness") -> tuple[str, dict[str, Any]]:
    ranges = dict.fromkeys(("brightness", "contrast", "saturation", "hue"))
    return "color_jitter", {**ranges, field: level, "id": step_id}


@pytest.mark.parametrize(
    "level", [BRIGHTER, DrawnLevel(2.0, 3.0, 1.0, 4.0, True), DrawnLevel(5.0, 1e6, 2.0, -2.0, False)]
)
def test_a_level_is_drawn_as_it_is_said(level: DrawnLevel) -> None:
    program, scratch = image.ImageProgram([jitter(level)]), image.Scratch()
    pixels = np.full((3, 4, 3), 100, np.uint8)
    for key in range(200):
        factor = np.float32(drawn_level(fold(key, 3), *level))
        brighter = np.full_like(pixels, min(255, factor * np.float32(100)))
        assert np.array_equal(program.apply(pixels, scratch, key), brighter)


def test_steps_with_levels_draw_apart() -> None:
    program, scratch = image.ImageProgram([jitter(BRIGHTER), jitter(BRIGHTER, 4)]), image.Scratch()
    pixels = np.full((1, 1, 3), 80, np.uint8)
    for key in range(50):
        value = 80
        for step_id in (3, 4):
            value = min(255, int(np.float32(drawn_level(fold(key, step_id), *BRIGHTER)) * np.float32(value)))
        assert program.apply(pixels, scratch, key)[0, 0, 0] == value


def test_levels_have_the_distribution() -> None:
    drawn = np.array([drawn_level(fold(key, 9), 9.0, 0.5, 0.0, 10.0, False) for key in range(4000)])
    assert drawn.max() == 10
    below = drawn[drawn < 10]
    share = stats.norm.cdf(2.0)
    assert abs(len(below) / 4000 - share) < 0.01
    assert stats.kstest(below, lambda x: stats.norm.cdf(x, 9.0, 0.5) / share).pvalue > 0.01


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (jitter(DrawnLevel(11.0, 0.5, 0.1, 1.8, False)), "brightness must have a mean of 0 to 10"),
        (jitter(DrawnLevel(9.0, 0.0, 0.1, 1.8, False)), "a deviation above 0, not 9.0 and 0.0"),
        (jitter(DrawnLevel(9.0, math.nan, 0.1, 1.8, False)), "a deviation above 0"),
        (jitter(DrawnLevel(9.0, 0.5, -1.0, 1.8, False)), "brightness must be a range that goes up, within 0"),
        (jitter(DrawnLevel(9.0, 0.5, math.nan, 1.8, False)), "brightness must be a range"),
        (("color_jitter", {**jitter(BRIGHTER)[1], "contrast": BRIGHTER}), "contrast is the second one"),
        (("hflip", {"p": BRIGHTER, "id": 1}), "p can't be drawn by a level"),
    ],
)
def test_bad_levels_are_named(op: tuple[str, dict[str, Any]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        image.ImageProgram([op])
