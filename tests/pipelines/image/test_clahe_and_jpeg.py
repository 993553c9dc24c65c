"""clahe against OpenCV's algorithm in numpy, jpeg_compression against PIL, and what both draw."""

from __future__ import annotations

import filters_oracle as oracle
import image_steps as steps
import numpy as np
import pytest
from filter_checks import EVEN, SIZES, check_close, check_draws, pixel, pixels_of, run
from image_slots import MODES, compiled
from skimage import color, data

from toolkit._native.image.program import ImageError, Scratch


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("clip_limit", "tiles"), [(4.0, (8, 8)), (1.0, (2, 3)), (0.0, (1, 1)), (40.0, (3, 64))])
def test_clahe_is_that_of_opencv_in_floats(clip_limit: float, tiles: tuple[int, int], mode: str) -> None:
    for width, height in SIZES:
        pixels = pixels_of(mode, width, height)
        check_close(run(pixels, steps.Clahe(clip_limit, tiles)), oracle.relit(pixels, clip_limit, tiles), 0.01)


def test_values_of_a_gray_picture_are_equalized_themselves() -> None:
    pixels = pixels_of("L", 61, 47)
    wanted = oracle.equalized(pixels[:, :, 0], 3.0, (4, 5))[:, :, None]
    assert np.array_equal(run(pixels, steps.Clahe(3.0, (4, 5))), wanted)
    made = compiled(steps.Grayscale(1), steps.Clahe(3.0, (4, 5)), mode="RGB").apply(np.repeat(pixels, 3, 2), Scratch())
    assert np.array_equal(made, wanted)


def test_every_colour_keeps_a_and_b() -> None:
    levels = np.arange(0, 256, 3, dtype=np.uint8)
    colours = np.stack(np.meshgrid(levels, levels, levels), -1).reshape(len(levels), -1, 3)
    check_close(run(np.ascontiguousarray(colours), steps.Clahe(1.2, (1, 1))), oracle.relit(colours, 1.2, (1, 1)), 0.01)


def test_lightness_is_that_of_scikit_image() -> None:
    photo = np.ascontiguousarray(data.astronaut()[100:324, 100:324])
    lab = color.rgb2lab(photo)
    lightness = np.rint(lab[:, :, 0] * 2.55).astype(np.uint8)
    lab[:, :, 0] = oracle.equalized(lightness, 2.0, (8, 8)) / 2.55
    wanted = np.rint(color.lab2rgb(lab) * 255)
    apart = np.abs(run(photo, steps.Clahe(2.0)).astype(int) - wanted)
    assert apart.mean() < 0.1  # where a lightness lies between two levels, its white decides
    assert np.quantile(apart, 0.99) <= 1


def test_clahe_of_alpha_stays() -> None:
    pixels = pixels_of("RGBA", 40, 30)
    assert np.array_equal(run(pixels, steps.Clahe())[:, :, 3], pixels[:, :, 3])


def test_clahe_draws_evenly_and_whether() -> None:
    ramp = np.repeat(np.repeat(np.arange(64, 192, 2, dtype=np.uint8)[None], 16, 0)[:, :, None], 3, 2)
    ramp[:, :40] = 90
    limits = 1.0 + 59.0 * EVEN[::50]
    wanted = np.array([run(ramp, steps.Clahe(float(limit), (1, 1)))[3, 20, 0] for limit in limits], int)
    check_draws(pixel(steps.Clahe((1.0, 60.0), (1, 1)), ramp, 3, 20), np.repeat(wanted, 10))
    found = pixel(steps.Clahe(2.0, (1, 1), 0.3), ramp, 3, 20)
    assert abs((found != 90).mean() - 0.3) < 0.03


def test_clahe_never_draws_otherwise() -> None:
    found = pixel(steps.Clahe((1.0, 60.0), (1, 1), 0.9), pixels_of("RGB", 15, 15), 6, 5, 6)
    assert found.tolist() == [18, 100, 30, 16, 16, 76]


# --- jpeg_compression --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("quality", [1, 10, 50, 75, 95, 100])
def test_jpeg_compression_is_that_of_pil(quality: int, mode: str) -> None:
    for width, height in [*SIZES, (16, 16), (17, 8), (224, 224)]:
        pixels = pixels_of(mode, width, height)
        assert np.array_equal(run(pixels, steps.JpegCompression(quality)), oracle.recompressed(pixels, quality))


def test_jpeg_compression_draws_evenly_and_whether() -> None:
    pixels = pixels_of("RGB", 16, 16)
    found = pixel(steps.JpegCompression((3, 40), 0.8), pixels, 5, 9)
    wanted = [int(oracle.recompressed(pixels, quality)[5, 9, 0]) for quality in range(3, 41)]
    check_draws(found, np.array([*(40 * wanted), *([int(pixels[5, 9, 0])] * (10 * 38))] * 10))


def test_jpeg_compression_never_draws_otherwise() -> None:
    found = pixel(steps.JpegCompression((3, 40)), pixels_of("RGB", 16, 16), 5, 9, 6)
    assert found.tolist() == [176, 179, 185, 172, 169, 171]


def test_a_side_that_no_jpeg_has_is_refused() -> None:
    with pytest.raises(ImageError, match="the picture has 65501 x 1 pixels, and a JPEG at most 65500 a side"):
        run(np.zeros((1, 65501, 3), np.uint8), steps.JpegCompression(75))
