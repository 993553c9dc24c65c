"""Steps that look at neighbours: against the oracle, the tools they follow, and the distributions they draw."""

from __future__ import annotations

import filters_oracle as oracle
import image_steps as steps
import numpy as np
import pytest
import scipy.ndimage
from filter_checks import EVEN, SIZES, array_of, check_close, check_draws, image_of, pixel, pixels_of, run
from image_slots import MODES
from PIL import ImageEnhance, ImageFilter
from pillow_resample import STOCK_PILLOW

# --- sharpness ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("factor", [0.0, 0.1, 1.0, 1.9, 7.5])
def test_sharpness_is_that_of_pil(factor: float, mode: str) -> None:
    for width, height in SIZES:
        pixels = pixels_of(mode, width, height)
        made = run(pixels, steps.Sharpness((factor, factor)))
        assert np.array_equal(made, oracle.sharpened(pixels, factor))
        of_pil = array_of(ImageEnhance.Sharpness(image_of(pixels)).enhance(factor))
        assert np.abs(made.astype(int) - of_pil).max() <= (0 if STOCK_PILLOW else 1 + factor)


def test_sharpness_of_alpha_stays() -> None:
    pixels = pixels_of("RGBA", 40, 30)
    assert np.array_equal(run(pixels, steps.Sharpness((3.0, 3.0)))[:, :, 3], pixels[:, :, 3])


DOT = np.zeros((3, 3, 3), np.uint8)
DOT[1, 1] = 255  # smoothed 98


def test_sharpness_draws_evenly() -> None:
    check_draws(pixel(steps.Sharpness((0.2, 0.9)), DOT, 1, 1), (98 + 157 * (0.2 + 0.7 * EVEN)).astype(int))


