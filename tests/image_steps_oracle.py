"""What the steps of an image slot mean, said with PIL, numpy and Python's integers, one step after the other.

Randomness is generator version 2 in pure Python. Resize and gray are spelled out, so that they hold whichever PIL is
installed.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import filters_oracle
import image_steps as steps
import numpy as np
import tone_oracle
import warp_oracle
import xxhash
from PIL import Image, ImageOps
from pillow_resample import Box, resize, resize_rgba
from variates_oracle import mix

from toolkit.pipelines.conditions import Maybe, OneOf
from toolkit.pipelines.step import Step, plain

MASK = (1 << 64) - 1


def fold(state: int, part: int) -> int:
    x = (state + part + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


class Draws:
    """The numbers that one step draws for one sample.

    Attributes:
        key: The sample's, folded with the step's id.
    """

    def __init__(self, key: int, step: steps.ImageStep, ordinal: int) -> None:
        self.key = fold(key, xxhash.xxh3_64_intdigest(f"{type(step).__name__}#{ordinal}".encode()))

    def __getitem__(self, k: int) -> float:
        return (fold(self.key, k) >> 11) * 2.0**-53


def apply(image: Image.Image, chain: Sequence[steps.ImageStep], key: int = 0) -> np.ndarray:
    """Return uint8 (height, width, channels): what the steps before normalize, cast and layout make of a picture."""
    pixels = np.asarray(_apply_chain(image, chain, key))
    return pixels[:, :, None] if pixels.ndim == 2 else pixels


def _apply_chain(image: Image.Image, chain: Sequence[Step], key: int, path: str = "") -> Image.Image:
    seen: Counter[str] = Counter()
    for step in chain:
        kind = type(step).__name__
        name = f"{path}{kind}#{seen[kind]}" if step.name is None else f'{path}{kind}="{step.name}"'
        seen[kind] += step.name is None
        u = KeyedDraws(key, xxhash.xxh3_64_intdigest(name.encode()))
        match step:
            case Maybe(inner, p):
                image = _apply_chain(image, inner, key, f"{name}/") if u[0] < p else image
            case OneOf(ways, weights):
                shares = np.cumsum(weights or [1] * len(ways)) / sum(weights or [1] * len(ways))
                way = next(i for i, share in enumerate(shares) if u[0] < share)
                image = _apply_chain(image, ways[way], key, f"{name}/{way}/")
            case _:
                image = _apply(image, step, u)
    return image


def _apply(image: Image.Image, step: Step, u: Draws) -> Image.Image:
    width, height = image.size
    match step:
        case steps.Resize(to_height, to_width, filter):
            return _resize(image, to_height, to_width, filter)
        case steps.ResizeShort(size, filter):
            long = int(size * max(width, height) / min(width, height))
            return _resize(image, *((long, size) if width <= height else (size, long)), filter)
        case steps.ResizeLong(size, filter):
            short = max(1, int(size * min(width, height) / max(width, height)))
            return _resize(image, *((size, short) if width <= height else (short, size)), filter)
        case steps.Cover(to_height, to_width, filter):
            return _resize(image, to_height, to_width, filter, _middle(width, height, to_width / to_height))
        case steps.Contain(to_height, to_width, is_padded, fill, filter):
            image = _resize(image, *_contained(height, width, to_height, to_width), filter)
            if not is_padded:
                return image
            made = Image.new(image.mode, (to_width, to_height), _fill(image, fill))
            made.paste(image, (round((to_width - image.width) * 0.5), round((to_height - image.height) * 0.5)))
            return made
        case steps.Thumbnail(to_height, to_width, filter):
            thumbnail = Image.new("1", (width, height))
            thumbnail.thumbnail((to_width, to_height), reducing_gap=None)
            return _resize(image, thumbnail.height, thumbnail.width, filter)
        case steps.ScaleJitter(to_height, to_width, (low, high), filter):
            r = min(to_height / height, to_width / width) * (low + u[0] * (high - low))
            return _resize(image, max(1, int(height * r)), max(1, int(width * r)), filter)
        case steps.Crop(top, left, crop_h, crop_w):
            return image.crop((left, top, left + crop_w, top + crop_h))
        case steps.CenterCrop(crop_h, crop_w, halves):
            image = _grow(image, crop_h, crop_w)
            half = math.floor if plain(halves) == "down" else round
            top, left = half((image.height - crop_h) / 2.0), half((image.width - crop_w) / 2.0)
            return image.crop((left, top, left + crop_w, top + crop_h))
        case steps.RandomCrop(crop_h, crop_w):
            image = _grow(image, crop_h, crop_w)
            top, left = int(u[0] * (image.height - crop_h + 1)), int(u[1] * (image.width - crop_w + 1))
            return image.crop((left, top, left + crop_w, top + crop_h))
        case steps.RandomResizedCrop(to_height, to_width, scale, ratio, filter):
            top, left, h, w = _part(height, width, scale, ratio, u)
            return _resize(image.crop((left, top, left + w, top + h)), to_height, to_width, filter)
        case steps.Pad(top, left, bottom, right, fill):
            made = Image.new(image.mode, (width + left + right, height + top + bottom), _fill(image, fill))
            made.paste(image, (left, top))
            return made
        case steps.HFlip(p):
            return ImageOps.mirror(image) if u[0] < p else image
        case steps.VFlip(p):
            return ImageOps.flip(image) if u[0] < p else image
        case steps.ColorJitter():
            return _jitter(image, step, u)
        case steps.Grayscale(channels, p):
            gray = tone_oracle.to_gray(image)
            if u[0] >= p:
                return image.convert("RGB")
            return gray if channels == 1 else Image.merge("RGB", (gray, gray, gray))
        case _ if isinstance(step, filters_oracle.FILTERS):
            return filters_oracle.apply(image, step, u)
        case _ if isinstance(step, warp_oracle.WARPS):
            return warp_oracle.apply(image, step, u)
        case _ if isinstance(step, tone_oracle.TONES):
            return tone_oracle.apply(image, step, u)
        case _:
            raise AssertionError(step)


def _fill(image: Image.Image, fill: int) -> int | tuple[int, ...]:
    return fill if image.mode == "L" else (fill,) * len(image.getbands())


def _resize(image: Image.Image, height: int, width: int, filter: steps.Filter, box: Box | None = None) -> Image.Image:
    pixels = np.asarray(image)
    if image.mode == "RGBA":
        return Image.fromarray(resize_rgba(pixels, width, height, filter.value, box))
    if image.mode == "L":
        return Image.fromarray(resize(pixels[:, :, None], width, height, filter.value, box)[:, :, 0])
    return Image.fromarray(resize(pixels, width, height, filter.value, box))


def _middle(width: int, height: int, ratio: float) -> Box:
    """The box of ImageOps.fit."""
    w, h = float(width), float(height)
    if width / height > ratio:
        w = ratio * height
    elif width / height < ratio:
        h = width / ratio
    left, top = (width - w) * 0.5, (height - h) * 0.5
    return left, top, left + w, top + h


def _contained(height: int, width: int, to_height: int, to_width: int) -> tuple[int, int]:
    """The size of ImageOps.contain, but at least 1."""
    if width / height > to_width / to_height:
        return max(1, round(height / width * to_width)), to_width
    if width / height < to_width / to_height:
        return to_height, max(1, round(width / height * to_height))
    return to_height, to_width


def _grow(image: Image.Image, height: int, width: int) -> Image.Image:
    down, right = max(height - image.height, 0), max(width - image.width, 0)
    made = Image.new(image.mode, (image.width + right, image.height + down), _fill(image, 0))
    made.paste(image, (right // 2, down // 2))
    return made


def _part(
    height: int, width: int, scale: tuple[float, float], ratio: tuple[float, float], u: Draws
) -> tuple[int, int, int, int]:
    for a in range(10):
        area = height * width * (scale[0] + (scale[1] - scale[0]) * u[4 * a])
        log_low, log_high = math.log(ratio[0]), math.log(ratio[1])
        shape = math.exp(log_low + (log_high - log_low) * u[4 * a + 1])
        w, h = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < w <= width and 0 < h <= height:
            return int(u[4 * a + 2] * (height - h + 1)), int(u[4 * a + 3] * (width - w + 1)), h, w
    w, h = width, height
    if width / height < ratio[0]:
        h = min(max(round(width / ratio[0]), 1), height)
    elif width / height > ratio[1]:
        w = min(max(round(height * ratio[1]), 1), width)
    return (height - h) // 2, (width - w) // 2, h, w


def _jitter(image: Image.Image, step: steps.ColorJitter, u: Draws) -> Image.Image:
    ranges = (step.brightness, step.contrast, step.saturation, step.hue)
    order = list(itertools.permutations(range(4)))[int(u[4] * 24)]
    for which in order:
        span = ranges[which]
        if span is None:
            continue
        factor = span[0] + (span[1] - span[0]) * u[which]
        image = turn_hue(image, factor) if which == 3 else tone_oracle.enhance(image, which, factor)
    return image


def turn_hue(image: Image.Image, factor: float) -> Image.Image:
    """torchvision's adjust_hue on a PIL image; alpha stays."""
    if image.mode == "L":
        return image
    hue, saturation, value = image.convert("RGB").convert("HSV").split()
    turned = np.asarray(hue) + np.array(int(factor * 255) & 255, np.uint8)
    made = Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")
    if image.mode == "RGBA":
        made.putalpha(image.getchannel("A"))
    return made


