"""Steps that change values: against PIL's own functions, their draws, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import image_steps as steps
import image_steps_oracle as oracle
import numpy as np
import pytest
import tone_oracle
from image_slots import compiled
from pictures import picture
from PIL import Image, ImageEnhance, ImageOps
from pillow_resample import STOCK_PILLOW

from toolkit import chain, slot
from toolkit._native.image.program import ImageProgram, Scratch, _set_simd_level, simd_level
from toolkit.errors import PipelineError
from toolkit.pipelines.image.image_step import PixelStep

KEYS = np.random.default_rng(20).integers(0, 2**64, 4000, np.uint64).tolist()


def pictures() -> list[Image.Image]:
    """Photographs, noise, a narrow range of values, and a single colour; one of one pixel."""
    rng = np.random.default_rng(3)
    narrow = rng.integers(90, 99, (31, 45, 3), np.uint8)
    return [
        *(picture(seed, 70 - seed, 40 + seed) for seed in range(4)),
        Image.fromarray(rng.integers(0, 256, (33, 65, 3), np.uint8)),
        Image.fromarray(narrow),
        Image.fromarray(np.full((9, 7, 3), 130, np.uint8)),
        Image.fromarray(narrow[:1, :1]),
    ]


@pytest.fixture(params=["generic", "avx2", "avx512"])
def level(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each set of loops that this machine runs."""
    best = simd_level()
    try:
        _set_simd_level(request.param)
    except ValueError:
        pytest.skip(f"this machine has no {request.param}")
    yield request.param
    _set_simd_level(best)


def made_of(image: Image.Image, *chain: Any, key: int | None = None) -> np.ndarray:
    return compiled(*chain, mode=image.mode).apply(pixels_of(image), Scratch(), key)


def pixels_of(image: Image.Image) -> np.ndarray:
    pixels = np.asarray(image)
    return np.ascontiguousarray(pixels[:, :, None] if pixels.ndim == 2 else pixels)


def solarize_add(image: Image.Image, add: int, threshold: int = 128) -> Image.Image:
    """timm's, auto_augment.py."""
    table = [min(255, value + add) if value < threshold else value for value in range(256)]
    return image.point(table * len(image.getbands()))


TABLE = tuple(np.random.default_rng(8).integers(0, 256, 256).tolist())
AS_PIL: list[tuple[PixelStep, Callable[[Image.Image], Image.Image]]] = [
    *((steps.Posterize(bits), lambda image, bits=bits: ImageOps.posterize(image, bits)) for bits in range(1, 9)),
    *(
        (steps.Solarize(threshold), lambda image, threshold=threshold: ImageOps.solarize(image, threshold))
        for threshold in (0.0, 1.0, 99.5, 128.0, 255.0, 256.0)
    ),
    *((steps.SolarizeAdd(add), lambda image, add=add: solarize_add(image, add)) for add in (0, 11, 110, 255)),
    (steps.SolarizeAdd(50, 200.0), lambda image: solarize_add(image, 50, 200)),
    *(
        (steps.Gamma(gamma, gain), lambda image, by=(gamma, gain): tone_oracle.adjust_gamma(image, *by))
        for gamma, gain in ((0.0, 1.0), (0.45, 1.0), (1.0, 1.0), (2.2, 1.0), (1.5, 1.3), (0.7, 0.5), (3.0, 0.0))
    ),
    (steps.Lut(TABLE), lambda image: image.point(list(TABLE) * len(image.getbands()))),
    (steps.Invert(), ImageOps.invert),
    (steps.Equalize(), ImageOps.equalize),
    (steps.Autocontrast(), ImageOps.autocontrast),
    *(
        (steps.Autocontrast(cutoff), lambda image, cutoff=cutoff: ImageOps.autocontrast(image, cutoff))
        for cutoff in ((1.0, 1.0), (0.1, 0.3), (33.3, 0.0), (0.0, 12.0), (60.0, 60.0), (100.0, 100.0))
    ),
]


