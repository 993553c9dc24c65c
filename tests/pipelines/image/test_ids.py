"""decode_image(mode="id"): numbers as they are stored, moved and never mixed; and what 16 bits are in other modes."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import image_steps as steps
import image_steps_oracle as oracle
import numpy as np
import pyarrow as pa
import pytest
from image_slots import run_batch
from keyed_rows import keyed
from pictures import picture
from PIL import Image

import toolkit
from toolkit import chain, slot
from toolkit._native.image.program import ImageProgram, Scratch
from toolkit.errors import PipelineError, SampleError
from toolkit.pipelines.image.compiled import CompiledImage
from toolkit.pipelines.image.decode_step import DecodeImage

RNG = np.random.default_rng(11)
WIDTH, HEIGHT = 31, 20
WIDE = RNG.integers(0, 65536, (HEIGHT, WIDTH)).astype(np.uint16)
BYTES = RNG.integers(0, 256, (HEIGHT, WIDTH)).astype(np.uint8)
NEAREST = steps.Filter.NEAREST


def saved(image: Image.Image, format: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)
    return file.getvalue()


def palette(ids: np.ndarray, colours: int = 256) -> Image.Image:
    """A picture whose palette is shuffled, and has the same colour more than once."""
    image = Image.fromarray(ids, "P")
    image.putpalette(RNG.integers(0, 3, 3 * colours).astype(np.uint8).tobytes())
    return image


def gray_png(ids: np.ndarray, bits: int) -> bytes:
    """A gray PNG of any number of bits, which PIL doesn't write."""
    rows = b""
    for row in ids:
        packed = np.unpackbits(row.astype(">u2").view(np.uint8).reshape(-1, 2), axis=1)[:, 16 - bits :]
        rows += b"\0" + np.packbits(packed.ravel()).tobytes()
    head = struct.pack(">IIBBBBB", ids.shape[1], ids.shape[0], bits, 0, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
    made = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(made)


def gray_tiff(ids: np.ndarray, bits: int, order: str) -> bytes:
    """An uncompressed gray TIFF."""
    body = b""
    for row in ids:
        if bits == 16:
            body += row.astype(f"{order}u2").tobytes()
        else:
            packed = np.unpackbits(row.astype(">u2").view(np.uint8).reshape(-1, 2), axis=1)[:, 16 - bits :]
            body += np.packbits(packed.ravel()).tobytes()
    tags = [(256, ids.shape[1]), (257, ids.shape[0]), (258, bits), (259, 1), (262, 1), (273, 8), (277, 1)]
    tags += [(278, ids.shape[0]), (279, len(body))]
    table = struct.pack(f"{order}H", len(tags)) + b"".join(struct.pack(f"{order}HHII", t, 4, 1, v) for t, v in tags)
    head = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(f"{order}I", 8 + len(body))
    return head + body + table + struct.pack(f"{order}I", 0)


def pgm(ids: np.ndarray, largest: int, kind: str = "P5") -> bytes:
    head = f"{kind} {ids.shape[1]} {ids.shape[0]} {largest}\n".encode()
    if kind == "P2":
        return head + " ".join(map(str, ids.ravel().tolist())).encode()
    return head + ids.astype(">u2" if largest > 255 else np.uint8).tobytes()


STORED: dict[str, tuple[bytes, np.ndarray]] = {
    "palette PNG": (saved(palette(BYTES), "PNG"), BYTES),
    "palette PNG of 4 bits": (saved(palette(BYTES % 16, 16), "PNG", bits=4), BYTES % 16),
    "palette PNG of 2 bits": (saved(palette(BYTES % 4, 4), "PNG", bits=2), BYTES % 4),
    "palette PNG of 1 bit": (saved(palette(BYTES % 2, 2), "PNG", bits=1), BYTES % 2),
    "palette PNG with transparency": (saved(palette(BYTES), "PNG", transparency=3), BYTES),
    "gray PNG": (saved(Image.fromarray(BYTES), "PNG"), BYTES),
    "gray PNG of 16 bits": (gray_png(WIDE, 16), WIDE),
    "gray PNG of 4 bits": (gray_png(WIDE % 16, 4), WIDE % 16),
    "gray PNG of 2 bits": (gray_png(WIDE % 4, 2), WIDE % 4),
    "gray PNG of 1 bit": (gray_png(WIDE % 2, 1), WIDE % 2),
    "gray TIFF of 16 bits": (gray_tiff(WIDE, 16, "<"), WIDE),
    "gray TIFF of 16 bits, other order": (gray_tiff(WIDE, 16, ">"), WIDE),
    "gray TIFF of 12 bits": (gray_tiff(WIDE % 4096, 12, "<"), WIDE % 4096),
    "gray TIFF of 4 bits": (gray_tiff(WIDE % 16, 4, "<"), WIDE % 16),
    "gray TIFF of 2 bits": (gray_tiff(WIDE % 4, 2, ">"), WIDE % 4),
    "gray TIFF of 16 bits, packed": (saved(Image.fromarray(WIDE), "TIFF", compression="tiff_deflate"), WIDE),
    "palette TIFF": (saved(palette(BYTES), "TIFF"), BYTES),
    "palette BMP": (saved(palette(BYTES), "BMP"), BYTES),
    "GIF": (saved(palette(BYTES), "GIF", optimize=False), BYTES),
    "PGM": (pgm(BYTES, 255), BYTES),
    "PGM of 16 bits": (pgm(WIDE, 65535), WIDE),
    "PGM up to 20": (pgm(BYTES % 21, 20), BYTES % 21),
    "PGM up to 1000": (pgm(WIDE % 1001, 1000), WIDE % 1001),
    "plain PGM up to 20": (pgm(BYTES % 21, 20, "P2"), BYTES % 21),
    "plain PGM up to 65535": (pgm(WIDE, 65535, "P2"), WIDE),
    "PBM": (saved(Image.fromarray(BYTES % 2 == 1), "PPM"), BYTES % 2),
}


def ids_of(*steps: Any, **options: Any) -> CompiledImage:
    return CompiledImage("mask", [DecodeImage.checked(mode="id", **options), *steps])


@pytest.mark.parametrize("stored", STORED)
def test_ids_are_what_is_stored(stored: str) -> None:
    encoded, ids = STORED[stored]
    made = ids_of().decode(encoded, Scratch())
    assert (made.dtype, made.shape) == (np.int32, ids.shape)
    assert np.array_equal(made, ids)
    cut = ids_of(steps.Crop(3, 4, 5, 6))
    batch, failures = run_batch(cut, [encoded, encoded])
    assert (failures, batch.shape) == ([], (2, 5, 6))
    assert np.array_equal(batch[1], ids[3:8, 4:10])


def test_a_gray_jpeg_has_its_values() -> None:
    encoded = saved(picture(1, 40, 30).convert("L"), "JPEG", quality=95)
    assert np.array_equal(ids_of().decode(encoded, Scratch()), np.asarray(Image.open(io.BytesIO(encoded))))


@pytest.mark.parametrize("orientation", range(1, 9))
def test_ids_are_turned_upright(orientation: int) -> None:
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    encoded = saved(Image.fromarray(BYTES), "PNG", exif=exif.tobytes())
    upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(encoded))))
    assert np.array_equal(ids_of().decode(encoded, Scratch()), upright)
    assert np.array_equal(ids_of(exif=False).decode(encoded, Scratch()), BYTES)


