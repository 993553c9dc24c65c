"""Loader output against Pillow and torchvision's maths, over 200 real photographs and every stored format."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from photos import make_photos
from pictures import encode, picture
from PIL import Image, ImageOps, features
from pillow_resample import resize

import toolkit
from toolkit import slot
from toolkit.pack.job import PackJob
from toolkit.pack.run import pack

STEPS = slot("image").decode_image().resize_short(256).center_crop(224)
MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])


def oracle(encoded: bytes, short: int = 256, crop: int = 224) -> np.ndarray:
    """torchvision's Resize(short) and CenterCrop(crop) on a PIL image: uint8 HWC."""
    image = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded))).convert("RGB")
    width, height = image.size
    size = (short, int(short * height / width)) if width <= height else (int(short * width / height), short)
    image = Image.fromarray(resize(np.asarray(image), *size))
    left, top = round((size[0] - crop) / 2.0), round((size[1] - crop) / 2.0)
    return np.asarray(image.crop((left, top, left + crop, top + crop)))


@pytest.fixture(scope="module")
def photographs(tmp_path_factory: pytest.TempPathFactory) -> toolkit.Dataset:
    base = tmp_path_factory.mktemp("photographs")
    make_photos(base / "src", 200, debian=False)
    pack(PackJob(source=str(base / "src"), dataset=str(base / "ds")))
    return toolkit.open(base / "ds", split="train")


def test_pixels_are_within_one_of_pillow(photographs: toolkit.Dataset) -> None:
    worst, differing, total = 0, 0, 0
    for batch in photographs.loader(toolkit.pipeline(STEPS), batch_size=40):
        for row, image in zip(batch.rows, batch["image"], strict=True):
            difference = np.abs(image.astype(int) - oracle(photographs[row]["image"]))
            worst = max(worst, int(difference.max()))
            differing += int((difference > 0).sum())
            total += difference.size
    assert worst <= decoder_slack()
    assert differing / total < 0.01 * decoder_slack() + 1e-9


def test_normalized_values_are_torchvisions(photographs: toolkit.Dataset) -> None:
    batch = next(iter(photographs.loader(toolkit.pipeline(STEPS.normalize("imagenet")), batch_size=20)))
    assert batch["image"].dtype == np.float32
    for row, image in zip(batch.rows, batch["image"], strict=True):
        expected = ((oracle(photographs[row]["image"]) / 255 - MEAN) / STD).transpose(2, 0, 1)
        limit = ((1 + decoder_slack()) / 255 / STD)[:, None, None] + 1e-5
        assert (np.abs(image - expected) <= limit).all()


def test_full_decode_equals_pillow(photographs: toolkit.Dataset) -> None:
    loader = photographs.loader(toolkit.pipeline(slot("image").decode_image()), batch_size=40)
    for batch in loader:
        for row, image in zip(batch.rows, batch["image"], strict=True):
            expected = np.asarray(Image.open(io.BytesIO(photographs[row]["image"])).convert("RGB"))
            assert np.abs(image.astype(int) - expected).max() <= decoder_slack()


def decoder_slack() -> int:
    """0 when Pillow decodes with the libjpeg-turbo that we are linked with; another release may round otherwise."""
    ours = Path("/usr/include").rglob("jconfig.h")
    versions = {
        line.split()[2] for path in ours for line in path.read_text().splitlines() if "LIBJPEG_TURBO_VERSION " in line
    }
    return 0 if features.version("libjpeg_turbo") in versions else 2


FORMATS = {
    "rgb.png": lambda: encode(picture(1, 300, 280), "PNG"),
    "palette.png": lambda: encode(picture(2, 300, 280).convert("P"), "PNG"),
    "alpha.png": lambda: encode(picture(3, 300, 280).convert("RGBA"), "PNG"),
    "gray.png": lambda: encode(picture(4, 300, 280).convert("L"), "PNG"),
    "one-bit.png": lambda: encode(picture(5, 300, 280).convert("1"), "PNG"),
    "photo.webp": lambda: encode(picture(6, 300, 280), "WEBP", lossless=True),
    "photo.bmp": lambda: encode(picture(7, 300, 280), "BMP"),
    "photo.gif": lambda: encode(picture(8, 300, 280), "GIF"),
    "photo.tif": lambda: encode(picture(9, 300, 280), "TIFF"),
    "photo.ppm": lambda: encode(picture(10, 300, 280), "PPM"),
    "gray.jpg": lambda: encode(picture(11, 300, 280).convert("L")),
    "cmyk.jpg": lambda: encode(picture(12, 300, 280).convert("CMYK")),
    "progressive.jpg": lambda: encode(picture(13, 300, 280), progressive=True),
    "really-a-png.jpg": lambda: encode(picture(14, 300, 280), "PNG"),
    **{f"turned-{n}.jpg": lambda n=n: turned(n) for n in range(1, 9)},
}


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(picture(20 + orientation, 400, 280), exif=exif)


@pytest.fixture(scope="module")
def formats(tmp_path_factory: pytest.TempPathFactory) -> toolkit.Dataset:
    base = tmp_path_factory.mktemp("formats")
    (base / "src").mkdir()
    for name, make in FORMATS.items():
        (base / "src" / name).write_bytes(make())
    pack(PackJob(source=str(base / "src"), dataset=str(base / "ds")))
    return toolkit.open(base / "ds")


def test_every_format_and_orientation_as_pillow(formats: toolkit.Dataset) -> None:
    assert len(formats) == len(FORMATS)
    for batch in formats.loader(toolkit.pipeline(STEPS), batch_size=7):
        for key, row, image in zip(batch.sample_keys, batch.rows, batch["image"], strict=True):
            difference = np.abs(image.astype(int) - oracle(formats[row]["image"]))
            assert difference.max() <= 1 + decoder_slack(), key


def test_a_bomb_is_refused_by_its_header(formats: toolkit.Dataset) -> None:
    from toolkit.errors import SampleError

    for key in ("rgb.png", "gray.jpg"):
        row = [formats[i]["__key__"] for i in range(len(formats))].index(key)
        steps = slot("image").decode_image(max_pixels=300 * 280 - 1).center_crop(8)
        with pytest.raises(SampleError, match=key):
            list(formats.take([row]).loader(toolkit.pipeline(steps), batch_size=1))
