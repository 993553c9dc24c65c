"""What the image kernels must give, said with PIL and numpy; and pictures to try it on.

Resize and crop follow torchvision.transforms.Resize(int) and CenterCrop on PIL pictures, spelled out here so
that the tests need no torchvision.
"""

from __future__ import annotations

import contextlib
import io
from unittest import mock

import numpy as np
import PIL.features
import pytest
from PIL import Image, ImageFile, ImageOps
from pillow_resample import resize

from toolkit._native.image import program as image

SAME_LIBJPEG = PIL.features.version("libjpeg_turbo") == "2.1.5"
DECODE_TOLERANCE = 0 if SAME_LIBJPEG else 2


def levels() -> list[str]:
    """Names of all loops that run on this machine."""
    best, found = image.simd_level(), []
    for name in ("generic", "avx2", "avx512"):
        with contextlib.suppress(ValueError):
            image._set_simd_level(name)
            found.append(name)
    image._set_simd_level(best)
    return found


def photo(width: int, height: int, seed: int = 0, *, noise: float = 12.0) -> Image.Image:
    """Return smooth coloured noise of several scales with some grain, so that JPEG and filters have work."""
    rng = np.random.default_rng(seed)
    total = np.zeros((height, width, 3))
    for cells in (2, 5, 17):
        grid = rng.normal(0, 60 / np.sqrt(cells), (cells, cells, 3)).astype(np.float32)
        for c in range(3):
            layer = Image.fromarray(np.ascontiguousarray(grid[:, :, c]), "F")
            total[:, :, c] += np.asarray(layer.resize((width, height), Image.Resampling.BICUBIC))
    total += 128 + rng.normal(0, noise, total.shape)
    return Image.fromarray(np.clip(total, 0, 255).astype(np.uint8))


def jpeg(picture: Image.Image, **options: object) -> bytes:
    """Return the picture as JPEG bytes."""
    buffer = io.BytesIO()
    with mock.patch.object(ImageFile, "MAXBLOCK", 2**22):  # the default is too small for noisy pictures
        picture.save(buffer, "JPEG", **{"quality": 90, **options})
    return buffer.getvalue()


def resize_short(picture: Image.Image, size: int) -> Image.Image:
    """torchvision Resize(int) on a Pillow picture, columns first."""
    width, height = picture.size
    short, long = min(width, height), max(width, height)
    if short == size:
        return picture
    grown = int(size * long / short)
    new_width, new_height = (size, grown) if width <= height else (grown, size)
    return Image.fromarray(resize(np.asarray(picture), new_width, new_height))


def center_crop(picture: Image.Image, crop_h: int, crop_w: int) -> Image.Image:
    """torchvision CenterCrop((crop_h, crop_w))."""
    width, height = picture.size
    if crop_w > width or crop_h > height:
        left, top = max(crop_w - width, 0) // 2, max(crop_h - height, 0) // 2
        right, bottom = (max(crop_w - width, 0) + 1) // 2, (max(crop_h - height, 0) + 1) // 2
        picture = ImageOps.expand(picture, (left, top, right, bottom), fill=0)
        width, height = picture.size
    top, left = round((height - crop_h) / 2.0), round((width - crop_w) / 2.0)
    return picture.crop((left, top, left + crop_w, top + crop_h))


def run_stages(picture: Image.Image, stages: list[tuple[int, int, int]]) -> np.ndarray:
    """Return the uint8 (height, width, 3) result of the stages."""
    for short, crop_h, crop_w in stages:
        picture = resize_short(picture, short) if short else picture
        picture = center_crop(picture, crop_h, crop_w) if crop_h else picture
    return np.asarray(picture)


def decode(data: bytes) -> Image.Image:
    """Decode as training scripts do."""
    return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB")


def ops(stages: list[tuple[int, int, int]] | tuple[()] = ()) -> list[tuple[object, ...]]:
    """Return the steps of (length of the shorter side, crop height, crop width) stages, 0 = absent."""
    made: list[tuple[object, ...]] = []
    for short, crop_h, crop_w in stages:
        made += [("resize_short", {"size": short, "filter": "bilinear"})] if short else []
        made += [("center_crop", {"height": crop_h, "width": crop_w, "halves": "even"})] if crop_h else []
    return made


def program(stages: list[tuple[int, int, int]] | tuple[()] = (), **options: object) -> image.ImageProgram:
    """Return a program of stages: uint8 HWC, or float32 CHW when there is a scale."""
    floats = {"dtype": "float32", "layout": "chw"} if "scale" in options else {}
    return image.ImageProgram(ops(stages), **{**floats, **options})


def ours(data: bytes, stages: list[tuple[int, int, int]] | tuple[()] = (), **options: object) -> np.ndarray:
    """Return what the kernel makes of it."""
    return program(stages, **options).decode(data, image.Scratch())


def difference(a: np.ndarray, b: np.ndarray) -> int:
    """Return the largest difference of two pictures of the same shape."""
    assert a.shape == b.shape
    return int(np.abs(a.astype(int) - b.astype(int)).max())


def status_of(data: bytes, stages: list[tuple[int, int, int]] | tuple[()] = (), **options: object) -> int:
    """Return the status that decoding ends with."""
    try:
        ours(data, stages, **options)
    except image.ImageError as error:
        return error.status if str(error) else -1
    return image.OK


def sampled(data: bytes, sampling: int, width: int, height: int) -> bytes:
    """Return the JPEG with another luma sampling of as many blocks in its header: another picture, still valid."""
    at = data.index(b"\xff\xc0" if b"\xff\xc0" in data else b"\xff\xc2")
    patched = bytearray(data)
    patched[at + 5 : at + 9] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    assert patched[at + 10] == 1
    patched[at + 11] = sampling
    return bytes(patched)


@pytest.mark.parametrize(("size", "crop", "first"), [(10, 7, 2), (10, 5, 2), (9, 4, 2), (8, 1, 4), (7, 4, 2)])
def test_crop_rounds_halves_to_even(size: int, crop: int, first: int) -> None:
    ramp = np.tile(np.arange(size, dtype=np.uint8)[None, :, None], (3, 1, 3))
    assert np.asarray(center_crop(Image.fromarray(ramp), 3, crop))[0, 0, 0] == first
    assert program([(0, 3, crop)]).apply(ramp, image.Scratch())[0, 0, 0] == first
