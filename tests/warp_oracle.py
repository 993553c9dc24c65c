"""What a step that moves pixels by a map makes of a picture: torchvision's formulas, and Pillow's own transform.

Alpha is undone as stock Pillow does, which cuts off where Pillow-SIMD rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import image_steps as steps
import numpy as np
from pictures import picture
from PIL import Image

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}


def image_of(mode: str, seed: int, width: int, height: int) -> Image.Image:
    """Return a small photograph of any mode."""
    made = picture(seed, width, height)
    if mode == "RGBA":
        made.putalpha(picture(seed + 1000, width, height).convert("L"))
        return made
    return made.convert(mode)


def pixels_of(image: Image.Image) -> np.ndarray:
    """Return uint8 (height, width, channels)."""
    pixels = np.asarray(image)
    return np.ascontiguousarray(pixels[:, :, None] if pixels.ndim == 2 else pixels)


def fill_of(mode: str, fill: tuple[int, int, int, int]) -> Any:
    """Return Pillow's form of a fill."""
    return {"RGB": fill[:3], "L": fill[0], "RGBA": fill}[mode]


def transformed(
    image: Image.Image,
    size: tuple[int, int],
    matrix: Sequence[float],
    filter: str,
    fill: Any,
    method: Image.Transform = Image.Transform.AFFINE,
) -> Image.Image:
    """Return Image.transform's picture."""
    if image.mode != "RGBA" or filter == "nearest":
        return image.transform(size, method, matrix, FILTERS[filter], fillcolor=fill)
    return Image.fromarray(
        without_alpha(image.convert("RGBa").transform(size, method, matrix, FILTERS[filter], fillcolor=fill))
    )


def affine(
    center: Sequence[float], angle: float, translate: Sequence[float], scale: float, shear: Sequence[float]
) -> list[float]:
    """Return torchvision's inverse matrix of an affine map."""
    turn, shear_x, shear_y = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - shear_y) / math.cos(shear_y)
    b = -math.cos(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) - math.sin(turn)
    c = math.sin(turn - shear_y) / math.cos(shear_y)
    d = -math.sin(turn - shear_y) * math.tan(shear_x) / math.cos(shear_y) + math.cos(turn)
    m = [each / scale for each in (d, -b, 0.0, -c, a, 0.0)]
    m[2] += m[0] * (-center[0] - translate[0]) + m[1] * (-center[1] - translate[1])
    m[5] += m[3] * (-center[0] - translate[0]) + m[4] * (-center[1] - translate[1])
    m[2] += center[0]
    m[5] += center[1]
    return m


def signed(span: tuple[float, float], random_sign: bool, u: Any) -> float:
    """Return what a step draws between two ends."""
    drawn: float = span[0] + (span[1] - span[0]) * u[0]
    return -drawn if random_sign and u[1] < 0.5 else drawn


def matrix_of(step: Any, u: Any, width: int, height: int) -> list[float]:
    """Return the map of a step that keeps the size, but for rotate."""
    middle = (width * 0.5, height * 0.5)
    match step:
        case steps.ShearX() | steps.ShearY():
            degrees = math.degrees(math.atan(signed(step.magnitude, step.random_sign, u)))
            shear = (degrees, 0.0) if isinstance(step, steps.ShearX) else (0.0, degrees)
            return affine((0, 0), 0.0, (0, 0), 1.0, shear)
        case steps.TranslateX() | steps.TranslateY():
            is_x = isinstance(step, steps.TranslateX)
            pixels = signed(step.magnitude, step.random_sign, u)
            pixels *= (width if is_x else height) if step.unit.value == "fraction" else 1
            pixels = int(pixels) if step.whole else pixels
            return affine(middle, 0.0, (pixels, 0) if is_x else (0, pixels), 1.0, (0.0, 0.0))
    raise AssertionError(step)


def apply(image: Image.Image, step: Any, u: Any) -> Image.Image:
    """Return what a step makes of a picture."""
    fill = fill_of(image.mode, (step.fill,) * 4 if isinstance(step.fill, int) else (*step.fill, 255))
    if isinstance(step, steps.Rotate):
        angle, filter = signed(step.degrees, step.random_sign, u), FILTERS[step.filter.value]
        if image.mode == "RGBA" and step.filter is not steps.Take.NEAREST:
            mixed = image.convert("RGBa").rotate(
                angle, FILTERS[step.filter.value], step.expand, step.center, fillcolor=fill
            )
            quarters = step.center is None and angle % 90 == 0
            if not (quarters and (angle % 180 == 0 or step.expand or image.width == image.height)):
                return Image.fromarray(without_alpha(mixed))
        return image.rotate(angle, filter, step.expand, step.center, fillcolor=fill)
    return transformed(image, image.size, matrix_of(step, u, *image.size), step.filter.value, fill)


def without_alpha(mixed: Image.Image) -> np.ndarray:
    """Return RGBA pixels of premultiplied ones."""
    pixels = np.frombuffer(mixed.tobytes(), np.uint8).reshape(mixed.height, mixed.width, 4).astype(np.int64)
    alpha = pixels[:, :, 3:]
    colours = np.minimum(255 * pixels[:, :, :3] // np.maximum(alpha, 1), 255)
    colours = np.where((alpha == 0) | (alpha == 255), pixels[:, :, :3], colours)
    return np.concatenate([colours, alpha], axis=2).astype(np.uint8)


def check_close(made: np.ndarray, wanted: np.ndarray, filter: str) -> None:
    """Nearest pixels are equal; mixed ones within a level, and almost all of them equal."""
    assert made.shape == wanted.shape
    if filter == "nearest":
        assert np.array_equal(made, wanted)
        return
    off = np.abs(made.astype(np.int64) - wanted)
    if made.shape[2] == 4:  # a level of a colour that hardly shows is many once it is divided by its alpha
        assert off[:, :, 3].max() <= 1
        off = off[:, :, :3] * wanted[:, :, 3:] / 256
    assert off.max() <= 1.5
    assert off.mean() <= 0.02
