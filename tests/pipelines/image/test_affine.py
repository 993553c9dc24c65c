"""Steps that draw a whole map or a field, against torchvision's formulas.

What torchvision itself says lies in torchvision_warps.json, which make_torchvision_warps.py writes.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import image_steps as steps
import image_steps_oracle as oracle
import numpy as np
import pytest
import warp_oracle
import xxhash
from image_slots import MODES, compiled
from PIL import Image
from scipy import stats

from toolkit import chain, slot
from toolkit._native.image import program
from toolkit._native.image.program import Scratch
from toolkit.errors import PipelineError
from toolkit.pipelines.image.compiled import CompiledImage
from toolkit.pipelines.image.decode_step import DecodeImage

GIVEN = json.loads(Path(__file__).with_name("torchvision_warps.json").read_text())
FILTERS = list(steps.Take)
# Heights are even: a shear leaves the middle row of an odd one where it is, but for 1e-14 of a pixel. Pillow's double
# then cuts off what float rounds to the level itself.
SIZES = [(64, 48), (33, 70), (9, 12), (200, 8)]
STEPS: dict[str, Any] = {
    "affine": steps.Affine((-40.0, 70.0), (0.2, 0.3), (0.4, 1.8), (-20.0, 30.0, -10.0, 5.0), fill=(1, 2, 30)),
    "affine_turns": steps.Affine((-10.0, 10.0), center=(4.0, 5.5), fill=9),
    "affine_scales": steps.Affine(scale=(0.5, 0.8), fill=99),
    "affine_moves": steps.Affine(translate=(0.3, 0.0), shear=(-15.0, 15.0)),
    "shear": steps.Shear((-30.0, 30.0), (5.0, 10.0), fill=77),
    "perspective": steps.Perspective(0.6, p=0.8, fill=(200, 100, 0)),
    "perspective_little": steps.Perspective(0.05, p=1.0),
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


def test_the_oracle_is_torchvision() -> None:
    for given, matrix in GIVEN["matrices"]:
        assert warp_oracle.affine(*given) == pytest.approx(matrix, rel=1e-12)
    for size, corners, wanted in GIVEN["corners"]:
        assert warp_oracle.coefficients(corners, *size) == pytest.approx(wanted, rel=3e-7, abs=1e-9)
    for sigma, taps in GIVEN["kernels"]:
        assert warp_oracle.kernel_of(sigma) == pytest.approx(taps, rel=1e-5)
    pixels, moves = np.array(GIVEN["pixels"], np.uint8), np.array(GIVEN["moves"])
    for filter, wanted in GIVEN["displaced"].items():
        found = warp_oracle.displaced(pixels, moves, filter, (10, 100, 200))
        assert np.abs(found - np.array(wanted)).max() < 0.501


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("filter", FILTERS)
def test_pixels_are_pillows(name: str, filter: steps.Take, level: str) -> None:
    for seed in range(12):
        for mode in MODES:
            width, height = SIZES[seed % len(SIZES)]
            step = dataclasses.replace(STEPS[name], filter=filter)
            warp_oracle.check_close(*made(step, mode, seed, width, height, 1000 * seed), filter.value)


@pytest.mark.parametrize("name", STEPS)
def test_200_photographs(name: str) -> None:
    for seed in range(200):
        step = dataclasses.replace(STEPS[name], filter=FILTERS[seed % 3])
        warp_oracle.check_close(*made(step, "RGB", seed, 56, 40, seed), FILTERS[seed % 3].value)


def test_a_picture_whose_corners_lie_on_a_line_stays() -> None:
    for width, height in ((1, 9), (9, 1), (1, 1)):
        pixels = warp_oracle.pixels_of(warp_oracle.image_of("RGB", 1, width, height))
        assert np.array_equal(compiled(steps.Perspective(p=1.0)).apply(pixels, Scratch(), 1), pixels)


KEYS = range(3000)


def even(found: list[float], low: float, high: float) -> None:
    """Fail where numbers aren't even between two ends."""
    assert stats.kstest(found, stats.uniform(low, high - low).cdf).pvalue > 1e-3


def test_draws_of_affine_are_torchvisions() -> None:
    """As RandomAffine.get_params: each even, shifts rounded; all independent."""
    step = STEPS["affine"]
    u = [[oracle.Draws(key, step, 0)[k] for k in range(6)] for key in KEYS]
    for k, (low, high) in enumerate([step.degrees, (-20, 20), (-30, 30), step.scale, step.shear[:2], step.shear[2:]]):
        even([warp_oracle.between((low, high), each[k]) for each in u], low, high)
    assert np.abs(np.corrcoef(np.array(u).T) - np.eye(6)).max() < 5 / np.sqrt(len(KEYS))