@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize(("step", "pil"), AS_PIL, ids=[step.text() for step, _ in AS_PIL])
def test_values_are_those_of_pil(
    step: PixelStep, pil: Callable[[Image.Image], Image.Image], mode: str, level: str
) -> None:
    for image in pictures():
        image = image.convert(mode)
        assert np.array_equal(made_of(image, step), pixels_of(pil(image)))


@pytest.mark.parametrize("factor", [0.0, 0.1, 0.33, 0.73, 1.0, 1.27, 1.9, 7.0])
def test_enhancements_are_those_of_pil(factor: float, level: str) -> None:
    enhancements = [
        (steps.Brightness(factor), ImageEnhance.Brightness),
        (steps.Contrast(factor), ImageEnhance.Contrast),
        (steps.Saturation(factor), ImageEnhance.Color),
    ]
    for image in pictures():
        for step, enhancement in enhancements:
            made = made_of(image, step)
            assert np.array_equal(made, oracle.apply(image, [step]))
            wanted = pixels_of(enhancement(image).enhance(factor)).astype(np.int16)
            most = 0 if STOCK_PILLOW or enhancement is ImageEnhance.Brightness else 1 + round(abs(factor - 1))
            assert np.abs(made.astype(np.int16) - wanted).max() <= most


def test_each_channel_has_its_table() -> None:
    tables = [TABLE, TABLE[::-1], tuple(range(256))]
    for image in pictures():
        assert np.array_equal(made_of(image, steps.Lut(tuple(tables))), pixels_of(image.point(list(np.ravel(tables)))))
    given = [tables, np.array(tables), np.array(tables, np.uint8), tuple(tables)]
    assert len({chain().lut(table).steps[0] for table in given}) == 1
    assert chain().lut(np.arange(256)).steps[0] == steps.Lut(tuple(range(256)))


@pytest.mark.parametrize("kelvin", [1000.0, 1900.0, 2500.0, 4000.0, 6599.0, 6600.0, 6601.0, 12000.0, 40000.0])
def test_colour_temperatures(kelvin: float) -> None:
    pixels = np.random.default_rng(6).integers(0, 256, (40, 40, 3), np.uint8)
    wanted = np.floor(pixels * np.array(tone_oracle.glow(kelvin)) / 255 + 0.5)
    assert np.array_equal(compiled(steps.ColorTemperature(kelvin)).apply(pixels, Scratch()), wanted)


def test_black_bodies_are_those_of_the_table() -> None:
    """Charity's table (CIE 1964, 10 degrees, sRGB) at some temperatures; the fit says of itself that it is close."""
    table = {2000: (255, 141, 11), 3000: (255, 184, 114), 5000: (255, 231, 204), 10000: (204, 219, 255)}
    for kelvin, wanted in table.items():
        assert np.abs(np.array(tone_oracle.glow(kelvin)) - wanted).max() <= 8


def every_colour(step: int = 1) -> np.ndarray:
    levels = np.arange(0, 256, step, dtype=np.uint8)
    return np.ascontiguousarray(np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(len(levels), -1, 3))


def check_every_colour(colours: np.ndarray, factor: float, chain: list[Any], enhance: Any) -> None:
    made = compiled(*chain).apply(colours, Scratch(), 1)
    assert np.array_equal(made, np.asarray(enhance(Image.fromarray(colours), factor))), factor


@pytest.mark.slow
@pytest.mark.parametrize("factor", [-0.5, -0.1, 0.004, 0.37])
def test_hue_of_every_colour(factor: float) -> None:
    jitter = steps.ColorJitter(None, None, None, (factor, factor))
    check_every_colour(every_colour(), factor, [jitter], oracle.turn_hue)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [0.1, 0.6180339, 1.9])
def test_saturation_of_every_colour(factor: float) -> None:
    check_every_colour(
        every_colour(), factor, [steps.Saturation(factor)], lambda *by: tone_oracle.enhance(by[0], 2, by[1])
    )


