"""random_erasing on pixels and behind normalize: places and values against numpy; what it draws by its distribution."""

from __future__ import annotations

import math
from typing import Any

import image_steps as steps
import numpy as np
import pytest
from counted_draws import bits, fold, normal_planes, normals
from image_slots import MODES, compiled
from image_steps_oracle import Draws
from numpy.typing import NDArray
from pictures import picture
from scipy import stats

from toolkit import chain, slot
from toolkit._native.image import program as image
from toolkit._native.image.program import Scratch
from toolkit.errors import PipelineError

SCRATCH = Scratch()
NORMALIZE = steps.Normalize((0.5, 0.25, 0.75), (0.5, 0.5, 1.0))
Box = tuple[int, int, int, int]


def boxes_of(step: steps.RandomErasing, u: Draws, height: int, width: int) -> list[tuple[int, Box]]:
    """The rectangles that a step erases, each with its number: torchvision's get_params, with timm's count."""
    if u[0] >= step.p:
        return []
    fewest, most = step.count
    count = fewest + int(u[1] * (most - fewest + 1))
    found = []
    for r in range(count):
        for k in range(2 + 40 * r, 42 + 40 * r, 4):
            area = height * width * (step.scale[0] + (step.scale[1] - step.scale[0]) * u[k]) / count
            low, high = map(math.log, step.ratio)
            ratio = math.exp(low + (high - low) * u[k + 1])
            h, w = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if h < height and w < width:
                found.append((r, (int(u[k + 2] * (height - h + 1)), int(u[k + 3] * (width - w + 1)), h, w)))
                break
    return found


def erased(step: steps.RandomErasing, key: int, pixels: NDArray[Any]) -> NDArray[Any]:
    """What a step makes of pixels, or of floats (height, width, channels)."""
    made = pixels.copy()
    height, width, channels = pixels.shape
    u = Draws(key, step, 0)
    for r, (top, left, h, w) in boxes_of(step, u, height, width):
        own = int(fold(u.key, (1 << 33) + r)[0])
        value: Any = step.value
        if step.mode is steps.Erasing.RANDOM and pixels.dtype == np.uint8:
            shifts = np.arange(0, 8 * channels, 8, dtype=np.uint64)
            value = (bits(own, h, w)[:, :, None] >> shifts).astype(np.uint8)
        elif step.mode is steps.Erasing.RANDOM:
            value = normal_planes(own, channels, h, w).transpose(1, 2, 0)
        elif step.mode is steps.Erasing.RANDOM_COLOR and pixels.dtype == np.uint8:
            value = [int(fold(own, 0)[0]) >> 8 * c & 255 for c in range(channels)]
        elif step.mode is steps.Erasing.RANDOM_COLOR:
            value = normals(np.array([own], np.uint64), channels)[0]
        made[top : top + h, left : left + w] = value
    return made


def pixels_of(mode: str, width: int, height: int, seed: int = 0) -> NDArray[np.uint8]:
    made = picture(seed, width, height)
    if mode == "RGBA":
        made.putalpha(picture(seed + 1, width, height).convert("L"))
    pixels = np.asarray(made if mode == "RGBA" else made.convert(mode))
    return np.ascontiguousarray(pixels.reshape(height, width, -1))


def erasing(**fields: Any) -> steps.RandomErasing:
    return steps.RandomErasing(**{"p": 1.0, "scale": (0.1, 0.6)} | fields)


