"""Words of the steps that look at neighbours: what they make, and what they refuse."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import image_steps as steps
import pytest

from toolkit import chain, slot
from toolkit.errors import PipelineError
from toolkit.pipelines.state import State, ValueKind

GOOD: list[tuple[Callable[[Any], Any], steps.ImageStep]] = [
    (lambda s: s.sharpness(2), steps.Sharpness(2.0)),
    (lambda s: s.sharpness([0, 2], mirror=True, p=0, name="x"), steps.Sharpness((0.0, 2.0), True, 0.0, "x")),
    (lambda s: s.gaussian_blur(23), steps.GaussianBlur(23, (0.1, 2.0))),
    (lambda s: s.gaussian_blur(None, 31, p=0.5), steps.GaussianBlur(None, 31.0, 0.5)),
    (lambda s: s.motion_blur(7), steps.MotionBlur(7, (0.0, 360.0), 0.0)),
    (lambda s: s.motion_blur(3, 45, (-1, 1)), steps.MotionBlur(3, 45.0, (-1.0, 1.0))),
    (lambda s: s.median_blur(), steps.MedianBlur(1)),
    (lambda s: s.median_blur((1, 7), p=0.5), steps.MedianBlur((1, 7), 0.5)),
    (lambda s: s.clahe(), steps.Clahe((1.0, 4.0), (8, 8))),
    (lambda s: s.clahe(2, [4, 5], p=0.5), steps.Clahe(2.0, (4, 5), 0.5)),
    (lambda s: s.jpeg_compression(75), steps.JpegCompression(75)),
    (lambda s: s.jpeg_compression((1, 100), name="x"), steps.JpegCompression((1, 100), 1.0, "x")),
    (lambda s: s.unsharp_mask(), steps.UnsharpMask(2.0, 150, 3)),
    (lambda s: s.unsharp_mask((1, 2), (50, 200), 0), steps.UnsharpMask((1.0, 2.0), (50, 200), 0)),
]

BAD: list[tuple[Callable[[Any], Any], str]] = [
    (lambda s: s.sharpness(-0.1), "factor must be within 0.*, got -0.1"),
    (lambda s: s.sharpness(math.nan), "factor must be a finite number, got nan"),
    (lambda s: s.sharpness((2, 1)), "the first is the larger one"),
    (lambda s: s.sharpness((1, 2, 3)), r"factor must be \(low, high\), got \(1, 2, 3\)"),
    (lambda s: s.sharpness(2, p=1.2), r"p must be within 0\.\.1, got 1.2"),
    (lambda s: s.sharpness(2, p=math.nan), "p must be a finite number, got nan"),
    (lambda s: s.sharpness(2, mirror=1), "mirror must be True or False, got 1"),
    (lambda s: s.gaussian_blur(4), "kernel_size must be odd, .*got 4"),
    (lambda s: s.gaussian_blur(0), r"kernel_size must be an int in 1\.\.255, got 0"),
    (lambda s: s.gaussian_blur(257), r"kernel_size must be an int in 1\.\.255, got 257"),
    (lambda s: s.gaussian_blur(3.0), "kernel_size must be an int .*, got 3.0"),
    (lambda s: s.gaussian_blur(3, math.nan), "sigma must be a finite number, got nan"),
    (lambda s: s.gaussian_blur(3, 0), "sigma must be within 1e-06.*, got 0"),
    (lambda s: s.gaussian_blur(3, (2, 1)), "the first is the larger one"),
    (lambda s: s.gaussian_blur(None, 32), "sigma must be at most 31 .*, got 32"),
    (lambda s: s.gaussian_blur(3, p=-0.5), r"p must be within 0\.\.1, got -0.5"),
    (lambda s: s.sharpness((1, 3), mirror=True), r"factor must be within 0\.\.2 with mirror=True"),
    (lambda s: s.motion_blur(8), "kernel_size must be odd, .*got 8"),
    (lambda s: s.motion_blur(1), r"kernel_size must be an int in 3\.\.63, got 1"),
    (lambda s: s.motion_blur(3, math.inf), "angle must be a finite number, got inf"),
    (lambda s: s.motion_blur(3, direction=1.5), r"direction must be within -1\.\.1, got 1.5"),
    (lambda s: s.median_blur(0), r"radius must be an int in 1\.\.7, got 0"),
    (lambda s: s.median_blur(8), r"radius must be an int in 1\.\.7, got 8"),
    (lambda s: s.median_blur((1, 2.5)), r"radius must be an int in 1\.\.7, got 2.5"),
    (lambda s: s.clahe(-1), "clip_limit must be within 0.*, got -1"),
    (lambda s: s.clahe(math.nan), "clip_limit must be a finite number, got nan"),
    (lambda s: s.clahe(tiles=0), r"tiles must be an int in 1\.\.64, got 0"),
    (lambda s: s.clahe(tiles=(8, 65)), r"tiles must be an int in 1\.\.64, got 65"),
    (lambda s: s.clahe(tiles=(8, 8, 8)), r"tiles must be a number or \(rows, columns\), got \(8, 8, 8\)"),
    (lambda s: s.jpeg_compression(0), r"quality must be an int in 1\.\.100, got 0"),
    (lambda s: s.jpeg_compression(101), r"quality must be an int in 1\.\.100, got 101"),
    (lambda s: s.jpeg_compression((90, 50)), "the first is the larger one"),
    (lambda s: s.jpeg_compression(75.0), "quality must be an int .*, got 75.0"),
    (lambda s: s.unsharp_mask(-1), "radius must be within 0.*, got -1"),
    (lambda s: s.unsharp_mask(2, 1.5), "percent must be an int .*, got 1.5"),
    (lambda s: s.unsharp_mask(threshold=256), r"threshold must be an int in 0\.\.255, got 256"),
]


@pytest.mark.parametrize(("say", "step"), GOOD, ids=lambda v: "")
def test_words_make_steps_that_keep_the_size(say: Callable[[Any], Any], step: steps.ImageStep) -> None:
    made = say(slot("image").decode_image().center_crop(9))
    assert made.steps[-1] == step
    assert made.states(State(ValueKind.STORED))[-1].shape == (9, 9, 3)


@pytest.mark.parametrize(("say", "says"), BAD, ids=lambda v: "")
def test_bad_arguments_name_place_and_step(say: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(PipelineError, match=f"^chain, step [a-z_]+: .*{says}"):
        say(chain())