def test_hue_and_saturation_of_many_colours() -> None:
    colours = every_colour(7)
    for factor in (-0.5, -0.2, 0.003, 0.31):
        check_every_colour(colours, factor, [steps.ColorJitter(None, None, None, (factor, factor))], oracle.turn_hue)
    for factor in (0.3, 1.7):
        check_every_colour(
            colours, factor, [steps.Saturation(factor)], lambda *by: tone_oracle.enhance(by[0], 2, by[1])
        )


def test_alpha_stays() -> None:
    rng = np.random.default_rng(5)
    pixels = rng.integers(0, 256, (20, 30, 4), np.uint8)
    changes = [step for step, _ in AS_PIL] + [steps.Brightness(0.5), steps.Contrast(1.5), steps.Saturation(0.0)]
    changes += [steps.ColorTemperature(3000.0), steps.ChannelShuffle(), steps.ChannelDrop((1, 2), 7)]
    for step in changes:
        made = compiled(step, mode="RGBA").apply(pixels, Scratch(), 4)
        assert np.array_equal(made[:, :, 3], pixels[:, :, 3])
        without = compiled(step).apply(np.ascontiguousarray(pixels[:, :, :3]), Scratch(), 4)
        assert np.array_equal(made[:, :, :3], without)


def test_tables_that_follow_each_other_are_one() -> None:
    """And as many of them as there may be steps: more than there is room for tables."""
    image = picture(7, 50, 40)
    tables = [steps.Posterize(7), steps.Solarize(100.0), steps.Invert(), steps.Brightness(1.01), steps.SolarizeAdd(3)]
    many = tables * 12
    assert np.array_equal(made_of(image, *many), oracle.apply(image, many))
    histograms = [steps.Autocontrast(), steps.Equalize(), steps.Contrast(1.2), steps.Posterize(6)] * 4
    assert np.array_equal(made_of(image, *histograms), oracle.apply(image, histograms))


# ---- Draws ----


def observed(step: PixelStep, read: Callable[[np.ndarray], float], pixels: np.ndarray) -> np.ndarray:
    """What is read of the picture that each of KEYS makes of the pixels."""
    program, scratch = compiled(step), Scratch()
    return np.array([read(program.apply(pixels, scratch, key)) for key in KEYS])


def distance(found: np.ndarray, below: Callable[[np.ndarray], np.ndarray]) -> float:
    """Kolmogorov and Smirnov's distance from a distribution function."""
    found = np.sort(found)
    wanted = below(found)
    n = len(found)
    return float(max((np.arange(1, n + 1) / n - wanted).max(), (wanted - np.arange(n) / n).max()))


# 1.63 / sqrt(n): one in a hundred samples is further away; the seed is fixed.
NEAR = 1.63 / np.sqrt(len(KEYS))
RAMP = np.repeat(np.arange(256, dtype=np.uint8), 3).reshape(1, 256, 3)


@pytest.mark.parametrize(
    "step",
    [
        steps.Grayscale(3, 0.3),
        steps.Brightness(0.5, False, 0.3),
        steps.Contrast(0.5, False, 0.3),
        steps.Saturation(0.5, False, 0.3),
        steps.Posterize(2, 0.3),
        steps.Solarize(100.0, 0.3),
        steps.SolarizeAdd(30, 128.0, 0.3),
        steps.Invert(0.3),
        steps.Equalize(0.3),
        steps.Autocontrast((5.0, 5.0), 0.3),
        steps.Gamma(2.0, 1.0, 0.3),
        steps.Lut(TABLE, 0.3),
        steps.ColorTemperature(3000.0, 0.3),
        steps.ChannelDrop(1, 7, 0.3),
    ],
    ids=lambda step: step.word,
)
def test_the_probability(step: PixelStep) -> None:
    pixels = pixels_of(picture(1, 30, 20))
    happened = observed(step, lambda made: not np.array_equal(made, pixels), pixels).mean()
    assert abs(happened - 0.3) < 3 * np.sqrt(0.3 * 0.7 / len(KEYS))


