"""Decoding: modes, colour profiles, limits, and damaged or unusual images: PIL's pixels or a clear error."""

from __future__ import annotations

import contextlib
import io
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import image_steps as steps
import numpy as np
import pytest
from image_slots import MODES, compiled, decode, run_batch
from pictures import encode, picture
from PIL import Image, ImageCms, ImageOps
from tone_oracle import to_gray

from toolkit._native.image.program import ImageError, Scratch
from toolkit.pipelines.image.compiled import TruncatedImageWarning
from toolkit.pipelines.image.formats import open_picture
from toolkit.pipelines.image.jpeg_scans import count_scans
from toolkit.pipelines.image.memory import block_pixels, bytes_to_decode


def opened(encoded: bytes) -> Image.Image:
    return ImageOps.exif_transpose(Image.open(io.BytesIO(encoded)))


def as_pil(encoded: bytes, mode: str) -> np.ndarray:
    image = opened(encoded)
    if mode == "L" and image.mode in ("RGB", "RGBA"):
        image = to_gray(image)
    pixels = np.asarray(image.convert(mode))
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def turned(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return encode(picture(orientation, 90, 70), exif=exif)


def alpha(image: Image.Image) -> Image.Image:
    image.putalpha(picture(77, *image.size).convert("L"))
    return image


def animated() -> bytes:
    frames = [picture(i, 40, 30).convert("P") for i in range(3)]
    return encode(frames[0], "GIF", save_all=True, append_images=frames[1:])


def transparent_palette() -> bytes:
    image = picture(3, 40, 30).convert("P")
    return encode(image, "PNG", transparency=bytes(range(0, 250, 10)))


KINDS: dict[str, Callable[[], bytes]] = {
    "rgb.jpg": lambda: encode(picture(1, 90, 70)),
    "gray.jpg": lambda: encode(picture(2, 90, 70).convert("L")),
    "cmyk.jpg": lambda: encode(picture(3, 90, 70).convert("CMYK")),
    "progressive.jpg": lambda: encode(picture(4, 90, 70), progressive=True),
    "full-chroma.jpg": lambda: encode(picture(5, 90, 70), subsampling=0),
    "one-pixel.jpg": lambda: encode(picture(6, 1, 1)),
    "tall.jpg": lambda: encode(picture(7, 1, 30000)),
    "wide.jpg": lambda: encode(picture(8, 30000, 1)),
    "one-pixel.png": lambda: encode(picture(6, 1, 1), "PNG"),
    "rgb.png": lambda: encode(picture(9, 90, 70), "PNG"),
    "alpha.png": lambda: encode(alpha(picture(10, 90, 70)), "PNG"),
    "gray-alpha.png": lambda: encode(alpha(picture(11, 90, 70).convert("L")), "PNG"),
    "palette.png": lambda: encode(picture(12, 90, 70).convert("P"), "PNG"),
    "transparent-palette.png": transparent_palette,
    "one-bit.png": lambda: encode(picture(13, 90, 70).convert("1"), "PNG"),
    "animated.gif": animated,
    "alpha.webp": lambda: encode(alpha(picture(14, 90, 70)), "WEBP", lossless=True),
    **{f"turned-{n}.jpg": lambda n=n: turned(n) for n in range(2, 9)},
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:Palette images with Transparency")
def test_pixels_are_those_of_pil(kind: str, mode: str) -> None:
    encoded = KINDS[kind]()
    expected = as_pil(encoded, mode).astype(int)
    made = decode(encoded, mode=mode)
    assert made.shape == expected.shape
    assert np.abs(made - expected).max() <= 2  # 0 where PIL has the same libjpeg-turbo
    cropped, failures = run_batch(compiled(steps.CenterCrop(20, 20), mode=mode), [encoded, encoded])
    assert not failures
    assert np.array_equal(cropped[0], compiled(steps.CenterCrop(20, 20), mode=mode).apply(made, Scratch()))
    assert np.array_equal(cropped[0], cropped[1])


def test_orientation_is_left_alone_without_exif() -> None:
    for n in range(2, 9):
        made = decode(turned(n), exif=False)
        assert np.abs(made - np.asarray(Image.open(io.BytesIO(turned(n)))).astype(int)).max() <= 2
    as_png = io.BytesIO()
    exif = Image.Exif()
    exif[0x0112] = 6
    picture(1, 30, 20).save(as_png, "PNG", exif=exif)
    assert decode(as_png.getvalue()).shape == (30, 20, 3)
    assert decode(as_png.getvalue(), exif=False).shape == (20, 30, 3)


def png16(values: np.ndarray) -> bytes:
    """A gray PNG of 16 bits, written by hand: PIL itself has changed its mind about the mode of these."""
    height, width = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(rows)),
        (b"IEND", b""),
    ]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