OPS = {
    "resize": steps.Resize,
    "resize_short": steps.ResizeShort,
    "resize_long": steps.ResizeLong,
    "cover": steps.Cover,
    "contain": steps.Contain,
    "thumbnail": steps.Thumbnail,
    "scale_jitter": steps.ScaleJitter,
    "crop": steps.Crop,
    "center_crop": steps.CenterCrop,
    "random_crop": steps.RandomCrop,
    "random_resized_crop": steps.RandomResizedCrop,
    "pad": steps.Pad,
    "hflip": steps.HFlip,
    "vflip": steps.VFlip,
    "color_jitter": steps.ColorJitter,
    "grayscale": steps.Grayscale,
    "sharpness": steps.Sharpness,
    **{kind.word: kind for kind in tone_oracle.TONES},
}


class KeyedDraws(Draws):
    """The numbers that a step or a branch draws by its id."""

    def __init__(self, key: int, step_id: int) -> None:
        self.key = fold(key, step_id)


def apply_ops(image: Image.Image, ops: Sequence[tuple[Any, ...]], key: int = 0) -> Image.Image:
    """Return what steps in the native form make of a picture, branches included."""
    for name, fields, *ways in ops:
        u = KeyedDraws(key, fields.get("id", 0))
        if name in ("maybe", "one_of"):
            way = next((i for i, limit in enumerate(fields["limits"]) if u[0] < limit), None)
            image = image if way is None else apply_ops(image, ways[0][way], key)
        elif name == "mix":
            made = [np.asarray(apply_ops(image, chain, key)) for chain in ways[0]]
            image = Image.fromarray(mix(fold(key, fields["id"]), fields["alpha"], np.asarray(image), made))
        else:
            given = {field: value for field, value in fields.items() if field != "id"}
            if "filter" in given:
                given["filter"] = steps.Filter(given["filter"])
            image = _apply(image, OPS[name](**given), u)
    return image