def test_sharpness_draws_either_sign_and_whether() -> None:
    for step, share in (
        (steps.Sharpness((0.25, 0.25), True), 0.5),
        (steps.Sharpness((0.25, 0.25), False, 0.3), 0.3),
    ):
        found = pixel(step, DOT, 1, 1)
        assert set(found.tolist()) == {98 + 157 // 4, 255}
        assert abs((found < 255).mean() - share) < 0.03


def test_sharpness_never_draws_otherwise() -> None:
    assert pixel(steps.Sharpness((0.0, 1.0)), DOT, 1, 1, 6).tolist() == [253, 128, 211, 211, 162, 156]


# --- gaussian_blur -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("size", "sigma"), [(1, 2.0), (3, 0.1), (3, 0.6), (5, 1.0), (23, 0.9), (23, 2.0), (255, 40.0)])
def test_gaussian_blur_is_that_of_floats(size: int, sigma: float, mode: str) -> None:
    for width, height in SIZES:
        pixels = pixels_of(mode, width, height)
        check_close(run(pixels, steps.GaussianBlur(size, (sigma, sigma))), oracle.blurred(pixels, size, sigma))


def test_gaussian_blur_without_a_size_is_that_of_scipy() -> None:
    pixels = pixels_of("RGB", 60, 50)
    for sigma in (0.1, 0.5, 1.3, 8.0, 31.0):
        wanted = scipy.ndimage.gaussian_filter(pixels.astype(float), (sigma, sigma, 0), mode="mirror")
        check_close(run(pixels, steps.GaussianBlur(None, (sigma, sigma))), np.rint(wanted))


def test_gaussian_blur_is_that_of_torch() -> None:
    import torch

    pixels = pixels_of("RGB", 64, 48)
    position = torch.linspace(-5.0, 5.0, 11)
    kernel = torch.exp(-0.5 * (position / 1.7).pow(2))
    kernel = (kernel / kernel.sum())[None].T @ (kernel / kernel.sum())[None]
    planes = torch.nn.functional.pad(torch.from_numpy(pixels).permute(2, 0, 1)[None].float(), [5] * 4, mode="reflect")
    wanted = torch.nn.functional.conv2d(planes, kernel.expand(3, 1, 11, 11), groups=3)[0].round().permute(1, 2, 0)
    check_close(run(pixels, steps.GaussianBlur(11, (1.7, 1.7))), wanted.numpy())


@pytest.mark.parametrize("value", [0, 1, 128, 255])
def test_gaussian_blur_leaves_a_plain_as_it_is(value: int) -> None:
    pixels = np.full((30, 40, 4), value, np.uint8)
    for size, sigma in ((3, 0.5), (23, 2.0), (101, 14.0), (255, 1e6)):
        assert (run(pixels, steps.GaussianBlur(size, (sigma, sigma))) == value).all()


def test_gaussian_blur_keeps_the_largest_contrast() -> None:
    rng = np.random.default_rng(3)
    for size, sigma in ((3, 0.4), (3, 1e6), (15, 3.0), (255, 1e6)):
        pixels = np.where(rng.random((40, 300, 3)) < 0.5, 0, 255).astype(np.uint8)
        check_close(run(pixels, steps.GaussianBlur(size, (sigma, sigma))), oracle.blurred(pixels, size, sigma), 0.08)


STRIPE = np.zeros((1, 9, 3), np.uint8)
STRIPE[:, 4] = 255


def test_gaussian_blur_draws_sigma_evenly() -> None:
    sigma = 0.3 + 1.5 * EVEN
    wanted = np.rint(255 / (1 + 2 * np.exp(-0.5 / sigma**2)))
    check_draws(pixel(steps.GaussianBlur(3, (0.3, 1.8)), STRIPE, 0, 4), wanted)


def test_gaussian_blur_draws_whether() -> None:
    found = pixel(steps.GaussianBlur(3, (1.0, 1.0), 0.2), STRIPE, 0, 4)
    assert abs((found < 255).mean() - 0.2) < 0.03


def test_gaussian_blur_never_draws_otherwise() -> None:
    assert pixel(steps.GaussianBlur(3, (0.3, 1.8)), STRIPE, 0, 4, 6).tolist() == [100, 98, 130, 96, 100, 95]


# --- motion_blur -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("size", "angle", "direction"),
    [(3, 0.0, 0.0), (5, 90.0, 1.0), (7, 33.0, -0.3), (15, -120.0, 0.0), (63, 45.0, -1.0), (63, 0.0, 0.0)],
)
def test_motion_blur_is_that_of_floats(size: int, angle: float, direction: float, mode: str) -> None:
    for width, height in SIZES:
        pixels = pixels_of(mode, width, height)
        made = run(pixels, steps.MotionBlur(size, angle, direction))
        check_close(made, oracle.moved(pixels, size, angle, direction))


def test_motion_blur_moves_where_it_says() -> None:
    dot = np.zeros((9, 9, 3), np.uint8)
    dot[4, 4] = 255
    for angle, wanted in ((0, (4, 3)), (90, (5, 4)), (180, (4, 5)), (270, (3, 4))):  # who takes the dot from its end
        made = run(dot, steps.MotionBlur(3, angle, 1.0))[:, :, 0]
        assert np.unravel_index(int(made.argmax()), made.shape) == wanted
        assert made.max() == 170


@pytest.mark.parametrize("value", [0, 1, 128, 255])
def test_motion_blur_leaves_a_plain_as_it_is(value: int) -> None:
    pixels = np.full((30, 40, 4), value, np.uint8)
    for size, angle in ((3, 0.0), (7, 17.0), (31, 60.0), (63, 45.0), (63, 10.0)):
        assert (run(pixels, steps.MotionBlur(size, angle, 0.0)) == value).all()


def test_motion_blur_draws_angle_and_direction_evenly() -> None:
    dot = np.zeros((3, 3, 3), np.uint8)
    dot[1, 2] = 255  # right of the middle, which takes the last point there by its cosine or sine
    found = pixel(steps.MotionBlur(3, (0.0, 90.0), 1.0), dot, 1, 1)
    turned = np.radians(90 * EVEN)
    wanted = np.rint(255 * 2 / 3 * np.cos(turned) * (1 - np.sin(turned)))
    check_draws(found, wanted)
    found = pixel(steps.MotionBlur(3, 0.0, (-1.0, 0.5)), dot, 1, 1)
    check_draws(found, np.rint(255 * (1 + (-1 + 1.5 * EVEN)) / 3))


