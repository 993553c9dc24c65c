"""What steps that change values mean, said with PIL and Python's numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, Protocol

import image_steps as steps
import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from toolkit.pipelines.step import Step

TONES = (
    steps.Autocontrast,
    steps.Brightness,
    steps.ChannelDrop,
    steps.ChannelShuffle,
    steps.ColorTemperature,
    steps.Contrast,
    steps.Equalize,
    steps.Gamma,
    steps.Invert,
    steps.Lut,
    steps.Posterize,
    steps.Saturation,
    steps.Solarize,
    steps.SolarizeAdd,
)


class _Draws(Protocol):
    def __getitem__(self, k: int) -> float: ...


def apply(image: Image.Image, step: Step, u: _Draws) -> Image.Image:
    """Return what one of TONES makes of a picture that draws those numbers."""
    if u[0] >= step.p:  # type: ignore[attr-defined]
        return image
    match step:
        case steps.Brightness() | steps.Contrast() | steps.Saturation():
            factor = _drawn(step.factor, u)
            factor = 2 - factor if step.mirror and u[2] < 0.5 else factor
            return enhance(image, (steps.Brightness, steps.Contrast, steps.Saturation).index(type(step)), factor)
        case steps.Posterize(bits):
            return _on_colours(image, ImageOps.posterize, _drawn(bits, u))
        case steps.Solarize(threshold):
            return _on_colours(image, ImageOps.solarize, _drawn(threshold, u))
        case steps.SolarizeAdd(add, threshold):
            return _on_colours(image, _solarize_add, _drawn(add, u), threshold)
        case steps.Invert():
            return _on_colours(image, ImageOps.invert)
        case steps.Equalize():
            return _on_colours(image, ImageOps.equalize)
        case steps.Autocontrast(cutoff):
            return _on_colours(image, ImageOps.autocontrast, cutoff)
        case steps.Gamma(gamma, gain):
            return _on_colours(image, adjust_gamma, _drawn(gamma, u), gain)
        case steps.Lut(table):
            return _on_colours(image, _look_up, table)
        case steps.ChannelShuffle():
            order = list(itertools.permutations(range(3)))[int(u[1] * 6)]
            return _of_each(image, lambda bands: [bands[k] for k in order])
        case steps.ChannelDrop(channels, fill):
            dropped = list(itertools.combinations(range(3), _drawn(channels, u)))[int(u[2] * 3)]
            return _of_each(image, lambda b: [np.full_like(b[k], fill) if k in dropped else b[k] for k in range(3)])
        case steps.ColorTemperature(kelvin):
            light = glow(_drawn(kelvin, u))
            return _of_each(image, lambda b: [np.floor(b[k] * light[k] / 255 + 0.5).astype(np.uint8) for k in range(3)])
        case _:
            raise AssertionError(step)


def enhance(image: Image.Image, which: int, factor: float) -> Image.Image:
    """Return what ImageEnhance.Brightness (0), Contrast (1) or Color (2) gives."""
    if which == 0:
        return ImageEnhance.Brightness(image).enhance(factor)
    if which == 1:
        mean = int(float(np.asarray(to_gray(image)).mean(dtype=np.float64)) + 0.5)
        return _blend(Image.new("L", image.size, mean), image, factor)
    return _blend(to_gray(image), image, factor)


def adjust_gamma(image: Image.Image, gamma: float, gain: float = 1.0) -> Image.Image:
    """torchvision's, on a PIL image."""
    table = [min(255, int((255 + 1 - 1e-3) * gain * pow(value / 255.0, gamma))) for value in range(256)]
    return image.point(table * len(image.getbands()))


def glow(kelvin: float) -> tuple[float, float, float]:
    """Tanner Helland's red, green and blue of a black body."""
    t = kelvin / 100
    red = 255.0 if t <= 66 else 329.698727446 * (t - 60) ** -0.1332047592
    green = 99.4708025861 * math.log(t) - 161.1195681661 if t <= 66 else 288.1221695283 * (t - 60) ** -0.0755148492
    blue = 255.0 if t >= 66 else 0.0 if t <= 19 else 138.5177312231 * math.log(t - 10) - 305.0447927307
    red, green, blue = (min(max(value, 0.0), 255.0) for value in (red, green, blue))
    return red, green, blue


def to_gray(image: Image.Image) -> Image.Image:
    """Pillow's convert("L"), spelled out: that of Pillow-SIMD is, now and then, one level from it."""
    if image.mode == "L":
        return image
    total = np.asarray(image)[:, :, :3].astype(np.int64) @ np.array([19595, 38470, 7471]) + 0x8000
    return Image.fromarray((total >> 16).astype(np.uint8))


def _blend(start: Image.Image, image: Image.Image, factor: float) -> Image.Image:
    start = start.convert(image.mode)
    if image.mode == "RGBA":
        start.putalpha(image.getchannel("A"))
    return Image.blend(start, image, factor)


def _drawn(value: Any, u: _Draws) -> Any:
    """A field that is one value or a range of them, by draw 1."""
    if not isinstance(value, tuple):
        return value
    low, high = value
    return low + int(u[1] * (high - low + 1)) if isinstance(low, int) else low + (high - low) * u[1]


def _on_colours(image: Image.Image, change: Callable[..., Image.Image], *args: Any) -> Image.Image:
    """What is changed but for alpha."""
    if image.mode != "RGBA":
        return change(image, *args)
    made = change(image.convert("RGB"), *args)
    made.putalpha(image.getchannel("A"))
    return made


def _solarize_add(image: Image.Image, add: int, threshold: float) -> Image.Image:
    """timm's."""
    table = [max(0, min(255, value + add)) if value < threshold else value for value in range(256)]
    return image.point(table * len(image.getbands()))


def _look_up(image: Image.Image, table: tuple[Any, ...]) -> Image.Image:
    return image.point(list(np.ravel(table)) if isinstance(table[0], tuple) else list(table) * len(image.getbands()))


def _of_each(image: Image.Image, change: Callable[[list[np.ndarray]], list[np.ndarray]]) -> Image.Image:
    """What is made of red, green and blue; alpha stays. A gray picture has the same in each, and keeps the first."""
    pixels = np.asarray(image)
    made = change([pixels] * 3 if pixels.ndim == 2 else [pixels[:, :, k] for k in range(3)])
    if pixels.ndim == 2:
        return Image.fromarray(made[0])
    return Image.fromarray(np.dstack([*made, *(pixels[:, :, k] for k in range(3, pixels.shape[2]))]))
