"""Run by test_new_op.py over a copy of toolkit that has the ops of forms.c: each alone, and all among the others."""

from __future__ import annotations

import io

import numpy as np
import pytest
from image_steps_oracle import fold
from PIL import Image, ImageOps

from toolkit._native.image import program as image

SCRATCH = image.Scratch()


def noise(draw: np.random.Generator, height: int, width: int, channels: int) -> np.ndarray:
    """Return values that are no even noise, so that equalizing changes them."""
    return (draw.beta(2, 4, (height, width, channels)) * 255).astype(np.uint8)


def run(ops: list, pixels: np.ndarray, key: int, **options: object) -> np.ndarray:
    return image.ImageProgram(ops, **options).apply(pixels, SCRATCH, key)


def oracle(op: tuple, pixels: np.ndarray, key: int) -> np.ndarray:
    """Return what numpy and PIL make of an op of forms.c."""
    name, fields = op
    out = pixels.copy()
    if name == "scale_channels":
        out[:, :, :3] = np.minimum(pixels[:, :, :3] * np.array(fields["factors"]), 255).astype(np.uint8)
    elif name == "even_out":
        out[:, :, :3] = np.asarray(ImageOps.equalize(Image.fromarray(np.ascontiguousarray(pixels[:, :, :3]))))
    elif name == "transpose":
        drawn = int((fold(fold(key, fields["id"]), 0) >> 11) * 2.0**-53 * (fields["most"] + 1))
        out = pixels.transpose(1, 0, 2).copy()
        out[:, :, 0] += np.uint8(drawn)
    return out


def any_op(draw: np.random.Generator, forms: bool, number: int) -> tuple:
    made = [
        ("scale_channels", {"factors": tuple(draw.uniform(0, 2, 3))}),
        ("even_out", {}),
        ("transpose", {"most": int(draw.integers(256)), "id": number}),
    ]
    others = [
        ("resize", {"height": int(draw.integers(1, 40)), "width": int(draw.integers(1, 40)), "filter": "bilinear"}),
        ("crop", {"top": int(draw.integers(-3, 9)), "left": int(draw.integers(-3, 9)), "height": 17, "width": 12}),
        ("pad", {"top": 1, "left": 2, "bottom": 0, "right": 3, "fill": int(draw.integers(256))}),
        ("hflip", {"p": 1.0, "id": number}),
        ("vflip", {"p": 0.5, "id": number}),
        ("grayscale", {"channels": 3, "p": 1.0}),
        (
            "color_jitter",
            {"brightness": (0.2, 1.8), "contrast": (0.2, 1.8), "saturation": None, "hue": None, "id": number},
        ),
    ]
    return made[draw.integers(3)] if forms else others[draw.integers(len(others))]


def check_alone(draw: np.random.Generator) -> None:
    for number in range(60):
        channels = int(draw.choice([3, 4]))
        pixels = noise(draw, int(draw.integers(1, 70)), int(draw.integers(1, 70)), channels)
        op = any_op(draw, True, number)
        mode = "rgb" if channels == 3 else "rgba"
        got = run([op], pixels, number, mode=mode)
        assert np.array_equal(got, oracle(op, pixels, number)), (op, pixels.shape)


def check_among_others(draw: np.random.Generator) -> None:
    """A program of many steps gives what as many programs of one step do, one behind the other."""
    for number in range(300):
        pixels = noise(draw, int(draw.integers(2, 50)), int(draw.integers(2, 50)), 3)
        ops = [any_op(draw, bool(draw.integers(2)), 100 * number + i) for i in range(draw.integers(1, 9))]
        wanted = pixels
        for op in ops:
            wanted = oracle(op, wanted, number) if op[0] in FORMS else run([op], wanted, number)
        assert np.array_equal(run(ops, pixels, number), wanted), (ops, pixels.shape)
        planes = run(ops, pixels, number, layout="chw", dtype="float32", scale=(0.5, 0.25, 2.0), bias=(1.0, 2.0, 3.0))
        scaled = wanted.astype(np.float32) * np.float32([0.5, 0.25, 2.0]) + np.float32([1.0, 2.0, 3.0])
        assert np.array_equal(planes, scaled.transpose(2, 0, 1)), (ops, pixels.shape)


def check_jpeg(draw: np.random.Generator) -> None:
    """The same from a JPEG that has to be turned upright or not."""
    for number in range(80):
        exif = Image.Exif()
        exif[274] = int(draw.integers(1, 9))
        buffer = io.BytesIO()
        Image.fromarray(noise(draw, 41, 59, 3)).save(buffer, "JPEG", exif=exif)
        ops = [any_op(draw, bool(draw.integers(2)), 100 * number + i) for i in range(draw.integers(1, 6))]
        pixels = image.ImageProgram([]).decode(buffer.getvalue(), SCRATCH)
        got = image.ImageProgram(ops).decode(buffer.getvalue(), SCRATCH, number)
        assert np.array_equal(got, run(ops, pixels, number)), (ops, exif[274])


def check_limits() -> None:
    pixels = np.zeros((4, 6, 3), np.uint8)
    many = [("even_out", {}), ("scale_channels", {"factors": (1, 1, 1)})] * 32
    assert np.array_equal(run(many, pixels, 0), pixels)
    turned = run([("transpose", {"most": 0, "id": 1})] * 63, pixels, 0)
    assert turned.shape == (6, 4, 3)
    for wrong in ((1, 1), (1, 1, 1, 1), (1, 1, 9), (1, 1, float("nan")), "abc"):
        with pytest.raises(ValueError, match="factors"):
            image.ImageProgram([("scale_channels", {"factors": wrong})])


FORMS = {"scale_channels", "even_out", "transpose"}
BEST = image.simd_level()
table = image.op_table()
assert [table[name][0] for name in sorted(FORMS)] == ["statistic", "point", "picture"]
for level in ("generic", "avx2", "avx512"):
    try:
        image._set_simd_level(level)
    except ValueError:
        continue
    check_alone(np.random.default_rng(1))
    check_among_others(np.random.default_rng(2))
    check_jpeg(np.random.default_rng(3))
    check_limits()
    print(level)