def test_motion_blur_never_draws_otherwise() -> None:
    step = steps.MotionBlur(5, (0.0, 360.0), (-1.0, 1.0))
    assert pixel(step, np.ascontiguousarray(pixels_of("RGB", 9, 9)), 4, 3, 6).tolist() == [102, 100, 143, 153, 171, 128]


# --- median_blur -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("radius", range(1, 8))
def test_median_blur_is_that_of_pil(radius: int, mode: str) -> None:
    for width, height in SIZES:
        pixels = pixels_of(mode, width, height)
        wanted = array_of(image_of(pixels).filter(ImageFilter.MedianFilter(2 * radius + 1)))
        assert np.array_equal(run(pixels, steps.MedianBlur(radius)), wanted)
        size = 2 * radius + 1
        assert np.array_equal(wanted, scipy.ndimage.median_filter(pixels, (size, size, 1), mode="nearest"))


def test_median_blur_draws_evenly_and_whether() -> None:
    rings = np.zeros((15, 15, 3), np.uint8)
    for radius in range(7, 0, -1):  # the median of a square that has more than half of its pixels in its outer rings
        rings[7 - radius : 8 + radius, 7 - radius : 8 + radius] = 30 * radius
    wanted = [int(run(rings, steps.MedianBlur(radius))[7, 7, 0]) for radius in range(1, 8)]
    found = pixel(steps.MedianBlur((1, 7), 0.8), rings, 7, 7)
    assert len({*wanted, int(rings[7, 7, 0])}) >= 5
    taken = [0.2 * (value == rings[7, 7, 0]) + 0.8 / 7 * wanted.count(value) for value in np.unique(wanted)]
    shares = [(found == value).mean() for value in np.unique(wanted)]
    assert np.abs(np.array(shares) - taken).max() < 0.03


def test_median_blur_never_draws_otherwise() -> None:
    assert pixel(steps.MedianBlur((1, 7), 0.8), pixels_of("RGB", 15, 15), 6, 5, 6).tolist() == [
        165,
        165,
        165,
        127,
        165,
        112,
    ]


# --- unsharp_mask ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("radius", "percent", "threshold"),
    [(2.0, 150, 3), (0.0, 100, 0), (0.3, 80, 0), (0.1, 5000, 2), (5.5, 300, 10), (40.0, 150, 3), (1.0, 0, 0)],
)
def test_unsharp_mask_is_that_of_pil(radius: float, percent: int, threshold: int, mode: str) -> None:
    for width, height in SIZES:
        pixels = pixels_of(mode, width, height)
        wanted = oracle.through_pil(pixels, ImageFilter.UnsharpMask(radius, percent, threshold))
        assert np.array_equal(run(pixels, steps.UnsharpMask(radius, percent, threshold)), wanted)


def test_unsharp_mask_draws_evenly() -> None:
    edge = np.full((3, 16, 3), 100, np.uint8)
    edge[:, 8:] = 120
    found = pixel(steps.UnsharpMask(1.0, (100, 400), 0), edge, 1, 8)
    taken = int(run(edge, steps.UnsharpMask(1.0, 100, 0))[1, 8, 0]) - 120
    check_draws(found, 120 + taken * (100 + np.floor(301 * EVEN)).astype(int) // 100)
    found = pixel(steps.UnsharpMask((0.5, 3.0), 400, 0), edge, 1, 8, 1000)
    radii = 0.5 + 2.5 * (np.arange(4000) + 0.5) / 4000
    check_draws(found, np.array([run(edge, steps.UnsharpMask(radius, 400, 0))[1, 8, 0] for radius in radii], int))


def test_unsharp_mask_never_draws_otherwise() -> None:
    step = steps.UnsharpMask((0.5, 3.0), (100, 400), 0, 0.9)
    assert pixel(step, pixels_of("RGB", 15, 15), 6, 5, 6).tolist() == [33, 9, 100, 0, 81, 105]