STEPS = [
    erasing(),
    erasing(p=0.5, value=(200.0,)),
    erasing(mode=steps.Erasing.RANDOM),
    erasing(mode=steps.Erasing.RANDOM_COLOR, count=(1, 4)),
    erasing(scale=(0.9, 1.0), ratio=(0.2, 5.0), mode=steps.Erasing.RANDOM, count=(2, 2)),
    erasing(scale=(0.0, 0.001)),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("step", STEPS)
def test_pixels(step: steps.RandomErasing, mode: str) -> None:
    for width, height in ((64, 48), (7, 130), (2, 2), (1, 1)):
        pixels = pixels_of(mode, width, height)
        for key in range(40):
            made = compiled(step, mode=mode).apply(pixels, SCRATCH, key)
            assert np.array_equal(made, erased(step, key, pixels))


@pytest.mark.parametrize("mode", MODES)
def test_a_value_for_each_channel(mode: str) -> None:
    pixels = pixels_of(mode, 30, 20)
    step = erasing(value=tuple(float(value) for value in (1, 2, 3, 4)[: pixels.shape[2]]))
    for key in range(10):
        assert np.array_equal(compiled(step, mode=mode).apply(pixels, SCRATCH, key), erased(step, key, pixels))


@pytest.mark.parametrize("layout", [steps.ToChw(), steps.ToHwc()])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("step", [*STEPS, erasing(value=(-2.5, 0.1, 1000.5))])
def test_behind_normalize(step: steps.RandomErasing, dtype: str, layout: steps.ImageStep) -> None:
    pixels = pixels_of("RGB", 70, 33)
    for key in range(8):
        written = compiled(NORMALIZE).apply(pixels, SCRATCH).transpose(1, 2, 0)
        expected = erased(step, key, written)
        if isinstance(layout, steps.ToChw):
            expected = expected.transpose(2, 0, 1)
        made = compiled(NORMALIZE, steps.Cast(dtype), layout, step).apply(pixels, SCRATCH, key)
        assert np.array_equal(made, rounded(expected, dtype))
        if dtype == "float32":
            assert np.array_equal(compiled(NORMALIZE, step, layout).apply(pixels, SCRATCH, key), expected)


def rounded(values: NDArray[np.float32], dtype: str) -> NDArray[Any]:
    if dtype != "bfloat16":
        return values.astype(dtype)
    raw = np.ascontiguousarray(values).view(np.uint32)
    return ((raw + np.uint32(0x7FFF) + (raw >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def test_float16_is_read_and_written_as_it_was() -> None:
    """Every float16 that pixels can become, through a step that changes nothing of most of it."""
    values = np.arange(256, dtype=np.uint8).repeat(3).reshape(16, 16, 3)
    nothing = erasing(scale=(0.0, 0.0))
    for scale in (1e-7, 1e-5, 1.0, 250.0):
        norm = steps.Normalize((0.3,) * 3, (1 / (255 * scale),) * 3)
        plain = compiled(norm, steps.Cast("float16")).apply(values, SCRATCH)
        assert np.array_equal(compiled(norm, steps.Cast("float16"), nothing).apply(values, SCRATCH, 1), plain)


@pytest.mark.parametrize(
    "behind",
    [
        [steps.HFlip(1.0)],
        [steps.VFlip(1.0), steps.HFlip(1.0)],
        [steps.ColorJitter((0.5, 0.5), (1.5, 1.5), None, None), steps.VFlip(1.0)],
        [steps.CenterCrop(20, 90)],
        [steps.Resize(21, 19)],
    ],
)
def test_steps_behind_it_take_the_erased_picture(behind: list[Any]) -> None:
    pixels = pixels_of("RGB", 60, 50)
    step = erasing(mode=steps.Erasing.RANDOM)
    before = [steps.HFlip(1.0), steps.Resize(40, 45)]
    for key in range(6):
        first = compiled(*before).apply(pixels, SCRATCH, key)
        expected = compiled(*behind).apply(erased(step, key, first), SCRATCH, key)
        made = compiled(*before, step, *behind).apply(pixels, SCRATCH, key)
        assert np.array_equal(made, expected)


def test_every_instruction_set_draws_alike() -> None:
    pixels = pixels_of("RGB", 130, 40)
    best, made = image.simd_level(), []
    try:
        for level in ("generic", "avx2", "avx512"):
            try:
                image._set_simd_level(level)
            except ValueError:
                continue
            made.append(
                [
                    compiled(*steps_before, erasing(mode=mode)).apply(pixels, SCRATCH, 9).tobytes()
                    for steps_before in ([], [NORMALIZE])
                    for mode in steps.Erasing
                ]
            )
    finally:
        image._set_simd_level(best)
    assert all(each == made[0] for each in made)


def test_draws_never_change() -> None:
    # Golden: a change here silently changes everybody's augmentations.
    step = erasing(p=0.9, scale=(0.02, 0.33), count=(1, 3), mode=steps.Erasing.RANDOM)
    pixels = np.zeros((224, 224, 3), np.uint8)
    boxes = [boxes_of(step, Draws(key, step, 0), 224, 224) for key in (1, 2)]
    assert boxes == GOLDEN_BOXES
    made = compiled(step).apply(pixels, SCRATCH, 1)
    (_, (top, left, _, _)), *_ = boxes[0]
    assert made[top, left].tolist() == GOLDEN_PIXEL
    floats = compiled(NORMALIZE, step).apply(pixels, SCRATCH, 1)
    assert floats[:, top, left].tolist() == GOLDEN_NUMBERS


GOLDEN_BOXES = [
    [(0, (97, 172, 32, 44)), (1, (30, 52, 49, 107)), (2, (138, 75, 47, 68))],
    [(0, (160, 148, 20, 28)), (1, (173, 90, 20, 50))],
]
GOLDEN_PIXEL = [255, 106, 43]
GOLDEN_NUMBERS = [1.226001262664795, 0.4994572103023529, -0.6512888669967651]


def found_box(made: NDArray[np.uint8]) -> Box | None:
    """The rectangle of ones."""
    rows, columns = np.flatnonzero(made.any((1, 2))), np.flatnonzero(made.any((0, 2)))
    if not len(rows):
        return None
    top, left, h, w = int(rows[0]), int(columns[0]), len(rows), len(columns)
    assert made[top : top + h, left : left + w].all()
    assert made.sum() == 3 * h * w
    return top, left, h, w


def test_distributions() -> None:
    """Area, ratio and place as torchvision draws them: uniform, log-uniform, uniform where it fits."""
    side, scale, ratio = 400, (0.02, 0.2), (0.4, 2.5)  # every attempt fits
    run = compiled(steps.RandomErasing(0.7, scale, ratio, (1.0,)))
    pixels = np.zeros((side, side, 3), np.uint8)
    found = [found_box(run.apply(pixels, SCRATCH, key)) for key in range(2500)]
    boxes = np.array([box for box in found if box is not None], float)
    assert stats.binomtest(len(boxes), len(found), 0.7).pvalue > 0.01
    top, left, h, w = boxes.T
    assert stats.kstest(h * w / side**2, stats.uniform(scale[0], scale[1] - scale[0]).cdf).pvalue > 0.01
    low, high = map(math.log, ratio)
    assert stats.kstest(np.log(h / w), stats.uniform(low, high - low).cdf).pvalue > 0.01
    for at, size in ((top, h), (left, w)):
        assert stats.kstest((at + 0.5) / (side - size + 1), stats.uniform.cdf).pvalue > 0.01
    for one, other in ((top, left), (h * w, h / w), (top / (side - h), h * w)):
        assert stats.spearmanr(one, other).pvalue > 0.01


def test_areas_and_ratios_when_attempts_fail_are_torchvisions() -> None:
    """Where large rectangles don't fit, the ten attempts favour others, as they do in numpy."""
    height, width, scale, ratio = 40, 90, (0.3, 1.0), (0.3, 3.3)
    run = compiled(steps.RandomErasing(1.0, scale, ratio, (1.0,)))
    pixels = np.zeros((height, width, 3), np.uint8)
    found = [found_box(run.apply(pixels, SCRATCH, key)) for key in range(3000)]
    rng = np.random.default_rng(3)
    area = height * width * rng.uniform(*scale, (20_000, 10))
    shape = np.exp(rng.uniform(*np.log(ratio), (20_000, 10)))
    h, w = np.rint(np.sqrt(area * shape)), np.rint(np.sqrt(area / shape))
    fits = (h < height) & (w < width)
    first, any_fits = fits.argmax(1), fits.any(1)
    assert abs(sum(box is None for box in found) / len(found) - (~any_fits).mean()) < 0.01
    rows = np.flatnonzero(any_fits)
    boxes = np.array([box for box in found if box is not None], float)
    assert stats.ks_2samp(boxes[:, 2], h[rows, first[rows]]).pvalue > 0.01
    assert stats.ks_2samp(boxes[:, 3], w[rows, first[rows]]).pvalue > 0.01


def test_counts_are_even_and_share_the_area() -> None:
    step = steps.RandomErasing(1.0, (0.2, 0.2), (1.0, 1.0), count=(1, 4))
    counts = [len(boxes_of(step, Draws(key, step, 0), 300, 300)) for key in range(2000)]
    assert stats.chisquare(np.bincount(counts)[1:]).pvalue > 0.01
    for key in range(50):
        boxes = boxes_of(step, Draws(key, step, 0), 300, 300)
        assert abs(sum(h * w for _, (_, _, h, w) in boxes) / 300**2 - 0.2) < 0.01


@pytest.mark.parametrize("mode", [steps.Erasing.RANDOM, steps.Erasing.RANDOM_COLOR])
def test_random_values(mode: steps.Erasing) -> None:
    step = erasing(scale=(0.8, 0.8), ratio=(1.0, 1.0), mode=mode)
    pixels = np.zeros((200, 200, 3), np.uint8)
    levels, numbers = [], []
    for key in range(6 if mode is steps.Erasing.RANDOM else 3000):
        ((_, (top, left, h, w)),) = boxes_of(step, Draws(key, step, 0), 200, 200)
        inside = np.s_[top : top + h, left : left + w] if mode is steps.Erasing.RANDOM else np.s_[top, left]
        if mode is steps.Erasing.RANDOM or key < 1500:
            levels.append(compiled(step).apply(pixels, SCRATCH, key)[inside].reshape(-1, 3))
        numbers.append(compiled(NORMALIZE, steps.ToHwc(), step).apply(pixels, SCRATCH, key)[inside].reshape(-1, 3))
    level, number = np.concatenate(levels), np.concatenate(numbers)
    for c in range(3):
        assert stats.chisquare(np.bincount(level[:, c] // 16, minlength=16)).pvalue > 0.01
        assert stats.kstest(number[:, c], stats.norm.cdf).pvalue > 0.01
    assert abs(np.corrcoef(number.T) - np.eye(3)).max() < 0.06
    assert abs(np.corrcoef(level.T) - np.eye(3)).max() < 0.08


def test_neighbours_of_random_numbers_are_independent() -> None:
    step = erasing(scale=(0.9, 0.9), ratio=(1.0, 1.0), mode=steps.Erasing.RANDOM)
    ((_, (top, left, h, w)),) = boxes_of(step, Draws(4, step, 0), 400, 400)
    made = compiled(NORMALIZE, step).apply(np.zeros((400, 400, 3), np.uint8), SCRATCH, 4)
    z = made[:, top : top + h, left : left + w].astype(float)
    for shift in (1, 2, 31, 32, 33, 63, 64):
        assert abs((z[:, :, shift:] * z[:, :, :-shift]).mean()) < 4 / math.sqrt(z.size), shift
        assert abs((z[:, shift:] * z[:, :-shift]).mean()) < 4 / math.sqrt(z.size), shift
        squares = (z[:, :, shift:] ** 2 - 1) * (z[:, :, :-shift] ** 2 - 1)
        assert abs(squares.mean()) < 4 * 2 / math.sqrt(z.size), shift


def holes(step: steps.Cutout, key: int, values: NDArray[Any]) -> NDArray[Any]:
    """What cutout makes of pixels, or of floats (height, width, channels): for even sizes as its authors' code."""
    made, u = values.copy(), Draws(key, step, 0)
    height, width, _ = values.shape
    for i in range(step.holes if u[0] < step.p else 0):
        y, x = int(u[1 + 2 * i] * height), int(u[2 + 2 * i] * width)
        top, bottom = np.clip((y - step.height // 2, y - step.height // 2 + step.height), 0, height)
        left, right = np.clip((x - step.width // 2, x - step.width // 2 + step.width), 0, width)
        made[top:bottom, left:right] = step.value
    return made


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "step", [steps.Cutout(16, 16), steps.Cutout(7, 30, 3, (9.0,), 0.5), steps.Cutout(500, 1), steps.Cutout(1, 1)]
)
def test_cutout(step: steps.Cutout, mode: str) -> None:
    for width, height in ((64, 48), (7, 130), (1, 1)):
        pixels = pixels_of(mode, width, height)
        written = compiled(steps.Cast("float32"), mode=mode).apply(pixels, SCRATCH)
        for key in range(20):
            assert np.array_equal(compiled(step, mode=mode).apply(pixels, SCRATCH, key), holes(step, key, pixels))
            made = compiled(steps.Cast("float32"), step, mode=mode).apply(pixels, SCRATCH, key)
            assert np.array_equal(made, holes(step, key, written))


def test_middles_of_holes_are_uniform() -> None:
    run, pixels = compiled(steps.Cutout(1, 1, value=(1.0,))), np.zeros((50, 80, 3), np.uint8)
    found = np.array([found_box(run.apply(pixels, SCRATCH, key)) for key in range(2000)], float)
    assert stats.chisquare(np.bincount(found[:, 0].astype(int), minlength=50)).pvalue > 0.01
    assert stats.chisquare(np.bincount(found[:, 1].astype(int), minlength=80)).pvalue > 0.01
    assert stats.spearmanr(found[:, 0], found[:, 1]).pvalue > 0.01


def test_draws_of_cutout_never_change() -> None:
    made = compiled(steps.Cutout(16, 16, value=(1.0,))).apply(np.zeros((224, 224, 3), np.uint8), SCRATCH, 1)
    assert found_box(made) == GOLDEN_HOLE


GOLDEN_HOLE = (63, 193, 16, 16)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda s: s.cutout(0), "size must be a positive int|size must be an int in 1..65535, got 0"),
        (lambda s: s.cutout(8, holes=0), r"holes must be an int in 1\.\.64, got 0"),
        (lambda s: s.cutout(8, p=1.2), r"p must be within 0\.\.1, got 1\.2"),
        (lambda s: s.cutout(8, value=(1, 2, 300)), "expected levels of 0 to 255"),
        (lambda s: s.random_erasing(1.2), r"p must be within 0\.\.1, got 1\.2"),
        (lambda s: s.random_erasing(float("nan")), "p must be a finite number, got nan"),
        (lambda s: s.random_erasing(scale=(0.5, 0.1)), "scale must be .low, high.*the first is the larger one"),
        (lambda s: s.random_erasing(scale=(0, 1.5)), r"scale must be within 0\.\.1"),
        (lambda s: s.random_erasing(ratio=(0, 1)), r"ratio must be within 0\.001\.\.1000"),
        (lambda s: s.random_erasing(value="randon"), r"value must be .*random_color.* Did you mean 'random'"),
        (lambda s: s.random_erasing(value=(1, 2)), "value must be a number, or one a channel"),
        (lambda s: s.random_erasing(value=b"x"), "value must be a finite number, got b'x'"),
        (lambda s: s.cutout(8, value=b"abc"), "value must be a finite number, got b'abc'"),
        (lambda s: s.random_erasing(value=float("inf")), "value must be a finite number"),
        (lambda s: s.random_erasing(count=0), r"count must be an int in 1\.\.64"),
        (lambda s: s.random_erasing(count=(3, 2)), "count must be .fewest, most."),
        (
            lambda s: s.random_erasing(value=-1),
            r"step 2 random_erasing.*expected levels of 0 to 255, got -1.0: .*normal",
        ),
        (lambda s: s.random_erasing(value=0.5), r"expected levels of 0 to 255, got 0.5"),
        (lambda s: s.random_erasing(value=(1, 2, 3, 4)), r"expected 4 channels, one for each value, got 3"),
        (lambda s: s.grayscale().random_erasing(value=(1, 2, 3)), r"expected 3 channels, one for each value, got 1"),
        (
            lambda s: s.to_chw().random_erasing(),
            r"expected uint8 pixels, or a tensor of floats, got a uint8 tensor 3 x",
        ),
        (lambda s: s.cast("int32").random_erasing(), r"a tensor of floats, got .*int32.*: put it in front of cast"),
        (
            lambda s: s.cast("float16").random_erasing(value=1e5),
            r"expected values that float16 has, got 100000.0: cast to float32",
        ),
        (
            lambda s: s.normalize("half").random_erasing().cast("float16"),
            r"step 4 cast.*a picture as it was written, got one that random_erasing\(\) changed: put cast in front",
        ),
        (
            lambda s: s.normalize("half").python(abs, ("float32", (3, 4, 4))).random_erasing(),
            "expected uint8 height x width",
        ),
    ],
)
def test_refusals(build: Any, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        build(slot("image").decode_image())


def test_it_is_written_as_it_was_said() -> None:
    for text in (
        "random_erasing()",
        "random_erasing(p=0.25, value=9.0)",
        'random_erasing(value=(1.0, 2.0, 3.0), count=(1, 2), name="a")',
        'random_erasing(value="random_color")',
    ):
        assert repr(eval(f"chain().{text}", {"chain": chain})) == f"chain().{text}"
    assert chain().random_erasing(count=2) == chain().random_erasing(count=(2, 2))
