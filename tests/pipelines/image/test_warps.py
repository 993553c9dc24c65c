"""Steps that shear, move and turn: pixels against Pillow's transform, draws against torchvision's distributions."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import image_steps as steps
import image_steps_oracle as oracle
import numpy as np
import pytest
import warp_oracle
from image_slots import MODES, compiled
from scipy import stats

from toolkit import chain, slot
from toolkit._native.image import program
from toolkit._native.image.program import Scratch
from toolkit.errors import PipelineError

FILTERS = list(steps.Take)
SIZES = [(64, 48), (33, 70), (7, 5), (1, 1), (200, 3)]
STEPS = {
    "shear_x": steps.ShearX((0.0, 0.9), random_sign=True, fill=(9, 99, 199)),
    "shear_y": steps.ShearY((0.3, 0.3), random_sign=True, fill=128),
    "translate_x": steps.TranslateX((-30.0, 30.0), fill=5),
    "translate_x_share": steps.TranslateX((0.0, 0.45), steps.Unit.FRACTION, whole=False, random_sign=True, fill=5),
    "translate_y": steps.TranslateY((3.0, 3.0), whole=False, random_sign=True),
    "translate_y_share": steps.TranslateY((0.0, 1.2), steps.Unit.FRACTION, random_sign=True, fill=5),
    "rotate": steps.Rotate((-180.0, 180.0), fill=(9, 99, 199)),
    "rotate_about": steps.Rotate((0.0, 30.0), random_sign=True, center=(3.5, 9.0)),
    "rotate_expand": steps.Rotate((-720.0, 720.0), expand=True, fill=77),
    "rotate_expand_about": steps.Rotate((-720.0, 720.0), expand=True, center=(3.5, 9.0), fill=77),
}


@pytest.fixture(params=["generic", "avx2", "avx512"])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every set of loops that the machine has."""
    best = program.simd_level()
    try:
        program._set_simd_level(request.param)
    except ValueError:
        pytest.skip(f"no {request.param} here")
    yield request.param
    program._set_simd_level(best)


