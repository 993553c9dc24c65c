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
WARPS = (
    steps.Affine,
    steps.Perspective,
    steps.Rotate,
    steps.Shear,
    steps.ShearX,
    steps.ShearY,
    steps.TranslateX,
    steps.TranslateY,
)


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


def between(span: Sequence[float], u: float) -> float:
    """Return what a draw is between two ends."""
    return span[0] + (span[1] - span[0]) * u


def signed(span: tuple[float, float], random_sign: bool, u: Any) -> float:
    """Return what a step draws between two ends."""
    drawn = between(span, u[0])
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
        case steps.Affine():
            far = [share * side for share, side in zip(step.translate or (0.0, 0.0), (width, height), strict=True)]
            move = [round(between((-each, each), u[1 + k])) for k, each in enumerate(far)]
            shears = step.shear or (0.0, 0.0)
            shear = (between(shears[:2], u[4]), between(shears[2:] or (0.0, 0.0), u[5]))
            scale = between(step.scale or (1.0, 1.0), u[3])
            return affine(step.center or middle, between(step.degrees, u[0]), move, scale, shear)
        case steps.Shear():
            return affine(step.center or middle, 0.0, (0, 0), 1.0, (between(step.x, u[0]), between(step.y, u[1])))
    raise AssertionError(step)


def corners_of(step: Any, u: Any, width: int, height: int) -> list[list[int]]:
    """Return where perspective moves the corners, from the top left on clockwise."""
    far_x, far_y = int(step.distortion_scale * (width // 2)), int(step.distortion_scale * (height // 2))
    x, y = ([int(u[first + 2 * k] * (far + 1)) for k in range(4)] for first, far in ((1, far_x), (2, far_y)))
    right, bottom = width - far_x - 1, height - far_y - 1
    return [[x[0], y[0]], [right + x[1], y[1]], [right + x[2], bottom + y[2]], [x[3], bottom + y[3]]]


def coefficients(corners: list[list[int]], width: int, height: int) -> list[float]:
    """Return torchvision's perspective coefficients."""
    start = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
    rows = []
    for (x, y), (from_x, from_y) in zip(corners, start, strict=True):
        rows.append([x, y, 1, 0, 0, 0, -from_x * x, -from_x * y])
        rows.append([0, 0, 0, x, y, 1, -from_y * x, -from_y * y])
    solved = np.linalg.solve(np.array(rows, np.float64), np.array(start, np.float64).reshape(8))
    return solved.astype(np.float32).astype(np.float64).tolist()  # type: ignore[no-any-return]


def kernel_of(sigma: float) -> np.ndarray:
    """Return the taps of torchvision's blur of displacements."""
    taps = int(8 * sigma + 1) | 1
    weights = np.exp(-0.5 * ((np.arange(taps) - taps // 2) / sigma) ** 2)
    return weights / weights.sum()


def moves_of(step: Any, key: int, width: int, height: int) -> np.ndarray:
    """Return by how many pixels elastic moves each, along x and along y."""
    x = np.arange(width * height, dtype=np.uint64) + np.uint64((key + 0x9E3779B97F4A7C15) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    noise = np.stack([x >> np.uint64(40), (x >> np.uint64(16)) & np.uint64(0xFFFFFF)]) / 2.0**23 - 1
    noise = noise.reshape(2, height, width)
    if step.sigma > 0:
        kernel = kernel_of(step.sigma)
        for axis in (1, 2):
            edges = [(len(kernel) // 2,) * 2 if each == axis else (0, 0) for each in range(3)]
            padded = np.pad(noise, edges, mode="reflect")
            noise = np.apply_along_axis(np.convolve, axis, padded, kernel, mode="valid")
    return noise * np.array(step.alpha)[:, None, None] / 2


def displaced(pixels: np.ndarray, moves: np.ndarray, filter: str, fill: Sequence[float]) -> np.ndarray:
    """Return torchvision's elastic_transform of pixels by displacements in pixels, in double, before it is rounded."""
    height, width, channels = pixels.shape
    y, x = np.mgrid[:height, :width]
    at_x, at_y = x + moves[0], y + moves[1]
    held = np.pad(pixels.astype(np.float64), ((1, 1), (1, 1), (0, 0)))
    inside = np.pad(np.ones((height, width, 1)), ((1, 1), (1, 1), (0, 0)))
    held = np.concatenate([held, inside], axis=2)

    def take(column: np.ndarray, row: np.ndarray) -> np.ndarray:
        return held[np.clip(row + 1, 0, height + 1).astype(int), np.clip(column + 1, 0, width + 1).astype(int)]

    if filter == "nearest":
        mixed = take(np.rint(at_x), np.rint(at_y))
    else:
        left, top = np.floor(at_x), np.floor(at_y)
        dx, dy = (at_x - left)[:, :, None], (at_y - top)[:, :, None]
        above = take(left, top) * (1 - dx) + take(left + 1, top) * dx
        below = take(left, top + 1) * (1 - dx) + take(left + 1, top + 1) * dx
        mixed = above * (1 - dy) + below * dy
    mask = mixed[:, :, channels:]
    return mixed[:, :, :channels] * mask + (1 - mask) * np.array(fill[:channels], np.float64)


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
    if isinstance(step, steps.Perspective):
        if u[0] >= step.p:
            return image
        matrix = coefficients(corners_of(step, u, *image.size), *image.size)
        return transformed(image, image.size, matrix, step.filter.value, fill, Image.Transform.PERSPECTIVE)
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
