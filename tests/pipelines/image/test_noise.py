"""Noise on pixels and behind normalize, value by value against numpy; its distributions; clamp against numpy.clip."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import image_steps as steps
import numpy as np
import pytest
from counted_draws import bits, fold, normal_planes
from image_slots import MODES, compiled
from image_steps_oracle import Draws
from numpy.typing import NDArray
from pictures import picture
from scipy import stats

import toolkit
from toolkit import slot
from toolkit._native.image import program as image
from toolkit._native.image.program import Scratch
from toolkit.errors import PipelineError

SCRATCH = Scratch()
F = np.float32
NORMALIZE = steps.Normalize((0.5, 0.25, 0.75), (0.5, 0.5, 1.0))


def pixels_of(mode: str, width: int, height: int, seed: int = 0) -> NDArray[np.uint8]:
    made = picture(seed, width, height)
    if mode == "RGBA":
        made.putalpha(picture(seed + 1, width, height).convert("L"))
    pixels = np.asarray(made if mode == "RGBA" else made.convert(mode))
    return np.ascontiguousarray(pixels.reshape(height, width, -1))


def drawn(value: Any, u: float) -> np.float32:
    low, high = value if isinstance(value, tuple) else (value, value)
    return F(low + (high - low) * u)


def noisy(step: Any, key: int, pixels: NDArray[Any]) -> NDArray[Any]:
    """What a step makes of pixels, or of floats (height, width, channels)."""
    height, width, channels = pixels.shape
    u = Draws(key, step, 0)
    own = int(fold(u.key, 1 << 33)[0])
    if u[0] >= step.p:
        return pixels
    made = pixels.copy()
    colours = made[:, :, :3]
    if isinstance(step, steps.SaltAndPepper):
        amount = drawn(step.amount, u[1])
        found = bits(own, height, width)
        changed = (found >> np.uint64(32)) < np.uint64(float(amount) * 2**32)
        white = (found & np.uint64(0xFFFFFFFF)) < np.uint64(float(F(step.salt)) * 2**32)
        colours[changed] = np.where(white[changed], 255, 0)[:, None]
        return made
    z = normal_planes(own, min(channels, 3), height, width).transpose(1, 2, 0)
    noise = drawn(step.std, u[1]) * z
    if pixels.dtype != np.uint8:
        return made + (F(step.mean) + noise)
    if isinstance(step, steps.SpeckleNoise):
        total = colours + colours.astype(F) * (F(0) + noise)
    else:
        total = colours + (F(step.mean) + noise)
    colours[:] = (np.clip(total, F(0), F(255)) + F(0.5)).astype(np.int32)
    return made


STEPS = [
    steps.GaussianNoise(25.0),
    steps.GaussianNoise((0.0, 60.0), -3.5, 0.5),
    steps.GaussianNoise(1e6, 1e6),
    steps.GaussianNoise(0.0, 0.25),
    steps.SpeckleNoise(0.2),
    steps.SpeckleNoise((0.1, 3.0), 0.5),
    steps.SaltAndPepper(0.1),
    steps.SaltAndPepper((0.0, 1.0), 0.2, 0.5),
    steps.SaltAndPepper(1.0, 1.0),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", STEPS)
def test_pixels(step: Any, mode: str) -> None:
    for width, height in ((64, 8), (130, 20), (63, 5), (1, 1)):
        pixels = pixels_of(mode, width, height)
        for key in range(6):
            made = compiled(step, mode=mode).apply(pixels, SCRATCH, key)
            assert np.array_equal(made, noisy(step, key, pixels))


@pytest.mark.parametrize("layout", [steps.ToChw(), steps.ToHwc()])
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_behind_normalize(dtype: str, layout: Any) -> None:
    pixels = pixels_of("RGB", 70, 33)
    written = compiled(NORMALIZE, steps.Cast(dtype)).apply(pixels, SCRATCH).transpose(1, 2, 0)
    for step in (steps.GaussianNoise(0.1), steps.GaussianNoise((0.0, 3.0), 0.5, 0.5)):
        for key in range(6):
            expected = noisy(step, key, written.astype(F)).astype(dtype)
            made = compiled(NORMALIZE, steps.Cast(dtype), layout, step).apply(pixels, SCRATCH, key)
            if isinstance(layout, steps.ToChw):
                made = made.transpose(1, 2, 0)
            assert np.array_equal(made, expected)


def test_bfloat16_is_rounded() -> None:
    pixels = pixels_of("RGB", 70, 33)
    step = steps.GaussianNoise(0.3)
    raw = compiled(NORMALIZE, steps.Cast("bfloat16")).apply(pixels, SCRATCH)
    written = (raw.astype(np.uint32) << np.uint32(16)).view(F).transpose(1, 2, 0)
    made = compiled(NORMALIZE, steps.Cast("bfloat16"), step).apply(pixels, SCRATCH, 5)
    values = (made.astype(np.uint32) << np.uint32(16)).view(F).transpose(1, 2, 0)
    expected = noisy(step, 5, written)
    assert (abs(values - expected) <= abs(expected) * 2.0**-8).all()


@pytest.mark.parametrize("behind", [steps.HFlip(1.0), steps.CenterCrop(20, 90), steps.Resize(21, 19)])
def test_steps_behind_it_take_the_noisy_picture(behind: Any) -> None:
    pixels = pixels_of("RGB", 60, 50)
    for step in STEPS:
        expected = compiled(behind).apply(np.ascontiguousarray(noisy(step, 3, pixels)), SCRATCH, 3)
        assert np.array_equal(compiled(step, behind).apply(pixels, SCRATCH, 3), expected)


def test_every_instruction_set_draws_alike() -> None:
    pixels = pixels_of("RGB", 130, 40)
    best, made = image.simd_level(), []
    try:
        for level in ("generic", "avx2", "avx512"):
            try:
                image._set_simd_level(level)
            except ValueError:
                continue
            made.append([compiled(step).apply(pixels, SCRATCH, 9).tobytes() for step in STEPS])
    finally:
        image._set_simd_level(best)
    assert all(each == made[0] for each in made)


def test_draws_never_change() -> None:
    # Golden: a change here silently changes everybody's augmentations.
    gray = np.full((3, 70, 3), 128, np.uint8)
    found = {
        type(step).__name__: compiled(step).apply(gray, SCRATCH, 1)[2, 65].tolist()
        for step in (steps.GaussianNoise((20.0, 40.0)), steps.SpeckleNoise((0.2, 0.4)), steps.SaltAndPepper(0.9, 0.5))
    }
    assert found == GOLDEN


GOLDEN = {"GaussianNoise": [134, 118, 128], "SpeckleNoise": [104, 113, 113], "SaltAndPepper": [0, 0, 0]}


def test_gaussian_noise_is_normal() -> None:
    gray = np.full((400, 500, 3), 128, np.uint8)
    made = compiled(steps.GaussianNoise(20.0, 3.0)).apply(gray, SCRATCH, 2).astype(float) - 128
    n = made.size
    assert abs(made.mean() - 3) < 4 * 20 / math.sqrt(n)
    assert abs(made.var() / (400 + 1 / 12) - 1) < 4 * math.sqrt(2 / n)  # a twelfth by rounding
    assert abs(stats.skew(made, None)) < 4 * math.sqrt(6 / n)
    assert abs(stats.kurtosis(made, None)) < 4 * math.sqrt(24 / n)
    # Each level as often as the normal distribution has it.
    levels = np.arange(-60, 66)
    expected = np.diff(stats.norm(3, 20).cdf(np.arange(-60.5, 66)))
    counts = np.array([(made == level).sum() for level in levels])
    assert (
        stats.chisquare(np.append(counts, n - counts.sum()), n * np.append(expected, 1 - expected.sum())).pvalue > 0.01
    )
    flat = compiled(NORMALIZE, steps.GaussianNoise(2.0, 1.0)).apply(gray, SCRATCH, 3)
    clean = compiled(NORMALIZE).apply(gray, SCRATCH)
    assert stats.kstest(((flat - clean - 1) / 2).ravel()[:100_000], stats.norm.cdf).pvalue > 0.01


def test_what_is_drawn_for_a_picture_is_uniform() -> None:
    flat = np.full((60, 80, 3), 128, np.uint8)
    cases = [
        (steps.GaussianNoise((5.0, 25.0), 0.0, 0.6), (5.0, 25.0), lambda made: math.sqrt(max(made.var() - 1 / 12, 0))),
        (steps.SpeckleNoise((0.05, 0.2), 0.6), (0.05, 0.2), lambda made: math.sqrt(max(made.var() - 1 / 12, 0)) / 128),
        (steps.SaltAndPepper((0.1, 0.5), 0.5, 0.6), (0.1, 0.5), lambda made: (made != 0).mean()),
    ]
    for step, (low, high), measure in cases:
        values = []
        for key in range(1500):
            made = compiled(step).apply(flat, SCRATCH, key).astype(float) - 128
            if made.any():
                values.append(measure(made))
        assert stats.binomtest(len(values), 1500, 0.6).pvalue > 0.01
        assert stats.kstest(values, stats.uniform(low, high - low).cdf).pvalue > 0.001


def test_salt_is_strewn_evenly() -> None:
    flat = np.full((500, 600, 3), 128, np.uint8)
    made = compiled(steps.SaltAndPepper(0.2, 0.3)).apply(flat, SCRATCH, 7)
    assert (made == made[:, :, :1]).all()
    one = made[:, :, 0]
    assert stats.binomtest(int((one != 128).sum()), one.size, 0.2).pvalue > 0.01
    assert stats.binomtest(int((one == 255).sum()), int((one != 128).sum()), 0.3).pvalue > 0.01
    by_block = (one != 128).reshape(10, 50, 12, 50).sum((1, 3)).ravel()
    assert stats.kstest((by_block - 500) / math.sqrt(400), stats.norm.cdf).pvalue > 0.01


@pytest.mark.parametrize("mode", MODES)
def test_clamp(mode: str) -> None:
    pixels = pixels_of(mode, 40, 30)
    made = compiled(steps.Clamp(50.0, 99.0), mode=mode).apply(pixels, SCRATCH)
    expected = pixels.copy()
    expected[:, :, :3] = pixels[:, :, :3].clip(50, 99)
    assert np.array_equal(made, expected)


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_clamp_behind_normalize(dtype: str) -> None:
    pixels = pixels_of("RGB", 40, 30)
    plain = compiled(NORMALIZE, steps.Cast(dtype)).apply(pixels, SCRATCH)
    made = compiled(NORMALIZE, steps.Cast(dtype), steps.Clamp(-0.3, 0.7)).apply(pixels, SCRATCH)
    assert np.array_equal(made, plain.astype(F).clip(F(-0.3), F(0.7)).astype(dtype))


def test_clamp_of_other_numbers(tmp_path: Path, commit_rows: Any) -> None:
    import pyarrow as pa
    from keyed_rows import keyed

    values = pa.array([[1.5, -2.0], [9.0, 0.25]], pa.list_(pa.float32()))
    commit_rows(tmp_path / "ds", {"train": [[keyed({"x": values, "y": pa.array([1, 200], pa.int64())})]]})
    ds = toolkit.open(tmp_path / "ds")
    made = toolkit.pipeline(slot("x").array("float32", (2,)).clamp(0, 2.5), slot("y").scalar("int64").clamp(3, 9))
    (batch,) = ds.loader(made, batch_size=2)
    assert batch["x"].tolist() == [[1.5, 0.0], [2.5, 0.25]]
    assert batch["y"].tolist() == [3, 9]


IMAGE = slot("image").decode_image()


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: IMAGE.gaussian_noise(-1), "std must be within 0..1e.06, got -1"),
        (lambda: IMAGE.gaussian_noise(float("nan")), "std must be a finite number, got nan"),
        (lambda: IMAGE.gaussian_noise((5, 2)), "std must be .low, high.*the first is the larger one"),
        (lambda: IMAGE.gaussian_noise(1, p=1.2), r"p must be within 0\.\.1, got 1\.2"),
        (lambda: IMAGE.salt_and_pepper(1.5), r"amount must be within 0\.\.1, got 1\.5"),
        (lambda: IMAGE.salt_and_pepper(0.5, -1), r"salt must be within 0\.\.1, got -1"),
        (lambda: IMAGE.clamp(3, 2), "low must not be above high, got 3 and 2"),
        (lambda: IMAGE.clamp(0.5, 2), "expected ends that uint8 has, got 0.5: give whole numbers"),
        (lambda: IMAGE.clamp(-1, 2), "expected ends that uint8 has, got -1: give whole numbers"),
        (lambda: IMAGE.to_chw().clamp(0, 1), "expected uint8 pixels, or a tensor of floats, got a uint8 tensor"),
        (lambda: IMAGE.to_chw().gaussian_noise(2), "expected uint8 pixels, or a tensor of floats, got a uint8 tensor"),
        (lambda: IMAGE.normalize("half").salt_and_pepper(0.1), "move normalize to the end"),
        (lambda: IMAGE.normalize("half").speckle_noise(0.1), "move normalize to the end"),
        (lambda: IMAGE.normalize("half").gaussian_noise(0.1).cast("float16"), "put cast in front"),
        (lambda: slot("x").array("float32", (3, 4, 4)).gaussian_noise(0.1), "expected uint8 height x width"),
        (lambda: slot("x").text().clamp(0, 1), "expected a number or tensor, got text: decode first"),
    ],
)
def test_refusals(build: Any, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        build()