def test_draws_of_perspective_are_torchvisions() -> None:
    """As RandomPerspective.get_params: whole numbers from 0 to the farthest, all alike."""
    step = steps.Perspective(0.5, p=0.5)
    draws = [oracle.Draws(key, step, 0) for key in KEYS]
    assert stats.binomtest(sum(u[0] < step.p for u in draws), len(draws)).pvalue > 1e-3
    found = np.array([warp_oracle.corners_of(step, u, 41, 33) for u in draws])
    for corner, (right, bottom) in enumerate([(False, False), (True, False), (True, True), (False, True)]):
        for axis, low, far in ((0, 30 * right, 10), (1, 24 * bottom, 8)):
            counts = np.bincount(found[:, corner, axis] - low, minlength=far + 1)
            assert len(counts) == far + 1
            assert stats.chisquare(counts).pvalue > 1e-3


# --- elastic ----------------------------------------------------------------------------------------------------

ELASTIC = {
    "default": steps.Elastic(),
    "strong": steps.Elastic((300.0, 120.0), 3.3, fill=(9, 99, 199)),
    "rough": steps.Elastic((4.0, 4.0), 0.0, fill=50),
    "fine": steps.Elastic((20.0, 20.0), 0.4),
}


def key_of(key: int) -> int:
    """Return the key of a first elastic step."""
    return oracle.fold(key, xxhash.xxh3_64_intdigest(b"Elastic#0"))


@pytest.mark.parametrize("name", ELASTIC)
@pytest.mark.parametrize("filter", list(steps.Mixing))
def test_elastic(name: str, filter: steps.Mixing) -> None:
    for seed in range(50):
        for mode in MODES if seed < 8 else ("RGB",):
            width, height = [(64, 48), (33, 70), (5, 7), (1, 1), (1, 30)][seed % 5]
            step = dataclasses.replace(ELASTIC[name], filter=filter)
            if mode == "L" and not isinstance(step.fill, int):
                step = dataclasses.replace(step, fill=8)
            pixels = warp_oracle.pixels_of(warp_oracle.image_of(mode, seed, width, height))
            found = compiled(step, mode=mode).apply(pixels, Scratch(), seed)
            moves = warp_oracle.moves_of(step, key_of(seed), width, height)
            fill = (step.fill,) * 4 if isinstance(step.fill, int) else (*step.fill, 255)
            wanted = warp_oracle.displaced(pixels, moves, filter.value, fill)
            if filter is steps.Mixing.NEAREST:
                assert (found != wanted).any(axis=2).mean() < 1e-3  # places at the middle between two
            else:
                assert np.abs(found - wanted).max() < 0.52


def test_displacements_are_spread_as_torchvisions() -> None:
    noise = warp_oracle.moves_of(steps.Elastic((2.0, 2.0), 0.0), key_of(1), 120, 100)
    for axis in range(2):
        even(noise[axis].ravel().tolist(), -1, 1)
    assert abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 5 / np.sqrt(noise[0].size)
    spread = [warp_oracle.moves_of(steps.Elastic(), key_of(key), 64, 64)[0].std() for key in range(30)]
    assert np.mean(spread) == pytest.approx(GIVEN["spread"], rel=0.1)


def test_what_is_fixed_draws_nothing() -> None:
    pixels = warp_oracle.pixels_of(warp_oracle.image_of("RGB", 1, 30, 20))
    for step in (
        chain().rotate((30, 30)),
        chain().shear_x(0.3),
        chain().translate_y(-3),
        chain().affine((5, 5), None, (0.5, 0.5), (1, 1, 2, 2)),
        chain().shear((4, 4), (2, 2)),
    ):
        made = compiled(*step.steps)
        assert not made.random
        assert not step.steps[0].draws
        assert np.array_equal(made.apply(pixels, Scratch()), made.apply(pixels, Scratch(), 9))
    for step in (
        chain().rotate(30),
        chain().rotate((30, 30), random_sign=True),
        chain().translate_x((1, 2)),
        chain().affine(0, (0, 0.1)),
        chain().affine(0, None, None, (1, 2)),
        chain().affine(0, None, None, (1, 1, 1, 2)),
        chain().affine(0, None, (1, 2)),
        chain().shear((4, 4), 2),
        chain().perspective(),
        chain().elastic(),
    ):
        assert compiled(*step.steps).random
        assert step.steps[0].draws


# --- ids --------------------------------------------------------------------------------------------------------

EVERY = STEPS | ELASTIC | {"rotate": steps.Rotate((10.0, 80.0), expand=True), "moved": steps.TranslateX((5.0, 9.0))}