def test_16_bit_gray_keeps_its_upper_bytes() -> None:
    values = np.random.default_rng(0).integers(0, 2**16, (20, 30))
    for mode, channels in (("L", 1), ("RGB", 3)):
        assert np.array_equal(decode(png16(values), mode=mode), np.repeat(values[:, :, None] >> 8, channels, 2))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_numbers_that_are_no_pixels_are_refused(mode: str) -> None:
    encoded = encode(Image.new(mode, (5, 4), 7), "TIFF")
    with pytest.raises(ValueError, match=f"mode {mode}\\) have no known range"):
        decode(encoded)


JPEG, PNG = encode(picture(1, 300, 200), quality=95), encode(picture(1, 90, 70), "PNG")
BAD: dict[str, bytes] = {
    "empty": b"",
    "text": b"no image at all",
    "only the signature": JPEG[:3],
    "no scan": JPEG[: JPEG.index(b"\xff\xda")],
    "cut JPEG": JPEG[: len(JPEG) // 2],
    "cut PNG": PNG[: len(PNG) // 2],
    "PNG of no pixels": PNG[:20],
    "damaged PNG": PNG[:60] + bytes(20) + PNG[80:],
    "no tables": JPEG[:2] + JPEG[JPEG.index(b"\xff\xc0") :],
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("chain", [(), (steps.ResizeShort(32, steps.Filter.BICUBIC), steps.CenterCrop(32, 32))])
def test_bad_images_are_errors_and_the_others_go_on(name: str, chain: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the texts differ
        decode(BAD[name], *chain)
    assert str(caught.value)
    image = compiled(*chain, steps.CenterCrop(32, 32))
    batch, failures = run_batch(image, [JPEG, BAD[name], PNG, BAD[name], JPEG])
    assert [failure.index for failure in failures] == [1, 3]
    assert all(failure.message and failure.step.startswith("decode_image(") for failure in failures)
    assert np.array_equal(batch[0], image.decode(JPEG, Scratch()))
    assert np.array_equal(batch[4], batch[0])
    assert np.array_equal(batch[2], image.decode(PNG, Scratch()))


def test_limits() -> None:
    for encoded in (JPEG, PNG):
        size = len(encoded)
        assert decode(encoded, max_bytes=size).size
        with pytest.raises(ValueError, match=f"{size} bytes, more than max_bytes={size - 1}"):
            decode(encoded, max_bytes=size - 1)
        pixels = decode(encoded).size // 3
        assert decode(encoded, max_pixels=pixels).size
        with pytest.raises(ValueError, match=f"max_pixels={pixels - 1}"):
            decode(encoded, max_pixels=pixels - 1)
        image = compiled(steps.CenterCrop(8, 8), max_bytes=size - 1)
        assert "max_bytes" in run_batch(image, [encoded])[1][0].message
    for size in ((1, (1 << 20) + 1), ((1 << 20) + 1, 1)):  # a few bytes that cost PIL seconds, and ten times the pixels
        with pytest.raises(ValueError, match=f"{size[0]} x {size[1]} pixels, more than 1048576 on a side"):
            decode(encode(Image.new("1", size), "PNG"))
    with pytest.raises(ValueError, match="after its resize"):
        decode(JPEG, steps.ResizeShort(60000, steps.Filter.BILINEAR))
    with pytest.raises(ValueError, match="after its pad"):
        decode(JPEG, steps.Pad(60000, 0, 0, 0, 0), max_pixels=300 * 300)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}])
def test_truncated_images_are_taken_with_a_warning(options: dict[str, object]) -> None:
    encoded = encode(picture(1, 300, 200), quality=95, **options)
    cut = encoded[: len(encoded) * 3 // 4]
    image = compiled(steps.CenterCrop(180, 180), truncated=steps.Truncated.WARN)
    whole = image.decode(encoded, Scratch())
    with pytest.warns(TruncatedImageWarning, match="end too early"):
        made = image.decode(cut, Scratch())
    assert made.shape == whole.shape
    if not options:
        assert np.array_equal(made[:100], whole[:100])
        assert np.abs(made[-20:].astype(int) - 128).max() <= 2
    with pytest.warns(TruncatedImageWarning, match="'image'"):
        batch, failures = run_batch(image, [encoded, cut])
    assert not failures
    assert np.array_equal(batch[0], whole)
    assert np.array_equal(batch[1], made)
    with pytest.raises(ImageError, match="end too early"):
        decode(encoded[:100], truncated=steps.Truncated.WARN)  # nothing to show


def wide_profile() -> bytes:
    """A profile whose red and green are swapped: matrices in ICC's own layout, edited."""
    profile = bytearray(ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes())
    red, green = profile.index(b"rXYZ"), profile.index(b"gXYZ")
    profile[red : red + 4], profile[green : green + 4] = b"gXYZ", b"rXYZ"
    return bytes(profile)


@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_colour_profiles(format: str) -> None:
    image = picture(4, 60, 40)
    encoded = encode(image, format, icc_profile=wide_profile())
    stored = np.asarray(opened(encoded))
    source = ImageCms.ImageCmsProfile(io.BytesIO(wide_profile()))
    converted = np.asarray(ImageCms.profileToProfile(opened(encoded), source, ImageCms.createProfile("sRGB")))
    assert np.abs(converted.astype(int) - stored).max() > 50
    assert np.array_equal(decode(encoded, icc=True), converted)
    assert np.abs(decode(encoded).astype(int) - stored).max() <= 2
    batch, failures = run_batch(compiled(steps.CenterCrop(20, 20), icc=True), [encoded])
    assert not failures
    assert np.array_equal(batch[0], converted[10:30, 20:40])
    plain = encode(image, format)
    assert np.array_equal(decode(plain, icc=True), decode(plain))
    damaged = encode(image, format, icc_profile=b"no profile at all")
    with pytest.raises(ValueError):  # noqa: PT011 - LittleCMS's own words
        decode(damaged, icc=True)
    assert decode(damaged).shape == (40, 60, 3)


def test_profiles_of_other_modes() -> None:
    for made in (alpha(picture(5, 30, 20)), picture(5, 30, 20).convert("P")):
        encoded = encode(made, "PNG", icc_profile=wide_profile())
        assert decode(encoded, icc=True, mode="RGBA").shape == (20, 30, 4)
    encoded = encode(alpha(picture(5, 30, 20)), "PNG", icc_profile=wide_profile())
    assert np.array_equal(decode(encoded, icc=True, mode="RGBA")[:, :, 3], as_pil(encoded, "RGBA")[:, :, 3])


CHAINS: list[list[Any]] = [
    [steps.RandomResizedCrop(24, 24, (0.1, 1.0), (0.7, 1.4), steps.Filter.BICUBIC), steps.HFlip(0.5)],
    [steps.ColorJitter((0.5, 1.5), (0.5, 1.5), (0.5, 1.5), (-0.5, 0.5)), steps.Cast("bfloat16")],
    [steps.Pad(3, 3, 3, 3, 9), steps.RandomCrop(40, 40), steps.Resize(50, 20, steps.Filter.LANCZOS)],
]


@pytest.mark.parametrize("accuracy", list(steps.Accuracy))
@pytest.mark.parametrize("truncated", list(steps.Truncated))
@pytest.mark.filterwarnings("ignore::toolkit.pipelines.image.compiled.TruncatedImageWarning")
def test_random_damage_never_crashes(accuracy: steps.Accuracy, truncated: steps.Truncated) -> None:
    rng, scratch = np.random.default_rng(8), Scratch()
    made = [
        compiled(*chain, accuracy=accuracy, truncated=truncated, mode=mode, max_pixels=1_000_000)
        for chain, mode in zip(CHAINS, MODES, strict=True)
    ]
    for options in ({}, {"progressive": True}, {"subsampling": 0, "restart_marker_blocks": 3}):
        good = encode(picture(7, 150, 110), **options)
        for _ in range(40):
            broken = bytearray(good[: int(rng.integers(200, len(good) + 1))])
            for at in rng.integers(2, len(broken) if rng.random() < 0.5 else min(len(broken), 700), 3):
                broken[at] = rng.integers(256)
            for image in made:
                with contextlib.suppress(ValueError, MemoryError):
                    image.decode(bytes(broken), scratch, int(rng.integers(2**63)))
        for image in made:
            assert image.decode(good, scratch, 1).size


@pytest.mark.parametrize("mode", ["RGB", "CMYK"])  # decoded by toolkit's call of libjpeg-turbo, and by PIL
@pytest.mark.parametrize("scans", [64, 65])
def test_a_jpeg_of_many_scans_is_refused(mode: str, scans: int) -> None:
    data = encode(picture(1, 64, 48).convert(mode), progressive=True)
    more = scans - count_scans(data)
    last = data.rindex(b"\xff\xda")
    bomb = data[:-2] + data[last:-2] * more + b"\xff\xd9"
    assert count_scans(bomb) == scans
    try:
        decode(bomb)
        said = ""
    except ValueError as error:  # of 64 too: the last scan refines what is refined
        said = str(error)
    assert ("scans" in said and "write it anew with fewer" in said) is (scans == 65)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_that_pil_decodes_are_turned(orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    encoded = encode(picture(orientation, 700, 500), "PNG", exif=exif)  # of several bands
    assert np.array_equal(decode(encoded), np.asarray(opened(encoded)))


def test_rows_of_one_pixel_are_counted() -> None:
    """PIL keeps four bytes and a pointer of each; one byte was counted, so a narrow picture took more than allowed."""
    buffer = io.BytesIO()
    Image.new("L", (1, 100_000)).save(buffer, "PNG")
    with open_picture(buffer.getvalue()) as image:
        assert bytes_to_decode(image, 3) >= 100_000 * (4 + 8 + 3)


def test_a_tile_larger_than_the_picture_is_counted() -> None:
    encoded = encode(picture(1, 40, 30), "TIFF", compression="tiff_lzw", tiffinfo={278: 30})
    assert decode(encoded, max_pixels=40 * 30).shape == (30, 40, 3)
    with open_picture(encoded) as image:
        assert block_pixels(image) == 40 * 30
        image.tag_v2[322] = image.tag_v2[323] = 60_000
        assert block_pixels(image) == 60_000**2
        assert bytes_to_decode(image, 3) > 60_000**2


MEASURE = """
import sys
from toolkit.pipelines.image.formats import open_picture, size_before_opening
from toolkit.pipelines.image.decode import decode_with_pil
from toolkit.pipelines.image.memory import bytes_to_decode
from toolkit.pipelines.image.jpeg_scans import count_scans
from toolkit.pipelines.image.decode_step import DecodeImage

def status(name):
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith(name))

large, small = (open(path, "rb").read() for path in sys.argv[1:])
decode_with_pil(small, DecodeImage())  # modules, tables
with open_picture(large) as image:
    counted = bytes_to_decode(image, 3, count_scans(large) if image.format == "JPEG" else 1)
before = status("VmRSS:")
open("/proc/self/clear_refs", "w").write("5")  # the peak begins anew
pixels = decode_with_pil(large, DecodeImage())
print(status("VmHWM:") - before, counted, pixels.nbytes)
"""
MEASURED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "one bit": ("1", "PNG", {}),
    "gray": ("L", "PNG", {}),
    "palette": ("P", "GIF", {}),
    "alpha": ("RGBA", "PNG", {}),
    "rows": ("RGB", "BMP", {}),
    "one strip": ("RGB", "TIFF", {"compression": "tiff_lzw", "tiffinfo": {278: 2400}}),
    "lossless": ("RGBA", "WEBP", {"lossless": True}),
    "progressive": ("CMYK", "JPEG", {"progressive": True}),
}


@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory are Linux's")
@pytest.mark.parametrize("kind", MEASURED)
def test_what_pil_takes_is_what_is_counted(kind: str, tmp_path: Path) -> None:
    mode, format, options = MEASURED[kind]
    for name, side in (("large", 2400), ("small", 24)):
        made = Image.linear_gradient("L").resize((side, side)).convert("RGB").convert(mode)
        made.save(tmp_path / name, format, **options)
    command = [sys.executable, "-c", MEASURE, tmp_path / "large", tmp_path / "small"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, counted, pixels = map(int, ran.stdout.split())
    assert pixels == 3 * 2400**2
    assert peak <= counted + (4 << 20)
    assert counted <= 1.6 * peak  # nor much more than that
