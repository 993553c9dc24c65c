"""What steps that look at neighbours mean, in numpy or PIL: pixels of (height, width, channels)."""

from __future__ import annotations

import io
import math
from typing import Any, Protocol

import image_steps as steps
import numpy as np
import scipy.ndimage
from PIL import Image, ImageFilter

__all__ = ["FILTERS", "apply", "blurred", "equalized", "moved", "recompressed", "relit", "sharpened", "through_pil"]


class Drawn(Protocol):
    """The numbers that a step draws."""

    def __getitem__(self, k: int) -> float: ...


FILTERS = (
    steps.Clahe,
    steps.GaussianBlur,
    steps.JpegCompression,
    steps.MedianBlur,
    steps.MotionBlur,
    steps.Sharpness,
    steps.UnsharpMask,
)


def apply(image: Image.Image, step: steps.ImageStep, u: Drawn) -> Image.Image:
    """Return the picture behind one of FILTERS."""
    if u[0] >= step.p:
        return image
    pixels = np.asarray(image).reshape(image.height, image.width, -1)
    match step:
        case steps.Sharpness(factor, mirror):
            by = drawn(factor, u[1])
            made = sharpened(pixels, 2 - by if mirror and u[2] < 0.5 else by)
        case steps.GaussianBlur(size, sigma):
            made = blurred(pixels, size, drawn(sigma, u[1]))
        case steps.MotionBlur(size, angle, direction):
            made = moved(pixels, size, drawn(angle, u[1]), drawn(direction, u[2]))
        case steps.MedianBlur(radius):
            made = through_pil(pixels, ImageFilter.MedianFilter(2 * drawn(radius, u[1]) + 1))
        case steps.UnsharpMask(radius, percent, threshold):
            made = through_pil(pixels, ImageFilter.UnsharpMask(drawn(radius, u[1]), drawn(percent, u[2]), threshold))
        case steps.Clahe(clip_limit, tiles):
            made = relit(pixels, drawn(clip_limit, u[1]), tiles)
        case steps.JpegCompression(quality):
            made = recompressed(pixels, drawn(quality, u[1]))
        case _:
            raise AssertionError(step)
    return image_of(made)


def image_of(pixels: np.ndarray) -> Image.Image:
    return Image.fromarray(pixels if pixels.shape[2] > 1 else pixels[:, :, 0])


def drawn(value: Any, u: float) -> Any:
    """A field that is one value or a range of them."""
    if not isinstance(value, tuple):
        return value
    low, high = value
    return low + int(u * (high - low + 1)) if isinstance(low, int) else low + (high - low) * u


def through_pil(pixels: np.ndarray, filter: Any) -> np.ndarray:
    """A filter of PIL's that repeats borders. Pillow-SIMD reads beyond a side of one pixel, so it gets two."""
    height, width = pixels.shape[:2]
    grown = np.ascontiguousarray(np.pad(pixels, ((0, height == 1), (0, width == 1), (0, 0)), mode="edge"))
    made = np.asarray(image_of(grown).filter(filter))
    return np.ascontiguousarray(made.reshape(grown.shape)[:height, :width])


def sharpened(pixels: np.ndarray, factor: float) -> np.ndarray:
    """PIL.ImageEnhance.Sharpness."""
    if min(pixels.shape[:2]) < 3:
        return pixels
    smooth, (height, width) = pixels.copy(), pixels.shape[:2]
    around = [pixels[y : y + height - 2, x : x + width - 2].astype(int) for y in range(3) for x in range(3)]
    smooth[1:-1, 1:-1] = (sum(around) + 4 * around[4]) / 13 + 0.5
    smooth[:, :, 3:] = pixels[:, :, 3:]
    start = smooth.astype(np.float32)
    return np.clip(start + np.float32(factor) * (pixels - start), 0, 255).astype(np.uint8)


def blurred(pixels: np.ndarray, size: int | None, sigma: float) -> np.ndarray:
    """torchvision's gaussian_blur; without a size scipy's gaussian_filter with mirrored borders."""
    half = int(4 * sigma + 0.5) if size is None else size // 2
    weights = np.exp(-0.5 * (np.arange(-half, half + 1) / sigma) ** 2)
    weights /= weights.sum()
    height, width = pixels.shape[:2]
    grown = np.pad(pixels.astype(float), ((half, half), (half, half), (0, 0)), mode="reflect")
    rows = sum(weight * grown[k : k + height] for k, weight in enumerate(weights))
    return np.rint(sum(weight * rows[:, k : k + width] for k, weight in enumerate(weights))).astype(np.uint8)


