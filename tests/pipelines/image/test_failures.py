"""What fails names the step as it is written, wherever that runs."""

from __future__ import annotations

from typing import Any

import image_steps as steps
import numpy as np
import pytest
from image_slots import compiled, run_batch
from pictures import encode, picture
from PIL import Image

from toolkit._native.image.program import Scratch
from toolkit.pipelines.conditions import Maybe

PICTURE = picture(1, 80, 60)
EXIF = Image.Exif()
EXIF[0x0112] = 6  # a quarter turn
FILES = {
    "jpeg": encode(PICTURE),
    "png": encode(PICTURE, "PNG"),
    "turned jpeg": encode(PICTURE.rotate(90, expand=True), exif=EXIF.tobytes()),
    "turned png": encode(PICTURE.rotate(90, expand=True), "PNG", exif=EXIF.tobytes()),
}
LONG, SHORT = steps.ResizeLong(200, steps.Filter.NEAREST), steps.ResizeShort(60, steps.Filter.BILINEAR)
# Steps, of which one makes the picture of 80 x 60 pixels larger than 5,400, and that one as it is written.
TOO_LARGE = [
    ([LONG], 'resize_long(200, filter="nearest")'),
    ([steps.HFlip(1.0, "x"), SHORT, LONG, SHORT], 'resize_long(200, filter="nearest")'),
    ([steps.Pad(9, 0, 0, 0, 0), SHORT], "pad(top=9)"),  # 5,520; of a picture that lies on its side 5,340
    ([SHORT, Maybe((steps.Pad(9, 9, 9, 9, 0),), 1.0)], "maybe(chain().pad(9), p=1.0)"),
    ([steps.ResizeShort(60, steps.Filter.LANCZOS), steps.Pad(0, 0, 9, 0, 0), steps.VFlip(1.0)], "pad(bottom=9)"),
]
KEYS = np.array([5], np.uint64)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("end", [[], [steps.CenterCrop(8, 8), steps.ToChw()]], ids=["any size", "one size"])
@pytest.mark.parametrize(("chain", "written"), TOO_LARGE, ids=lambda v: v if isinstance(v, str) else "")
def test_the_step_that_makes_a_picture_too_large(chain: list[Any], written: str, end: list[Any], file: str) -> None:
    image = compiled(*chain, *end, max_pixels=5_400)
    assert (image.shape is None) == (not end)
    _, [failure] = run_batch(image, [FILES[file]], KEYS)
    assert (failure.index, failure.step) == (0, written)
    assert "more than max_pixels=5400" in failure.message


@pytest.mark.parametrize(("chain", "written"), TOO_LARGE, ids=lambda v: v if isinstance(v, str) else "")
def test_of_pixels_too(chain: list[Any], written: str) -> None:
    image = compiled(*chain, steps.CenterCrop(8, 8), max_pixels=5_400)
    pixels = np.asarray(PICTURE)
    addresses, sizes = np.array([pixels.ctypes.data], np.uint64), np.array([pixels.shape], np.int64)
    [failure] = image.run_raw(addresses, sizes, np.zeros((1, 8, 8, 3), np.uint8), Scratch(), KEYS)
    assert failure.step == written


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("limit", [{"max_pixels": 4_799}, {"max_bytes": 99}])
def test_a_picture_that_is_too_large_itself(limit: dict[str, int], file: str) -> None:
    for chain in ([LONG], [LONG, steps.CenterCrop(8, 8)]):
        _, [failure] = run_batch(compiled(*chain, **limit), [FILES[file]])
        assert failure.step.startswith("decode_image(max_pixels=")


def test_a_kernel_that_refuses_a_step_counts_as_the_slot_does() -> None:
    with pytest.raises(ValueError, match=r"^step 3 \(crop\): height must be 1 to 65535, not 70000"):
        compiled(steps.HFlip(1.0), steps.Crop(0, 0, 70_000, 1))