def test_bands_of_a_large_picture() -> None:
    ids = RNG.integers(0, 65536, (700, 900)).astype(np.uint16)
    assert np.array_equal(ids_of().decode(saved(Image.fromarray(ids), "PNG"), Scratch()), ids)


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (picture(1), r"in colour \(PIL's mode RGB\)"),
        (picture(1).convert("RGBA"), r"in colour \(PIL's mode RGBA\)"),
        (picture(1).convert("LA"), r"in colour \(PIL's mode LA\)"),
    ],
)
def test_colours_have_no_ids(image: Image.Image, why: str) -> None:
    _, [failure] = run_batch(ids_of(steps.Crop(0, 0, 2, 2)), [saved(image, "PNG")])
    assert failure.step == 'decode_image(mode="id")'
    with pytest.raises(ValueError, match=why):
        raise ValueError(failure.message)


def test_numbers_of_32_bits_have_no_ids() -> None:
    for image in (Image.fromarray(WIDE.astype(np.int32)), Image.fromarray(WIDE.astype(np.float32))):
        with pytest.raises(ValueError, match=r"32 bits \(PIL's mode [IF]\) are no ids"):
            ids_of().decode(saved(image, "TIFF"), Scratch())


# --- steps -----------------------------------------------------------------------------------------------------------