@pytest.mark.parametrize("kind", [steps.Brightness, steps.Contrast, steps.Saturation])
def test_factors_are_uniform(kind: Any) -> None:
    """A factor is read off a value of 200 beside black (brightness), or off a red that goes to or from gray."""
    pixels = np.zeros((1, 2, 3), np.uint8)
    pixels[0, 0] = 200 if kind is steps.Brightness else (0, 0, 0) if kind is steps.Contrast else (200, 20, 60)
    pixels[0, 1] = 240 if kind is steps.Contrast else 0

    def factor(made: np.ndarray) -> float:
        first, second = made[0].astype(float)
        if kind is steps.Brightness:
            return first[0] / 200
        return (second - first)[0] / 240 if kind is steps.Contrast else (first[0] - first[1]) / 180

    found = observed(kind((0.25, 1.0)), factor, pixels)
    assert distance(found, lambda x: np.clip((x - 0.25) / 0.75, 0, 1)) < NEAR + 0.01  # values are whole
    mirrored = observed(kind((0.25, 0.75), True), factor, pixels)
    assert abs((mirrored > 1).mean() - 0.5) < 3 * 0.5 / np.sqrt(len(KEYS))


def test_bits_thresholds_and_sums_are_uniform() -> None:
    bits = observed(steps.Posterize((2, 6)), lambda made: np.log2(len(np.unique(made))), RAMP)
    assert sorted(set(bits)) == [2, 3, 4, 5, 6]
    assert abs(np.bincount(bits.astype(int))[2:] / len(KEYS) - 0.2).max() < 3 * np.sqrt(0.2 * 0.8 / len(KEYS))
    thresholds = observed(steps.Solarize((50.0, 200.0)), lambda made: (np.diff(made[0, :, 0]) == 1).sum(), RAMP)
    assert distance(thresholds, lambda x: np.clip((x - 50) / 150, 0, 1)) < NEAR + 0.01
    sums = observed(steps.SolarizeAdd((10, 50)), lambda made: made[0, 0, 0], RAMP)
    assert set(sums) == set(range(10, 51))
    assert distance(sums, lambda x: (x - 9) / 41) < NEAR + 1 / 41


def test_gammas_and_temperatures_are_uniform() -> None:
    pixels = np.full((1, 1, 3), 128, np.uint8)
    gammas = observed(
        steps.Gamma((0.5, 1.5)), lambda made: np.log((made[0, 0, 0] + 0.5) / 256) / np.log(128 / 255), pixels
    )
    assert distance(gammas, lambda x: np.clip(x - 0.5, 0, 1)) < NEAR + 0.01
    # Blue goes up with the temperature: what temperature gives what was seen?
    kelvins = np.linspace(2000, 6000, 4001)
    blues = np.array([tone_oracle.glow(kelvin)[2] for kelvin in kelvins])
    seen = observed(
        steps.ColorTemperature((2000.0, 6000.0)), lambda made: made[0, 0, 2], np.full((1, 1, 3), 255, np.uint8)
    )
    assert distance(np.interp(seen, blues, kelvins), lambda x: (x - 2000) / 4000) < NEAR + 0.01


def test_orders_and_dropped_channels_are_alike_likely() -> None:
    pixels = np.array([[[1, 2, 3]]], np.uint8)
    orders = observed(steps.ChannelShuffle(), lambda made: made[0, 0] @ [100, 10, 1], pixels)
    assert sorted(set(orders)) == [123, 132, 213, 231, 312, 321]
    # Each of them is within three standard deviations.
    assert abs(np.unique(orders, return_counts=True)[1] / len(KEYS) - 1 / 6).max() < 3 * np.sqrt(5 / 36 / len(KEYS))
    dropped = observed(steps.ChannelDrop((1, 2)), lambda made: made[0, 0] @ [100, 10, 1], pixels)
    assert sorted(set(dropped)) == [3, 20, 23, 100, 103, 120]
    assert abs(np.unique(dropped, return_counts=True)[1] / len(KEYS) - 1 / 6).max() < 3 * np.sqrt(5 / 36 / len(KEYS))
    shuffled = observed(steps.ChannelShuffle(0.3), lambda made: made[0, 0] @ [100, 10, 1] != 123, pixels)
    assert abs(shuffled.mean() - 0.25) < 3 * np.sqrt(0.25 * 0.75 / len(KEYS))