@pytest.mark.parametrize("name", EVERY)
def test_ids_move_as_pixels_do(name: str) -> None:
    step = dataclasses.replace(EVERY[name], fill=0)
    step = dataclasses.replace(step, filter=type(step.filter)("nearest"))
    for key in range(4):
        ids = np.random.default_rng(key).integers(1, 65536, (30, 41)).astype(np.uint16)
        file = io.BytesIO()
        Image.fromarray(ids).save(file, "PNG")
        decode = DecodeImage.checked(mode="id", ignore=40000)
        found = CompiledImage("mask", [decode, step]).decode(file.getvalue(), Scratch(), key)
        bytes_of = np.stack([ids & 255, ids >> 8, ids * 0 + 1], axis=2).astype(np.uint8)
        moved = compiled(step).apply(bytes_of, Scratch(), key).astype(np.int64)
        assert np.array_equal(found, np.where(moved[:, :, 2] == 1, moved[:, :, 0] + 256 * moved[:, :, 1], 40000))


def test_what_mixes_ids_is_refused() -> None:
    for say, why in (
        (lambda s: s.rotate(30, filter="bilinear"), 'got the filter bilinear: say filter="nearest"'),
        (lambda s: s.perspective(), "got the filter bilinear"),
        (lambda s: s.elastic(), "got the filter bilinear"),
        (lambda s: s.shear_x(0.3, fill=3), r"got fill=3: decode_image\(ignore=\) says"),
    ):
        with pytest.raises(PipelineError, match=why):
            say(slot("mask").decode_image(mode="id"))
    op = ("elastic", {"alpha": (9, 9), "sigma": 1, "filter": "bilinear", "fill": (0,) * 4, "id": 1})
    with pytest.raises(ValueError, match="ids may only be moved"):
        program.ImageProgram([op], mode="id", dtype="int32")


# --- goldens and bad input --------------------------------------------------------------------------------------


def golden() -> dict[str, int]:
    """Return a sum of what each step makes of one picture."""
    pixels = np.random.default_rng(1).integers(0, 256, (24, 32, 3), np.uint8)
    nearest = {name: dataclasses.replace(step, filter=steps.Take.NEAREST) for name, step in STEPS.items()}
    nearest |= {name: dataclasses.replace(step, filter=steps.Mixing.NEAREST) for name, step in ELASTIC.items()}
    made = {name: compiled(step).apply(pixels, Scratch(), 5).astype(np.int64) for name, step in nearest.items()}
    return {name: int((np.arange(1, one.size + 1) * one.reshape(-1)).sum()) for name, one in made.items()}


def test_draws_never_change() -> None:
    """Golden: another picture for a key is another version of the generator."""
    assert golden() == GOLDEN


GOLDEN: dict[str, int] = {
    "affine": 328352597,
    "affine_turns": 323178927,
    "affine_scales": 305570484,
    "affine_moves": 277227124,
    "shear": 321529043,
    "perspective": 307665003,
    "perspective_little": 336243342,
    "default": 291355973,
    "strong": 319077570,
    "rough": 321141185,
    "fine": 233543172,
}


@pytest.mark.parametrize(
    ("say", "message"),
    [
        (lambda c: c.affine(-1), "degrees must be within 0..3600, got -1"),
        (lambda c: c.affine(0, (0.1, 1.2)), "a number of translate must be within 0..1, got 1.2"),
        (lambda c: c.affine(0, 0.1), r"translate must be shares of \(width, height\), got 0.1"),
        (lambda c: c.affine(0, None, (0, 1)), "scale must be within 0.001..1000, got 0"),
        (lambda c: c.affine(shear=(1, 2, 3)), "shear must be one number"),
        (lambda c: c.affine(shear=(2, 1)), "shear must be .*the first is the larger one"),
        (lambda c: c.affine(shear=float("nan")), "shear must be a finite number"),
        (lambda c: c.shear(x=(1, "2")), "x must be a finite number"),
        (lambda c: c.perspective(1.2), "distortion_scale must be within 0..1, got 1.2"),
        (lambda c: c.perspective(p=1.2), "p must be within 0..1, got 1.2"),
        (lambda c: c.elastic(-1), "alpha must be within 0..1e.06, got -1"),
        (lambda c: c.elastic((1, 2, 3)), r"alpha must be one number or \(x, y\), got"),
        (lambda c: c.elastic(sigma=-1), "sigma must be within 0..100, got -1"),
        (lambda c: c.elastic(filter="bicubic"), "filter must be one of nearest, bilinear, got.*bicubic"),
    ],
)
def test_bad_arguments_are_refused(say: Any, message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        say(chain())


def test_three_numbers_fill_no_gray_picture() -> None:
    for say in (lambda c: c.elastic(fill=(1, 2, 3)), lambda c: c.perspective(fill=(1, 2, 3))):
        with pytest.raises(PipelineError, match="expected red, green and blue pixels, got gray ones: say fill=1"):
            say(slot("image").decode_image(mode="gray"))