MOVES: list[list[Any]] = [
    [steps.Resize(13, 50, NEAREST)],
    [steps.ResizeShort(11, NEAREST), steps.CenterCrop(30, 8)],
    [steps.ResizeLong(40, NEAREST), steps.HFlip(1.0), steps.Crop(3, 5, 30, 20)],
    [steps.Cover(9, 17, NEAREST), steps.VFlip(1.0)],
    [steps.Contain(30, 17, True, 0, NEAREST), steps.HFlip(1.0), steps.Resize(8, 9, NEAREST)],
    [steps.Thumbnail(9, 9, NEAREST), steps.Pad(1, 2, 3, 4, 0)],
    [steps.ScaleJitter(40, 30, (0.1, 2.0), NEAREST), steps.CenterCrop(24, 24)],
    [steps.Pad(3, 4, 5, 6, 0), steps.RandomCrop(20, 21), steps.HFlip(0.5), steps.VFlip(0.5)],
    [steps.Crop(10, 10, 40, 40), steps.HFlip(1.0), steps.VFlip(1.0), steps.Pad(1, 1, 1, 1, 0)],
    [steps.Crop(100, 100, 4, 4)],
    [steps.RandomResizedCrop(16, 15, (0.08, 1.0), (3 / 4, 4 / 3), NEAREST), steps.HFlip(0.5)],
]


@pytest.mark.parametrize("ids", [WIDE, BYTES], ids=["16 bits", "8 bits"])
@pytest.mark.parametrize("chain", MOVES)
@pytest.mark.parametrize("ignore", [0, 255, 65535])
def test_steps_move_whole_ids(chain: list[Any], ids: np.ndarray, ignore: int) -> None:
    """The oracle moves pixels of which red is the lower byte, green the upper one, and blue says that there is one."""
    parts = np.stack([ids & 255, ids.astype(np.uint16) >> 8, np.full_like(ids, 255)], axis=-1).astype(np.uint8)
    image, encoded = ids_of(*chain, ignore=ignore), saved(Image.fromarray(ids), "PNG")
    for key in (1, 2, 3, 4):
        moved = oracle.apply(Image.fromarray(parts), chain, key).astype(np.int32)
        expected = np.where(moved[:, :, 2] == 255, moved[:, :, 0] + 256 * moved[:, :, 1], ignore)
        assert np.array_equal(image.decode(encoded, Scratch(), key), expected)


@pytest.mark.parametrize(
    "dtype", ["uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]
)
def test_ids_are_cast(dtype: str) -> None:
    made = ids_of(steps.Cast(dtype)).decode(gray_png(WIDE, 16), Scratch())
    assert made.dtype == dtype
    info = np.iinfo(dtype) if np.dtype(dtype).kind in "iu" else np.finfo(dtype)
    assert np.array_equal(made, np.clip(WIDE.astype(np.int64), None, int(info.max)).astype(dtype))


REFUSED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda s: s.resize((4, 5)), r'mixes no ids, got the filter bilinear: say filter="nearest"'),
    (lambda s: s.resize_short(4, filter="lanczos"), "got the filter lanczos"),
    (lambda s: s.random_resized_crop(4), "got the filter bilinear"),
    (lambda s: s.cover(4), "got the filter bilinear"),
    (lambda s: s.contain(4, filter="nearest", fill=3), r"got fill=3: decode_image\(ignore=\) says"),
    (lambda s: s.pad(4, fill=3), "no fill of its own, got fill=3"),
    (lambda s: s.thumbnail(4), "got the filter bilinear"),
    (lambda s: s.scale_jitter(4), "got the filter bilinear"),
    (lambda s: s.maybe(chain().resize_short(4)), "within it, step 1 .* got the filter bilinear"),
    (lambda s: s.color_jitter(hue=0.5), r'got ids: their order means nothing, .*mode="gray"'),
    (lambda s: s.grayscale(), "got ids: "),
    (lambda s: s.maybe(chain().color_jitter(hue=0.5)), "got ids: "),
    (lambda s: s.normalize("half"), "got ids: "),
    (lambda s: s.to_chw(), "got ids: "),
    (lambda s: s.to_hwc(), "got ids: "),
    (lambda s: s.cast("int64").hflip(), "got a int64 height x width tensor: move cast"),
    (lambda s: s.cast("int64").to_chw(), "got a int64 height x width tensor"),
]


@pytest.mark.parametrize(("say", "why"), REFUSED)
def test_what_mixes_ids_is_refused_where_it_is_written(say: Callable[[Any], Any], why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        say(slot("mask").decode_image(mode="id"))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"ignore": 7}, 'ignore is an id: say mode="id", too'),
        ({"mode": "id", "ignore": 65536}, r"ignore must be an int in 0\.\.65535, got 65536"),
        ({"mode": "id", "icc": True}, "ids have none: leave it out"),
    ],
)
def test_options_that_dont_go_together(options: dict[str, Any], why: str) -> None:
    with pytest.raises(PipelineError, match=why):
        slot("mask").decode_image(**options)