def test_draws_never_change() -> None:
    # Golden: a change here silently changes everybody's augmentations.
    pixels = pixels_of(picture(3, 6, 5))
    chains = [
        [steps.Brightness((0.2, 1.8), True, 0.9)],
        [steps.Contrast((0.2, 1.8), True, 0.9)],
        [steps.Saturation((0.2, 1.8), True, 0.9)],
        [steps.Posterize((1, 8), 0.9), steps.Posterize((1, 8), 0.9)],
        [steps.Solarize((0.0, 256.0), 0.9)],
        [steps.SolarizeAdd((-255, 255), 128.0, 0.9)],
        [steps.Invert(0.5)],
        [steps.Gamma((0.5, 2.0), 1.0, 0.9)],
        [steps.Lut(TABLE, 0.5)],
        [steps.ChannelShuffle(0.9), steps.Gamma(3.0), steps.ChannelDrop((1, 2), 200, 0.9), steps.ChannelShuffle(0.9)],
        [steps.ColorTemperature((1000.0, 40000.0), 0.9)],
        [steps.Equalize(0.5), steps.Autocontrast((0.0, 0.0), 0.5), steps.Grayscale(3, 0.5)],
    ]
    weights = np.arange(pixels.size)
    sums = [[int(compiled(*one).apply(pixels, Scratch(), key).ravel() @ weights) for key in range(6)] for one in chains]
    assert sums == GOLDEN


GOLDEN: list[list[int]] = [
    [812465, 814039, 753102, 765112, 295255, 781306],
    [667244, 650548, 657454, 652662, 656332, 655363],
    [658126, 649570, 651761, 647003, 658695, 658655],
    [515200, 515200, 353280, 353280, 353280, 620720],
    [240272, 176647, 654505, 176191, 204045, 176191],
    [791455, 591081, 597279, 591081, 888965, 893634],
    [366770, 654505, 654505, 366770, 654505, 654505],
    [756123, 542160, 626970, 654505, 543482, 654505],
    [516480, 516480, 516480, 516480, 654505, 516480],
    [612395, 603351, 602670, 596434, 762489, 598871],
    [505820, 495795, 593331, 358595, 600905, 555211],
    [654505, 505435, 663411, 529908, 654505, 505435],
]