def made(step: Any, mode: str, seed: int, width: int, height: int, key: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what a step makes of a photograph, and what it should."""
    image = warp_oracle.image_of(mode, seed, width, height)
    if mode == "L" and not isinstance(step.fill, int):
        step = dataclasses.replace(step, fill=step.fill[0])
    found = compiled(step, mode=mode).apply(warp_oracle.pixels_of(image), Scratch(), key)
    return found, oracle.apply(image, [step], key)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("filter", FILTERS)
def test_pixels_are_pillows(name: str, filter: steps.Take, level: str) -> None:
    rng = np.random.default_rng(3)
    for seed in range(12):
        for mode in MODES:
            width, height = SIZES[seed % len(SIZES)]
            step = dataclasses.replace(STEPS[name], filter=filter)
            got, wanted = made(step, mode, seed, width, height, int(rng.integers(1 << 63)))
            warp_oracle.check_close(got, wanted, filter.value)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("filter", FILTERS)
def test_200_photographs(name: str, filter: steps.Take) -> None:
    for seed in range(200):
        step = dataclasses.replace(STEPS[name], filter=filter)
        warp_oracle.check_close(*made(step, "RGB", seed, 56, 40, seed), filter.value)


def test_quarters_only_move_pixels() -> None:
    for degrees in (0.0, 90.0, 180.0, 270.0, -90.0, 450.0):
        for mode in MODES:
            for width, height in ((40, 30), (40, 31), (33, 33)):
                for filter in FILTERS:
                    for expand in (False, True):
                        step = steps.Rotate((degrees, degrees), filter=filter, expand=expand, fill=3)
                        got, wanted = made(step, mode, 1, width, height, 0)
                        warp_oracle.check_close(got, wanted, filter.value)
                        if expand:
                            assert np.array_equal(got, wanted)


def test_positions_beyond_fixed_point() -> None:
    """A picture longer than 32767 is turned in doubles, as Pillow does."""
    for step in (steps.Rotate((-0.01, 0.01), fill=7), steps.ShearY((-0.0001, 0.0001))):
        for seed in range(3):
            got, wanted = made(step, "RGB", seed, 40000, 6, seed)
            assert np.array_equal(got, wanted)


def test_nothing_moves_nothing() -> None:
    pixels = warp_oracle.pixels_of(warp_oracle.image_of("RGB", 1, 20, 30))
    for step in (steps.ShearX((0.0, 0.0)), steps.TranslateX((0.9, 0.9)), steps.Rotate((360.0, 360.0), expand=True)):
        assert np.array_equal(compiled(step).apply(pixels, Scratch(), 3), pixels)


KEYS = range(3000)


@pytest.mark.parametrize("name", STEPS)
def test_draws_are_even(name: str) -> None:
    """torchvision: uniform between the ends, and where policies draw a sign, either with the same probability."""
    step: Any = STEPS[name]
    span = step.degrees if isinstance(step, steps.Rotate) else step.magnitude
    draws = [warp_oracle.signed(span, step.random_sign, oracle.Draws(key, step, 0)) for key in KEYS]
    if span[0] < span[1]:
        sizes = np.abs(draws) if step.random_sign else np.array(draws)
        assert stats.kstest(sizes, stats.uniform(span[0], span[1] - span[0]).cdf).pvalue > 1e-3
    if step.random_sign:
        assert stats.binomtest(sum(drawn < 0 for drawn in draws), len(draws)).pvalue > 1e-3


def golden() -> dict[str, int]:
    """Return a sum of what each step makes of one picture."""
    pixels = np.random.default_rng(1).integers(0, 256, (24, 32, 3), np.uint8)
    made = {name: compiled(step).apply(pixels, Scratch(), 7).astype(np.int64) for name, step in STEPS.items()}
    return {name: int((np.arange(1, one.size + 1) * one.reshape(-1)).sum()) for name, one in made.items()}


def test_draws_never_change() -> None:
    """Golden: another picture for a key is another version of the generator."""
    assert golden() == GOLDEN


GOLDEN: dict[str, int] = {
    "shear_x": 332563407,
    "shear_y": 338294203,
    "translate_x": 66262714,
    "translate_x_share": 199806336,
    "translate_y": 331881548,
    "translate_y_share": 172656152,
    "rotate": 317269921,
    "rotate_about": 326933136,
    "rotate_expand": 525223865,
    "rotate_expand_about": 513740414,
}


@pytest.mark.parametrize(
    ("say", "message"),
    [
        (lambda c: c.rotate(-30), "degrees must be within 0..3600, got -30"),
        (lambda c: c.rotate(float("nan")), "degrees must be a finite number"),
        (lambda c: c.rotate((30, 20)), "degrees must be .*the first is the larger one"),
        (lambda c: c.rotate(30, filter="bilinea"), "filter must be one of nearest, bilinear, bicubic, got.*bilinea"),
        (lambda c: c.rotate(30, fill=256), "fill must be an int in 0..255, got 256"),
        (lambda c: c.rotate(30, fill=(1, 2)), "fill must be one number, or three for red, green and blue"),
        (lambda c: c.rotate(30, fill=(1, 2, 0.5)), "a number of fill must be an int"),
        (lambda c: c.rotate(30, center=3), r"center must be \(x, y\) or None, got 3"),
        (lambda c: c.rotate(30, expand=1), "expand must be True or False, got 1"),
        (lambda c: c.shear_x(float("inf")), "magnitude must be a finite number"),
        (lambda c: c.shear_y(1000), "magnitude must be within -100..100, got 1000"),
        (lambda c: c.translate_x(3, unit="pixel"), "unit must be one of pixels, fraction, got.*pixel"),
        (lambda c: c.translate_y(3, random_sign=None), "random_sign must be True or False, got None"),
    ],
)
def test_bad_arguments_are_refused(say: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        say(chain())


def test_three_numbers_fill_no_gray_picture() -> None:
    with pytest.raises(PipelineError, match="expected red, green and blue pixels, got gray ones: say fill=1"):
        slot("image").decode_image(mode="gray").rotate(30, fill=(1, 2, 3))


def test_a_picture_that_expands_too_far_is_an_error() -> None:
    pixels = np.zeros((100, 100, 3), np.uint8)
    with pytest.raises(program.ImageError, match="after its rotate, more than max_pixels=15000"):
        compiled(steps.Rotate((45.0, 45.0), expand=True), max_pixels=15000).apply(pixels, Scratch(), 0)