def test_the_kernels_refuse_what_the_steps_would_have() -> None:
    size = {"height": 2, "width": 2}
    jitter = {"brightness": None, "contrast": None, "saturation": None, "hue": None, "id": 0}
    for op in (("resize", size | {"filter": "bilinear"}), ("color_jitter", jitter)):
        with pytest.raises(ValueError, match="ids may only be moved"):
            ImageProgram([op], mode="id", dtype="int32")
        with pytest.raises(ValueError, match="ids may only be moved"):
            ImageProgram([("maybe", {"limits": [0.5], "id": 1}, [[op]])], mode="id", dtype="int32")
    with pytest.raises(ValueError, match="ids have no scale"):
        ImageProgram([], mode="id", scale=[1.0], bias=[0.0])


def test_a_hash_is_of_what_changes_samples() -> None:
    def describe(**options: Any) -> str:
        return toolkit.pipeline(slot("x").decode_image(**options)).describe()

    assert describe(mode="id") == describe(mode="id", ignore=255) != describe(mode="id", ignore=0)


def test_mask_and_image_agree(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    """Both columns hold the same: what the image's slot shows in gray, the mask's does in ids."""
    files = [saved(Image.fromarray(RNG.integers(0, 256, (40, 50)).astype(np.uint8)), "PNG") for _ in range(8)]
    commit_rows(tmp_path / "ds", {"train": [[keyed({"image": pa.array(files), "mask": pa.array(files)})]]})
    move = chain().random_resized_crop(24, filter="nearest").hflip().pad(2)
    pipeline = toolkit.pipeline(
        slot("image").decode_image(mode="gray").then(move),
        slot("mask").decode_image(mode="id", ignore=0).then(move).cast("int64"),
    )
    print(pipeline.explain(toolkit.open(tmp_path / "ds")))
    (batch,) = toolkit.open(tmp_path / "ds").loader(pipeline, batch_size=8, seed=3)
    assert (batch["mask"].shape, batch["mask"].dtype) == ((8, 28, 28), np.int64)
    assert np.array_equal(batch["image"][..., 0], batch["mask"])


def test_a_picture_in_colour_is_an_error_with_its_sample(tmp_path: Path, commit_rows: Callable[..., str]) -> None:
    commit_rows(tmp_path / "ds", {"train": [[keyed({"mask": pa.array([saved(picture(1), "PNG")])})]]})
    with pytest.raises(SampleError, match=r"key .*mask.*a picture in colour"):
        list(toolkit.open(tmp_path / "ds").loader(toolkit.pipeline(slot("mask").decode_image(mode="id")), batch_size=1))


# --- 16 bits in other modes ------------------------------------------------------------------------------------------


def test_sixteen_bits_keep_their_upper_byte_and_are_not_cut_off() -> None:
    for stored in (
        "gray PNG of 16 bits",
        "gray TIFF of 16 bits",
        "gray TIFF of 16 bits, other order",
        "PGM of 16 bits",
    ):
        encoded, values = STORED[stored]
        upper = (values >> 8).astype(np.uint8)
        for mode, channels in ((steps.Mode.GRAY, 1), (steps.Mode.RGB, 3)):
            image = CompiledImage("x", [DecodeImage.checked(mode=mode.value)])
            assert np.array_equal(image.decode(encoded, Scratch()), np.repeat(upper[:, :, None], channels, 2)), stored


def test_twelve_bits_keep_their_upper_byte() -> None:
    encoded, values = STORED["gray TIFF of 12 bits"]
    made = CompiledImage("x", [DecodeImage.checked(mode="gray")]).decode(encoded, Scratch())
    assert np.array_equal(made[:, :, 0], (values >> 4).astype(np.uint8))


def test_values_of_few_bits_reach_from_black_to_white() -> None:
    """Where they are colours, and no ids."""
    for stored, largest in (("gray PNG of 4 bits", 15), ("gray PNG of 2 bits", 3), ("PGM up to 1000", 1000)):
        encoded, values = STORED[stored]
        made = CompiledImage("x", [DecodeImage.checked(mode="gray")]).decode(encoded, Scratch())[:, :, 0]
        assert np.abs(made - values / largest * 255).max() <= 1, stored