# ---- What is refused ----


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda c: c.brightness(-0.1), "factor must be within 0..1e+06, got -0.1"),
        (lambda c: c.contrast(float("nan")), "factor must be a finite number, got nan"),
        (lambda c: c.saturation((1.5, 0.5)), "factor must be (low, high), got (1.5, 0.5): the first is the larger one"),
        (
            lambda c: c.saturation((0.5, 2.5), mirror=True),
            "factor must be within 0..2 with mirror=True, got (0.5, 2.5)",
        ),
        (lambda c: c.brightness(1.0, p=1.2), "p must be within 0..1, got 1.2"),
        (lambda c: c.posterize(0), "bits must be an int in 1..8, got 0"),
        (lambda c: c.posterize(9), "bits must be an int in 1..8, got 9"),
        (lambda c: c.posterize(4.0), "bits must be an int in 1..8, got 4.0"),
        (lambda c: c.posterize((1, 9)), "bits must be within 1..8, got 9"),
        (lambda c: c.posterize((1.0, 8)), "bits must be an int in 1..8, got 1.0"),
        (lambda c: c.solarize(257), "threshold must be within 0..256, got 257"),
        (lambda c: c.solarize(threshold=None), "threshold must be a finite number, got None"),
        (lambda c: c.solarize_add(300), "add must be an int in -255..255, got 300"),
        (lambda c: c.invert(p=float("nan")), "p must be a finite number, got nan"),
        (lambda c: c.equalize(-0.5), "p must be within 0..1, got -0.5"),
        (lambda c: c.autocontrast(101), "cutoff must be within 0..100, got 101"),
        (lambda c: c.autocontrast((1, 2, 3)), "cutoff must be a number or (darkest, lightest), got (1, 2, 3)"),
        (lambda c: c.gamma(-1), "gamma must be within 0..1000, got -1"),
        (lambda c: c.gamma(1.0, gain=float("inf")), "gain must be a finite number, got inf"),
        (lambda c: c.lut(range(255)), "table must be 256 values, or 3 times 256, got"),
        (lambda c: c.lut([range(256), range(256), range(9)]), "table must be 256 values, or 3 times 256, got"),
        (lambda c: c.lut(range(1, 257)), "value 255 of table must be an int in 0..255, got 256"),
        (lambda c: c.lut([0.5] * 256), "value 0 of table must be an int in 0..255, got 0.5"),
        (lambda c: c.lut(np.full((3, 256), -1)), "value 0 of table[0] must be an int in 0..255, got -1"),
        (lambda c: c.lut("a" * 256), "table must be 256 values, or 3 times 256, got"),
        (lambda c: c.channel_drop(3), "channels must be an int in 1..2, got 3"),
        (lambda c: c.channel_shuffle(p=2), "p must be within 0..1, got 2"),
        (lambda c: c.color_temperature(500), "kelvin must be within 1000..40000, got 500"),
        (lambda c: c.grayscale(p=0.5), "channels must be 3 with p=0.5, got 1"),
    ],
)
def test_what_cannot_be_is_refused_as_it_is_written(build: Callable[[Any], Any], says: str) -> None:
    with pytest.raises(PipelineError) as caught:
        build(chain())
    assert says in str(caught.value)


@pytest.mark.parametrize(
    "word",
    [
        "color_jitter(hue=0.1)",
        "saturation(0.5)",
        "channel_shuffle()",
        "channel_drop()",
        "color_temperature(3000)",
        "lut([range(256)] * 3)",
    ],
)
def test_what_needs_colours_says_so(word: str) -> None:
    with pytest.raises(PipelineError, match="expected 3 channels, got 1"):
        eval(f'slot("image").decode_image(mode="gray").{word}', {"slot": slot})
    for mode in ("rgb", "rgba"):
        assert eval(f'slot("image").decode_image(mode=mode).{word}', {"slot": slot, "mode": mode})


def test_kernels_refuse_what_does_not_go_together() -> None:
    factor = {"factor": (0.5, 2.5), "mirror": 1, "p": 1.0, "id": 1}
    with pytest.raises(ValueError, match="mirror needs factors of 0 to 2"):
        ImageProgram([("brightness", factor)])
    with pytest.raises(ValueError, match="p below 1 needs channels=3"):
        ImageProgram([("grayscale", {"channels": 1, "p": 0.5, "id": 1})])


def test_what_is_fixed_draws_nothing() -> None:
    fixed = [steps.Brightness(0.5), steps.Posterize(3), steps.Solarize(), steps.Invert(), steps.Grayscale(3)]
    assert not any(step.draws for step in fixed)
    assert not ImageProgram([(step.word, step.kernel()) for step in fixed]).random
    drawing = [steps.Brightness(0.5, True), steps.Posterize((3, 4)), steps.Equalize(0.5), steps.Grayscale(3, 0.5)]
    for step in drawing:
        assert step.draws
        with pytest.raises(ValueError, match="id is missing"):
            ImageProgram([(step.word, step.kernel())])
        assert ImageProgram([(step.word, step.kernel() | {"id": 1})]).random