def moved(pixels: np.ndarray, size: int, degrees: float, direction: float) -> np.ndarray:
    """motion_blur by its formula."""
    half, first = size // 2, (1 - direction) / 2
    kernel = np.zeros((size + 2, size + 2))
    for i in range(size):
        weight = 2 / size * (first + (1 - 2 * first) * i / (size - 1))
        x = 1 + half + (i - half) * math.cos(math.radians(degrees))
        y = 1 + half - (i - half) * math.sin(math.radians(degrees))
        for row in range(size + 2):
            for column in range(size + 2):
                kernel[row, column] += weight * max(0.0, 1 - abs(row - y)) * max(0.0, 1 - abs(column - x))
    planes = [
        scipy.ndimage.correlate(plane, kernel, mode="mirror") for plane in np.moveaxis(pixels.astype(float), 2, 0)
    ]
    return np.rint(np.stack(planes, 2)).astype(np.uint8)


def recompressed(pixels: np.ndarray, quality: int) -> np.ndarray:
    """What PIL makes of it; alpha stays."""
    file, colours = io.BytesIO(), np.ascontiguousarray(pixels[:, :, :3])
    image_of(colours).save(file, "JPEG", quality=quality)
    made = np.asarray(Image.open(file)).reshape(colours.shape)
    return np.concatenate([made, pixels[:, :, 3:]], 2)


def equalized(plane: np.ndarray, clip_limit: float, tiles: tuple[int, int]) -> np.ndarray:
    """cv2.createCLAHE(clip_limit, tiles[::-1]).apply(plane)."""
    (height, width), (rows, columns) = plane.shape, tiles
    grown = plane
    if height % rows or width % columns:
        grown = np.pad(plane, ((0, rows - height % rows), (0, columns - width % columns)), mode="reflect")
    down, right = grown.shape[0] // rows, grown.shape[1] // columns
    tables = np.empty((rows, columns, 256), np.float32)
    for row, column in np.ndindex(rows, columns):
        tile = grown[row * down : (row + 1) * down, column * right : (column + 1) * right]
        counts = np.bincount(tile.ravel(), minlength=256)
        if clip_limit > 0:
            limit = max(int(clip_limit * tile.size / 256), 1)
            above = int(np.maximum(counts - limit, 0).sum())
            counts = np.minimum(counts, limit) + above // 256
            if left := above % 256:
                counts[:: max(256 // left, 1)][:left] += 1
        tables[row, column] = np.rint(np.cumsum(counts).astype(np.float32) * np.float32(255 / np.float32(tile.size)))

    def between(length: int, tile: int, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        place = np.arange(length).astype(np.float32) * (np.float32(1) / np.float32(tile)) - np.float32(0.5)
        low = np.floor(place)
        return np.maximum(low, 0).astype(int), np.minimum(low + 1, count - 1).astype(int), place - low

    (top, bottom, y), (first, last, x) = between(height, down, rows), between(width, right, columns)
    y, one = y[:, None], np.float32(1)
    above, below = (
        tables[row[:, None], first, plane] * (one - x) + tables[row[:, None], last, plane] * x for row in (top, bottom)
    )
    return np.rint(above * (one - y) + below * y).astype(np.uint8)


TO_XYZ = np.array([[28439, 24656, 12441], [13938, 46868, 4730], [1164, 7175, 57197]])  # by the white, in 65536ths


def relit(pixels: np.ndarray, clip_limit: float, tiles: tuple[int, int]) -> np.ndarray:
    """clahe: linear colours are whole 65535ths, and from there on floats."""
    if pixels.shape[2] == 1:
        return equalized(pixels[:, :, 0], clip_limit, tiles)[:, :, None]
    srgb = pixels[:, :, :3] / 255
    linear = np.rint(np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4) * 65535).astype(np.int64)
    xyz = (linear @ TO_XYZ.T + 32768 >> 16) / 65535
    f = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * 841 / 108 + 16 / 116)
    lightness = np.rint(np.clip(2.55 * (116 * f[:, :, 1] - 16), 0, 255)).astype(np.uint8)
    bright = (equalized(lightness, clip_limit, tiles) / 2.55 + 16) / 116
    f += (bright - f[:, :, 1])[:, :, None]
    xyz = np.where(f > 6 / 29, f**3, (f - 16 / 116) * 108 / 841)
    linear = np.clip(xyz @ np.linalg.inv(TO_XYZ / 65536).T, 0, 1)
    srgb = np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.concatenate([np.rint(srgb * 255).astype(np.uint8), pixels[:, :, 3:]], 2)
