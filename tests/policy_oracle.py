"""torchvision's _apply_op and timm's operations, in PIL alone; and policies, drawn in pure Python.

Pillow and Pillow-SIMD make the same of them, but for gray, which Pillow-SIMD rounds otherwise: it is spelled out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import xxhash
from PIL import Image, ImageEnhance, ImageOps
from tone_oracle import to_gray
from variates_oracle import draw, drawn_level, fold, mix

from toolkit._native.image.program import DrawnLevel
from toolkit.pipelines.conditions import Branch
from toolkit.pipelines.draw_names import draw_names
from toolkit.pipelines.image.channels import Grayscale
from toolkit.pipelines.image.policies.aug_mix import AugMix
from toolkit.pipelines.image.policies.policy import Policy
from toolkit.pipelines.image.tone import Autocontrast, Equalize, Invert, SolarizeAdd
from toolkit.pipelines.image.warps import TranslateX, TranslateY, Unit, WarpStep
from toolkit.pipelines.step import Step

FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
}
FACTORS: dict[str, Any] = {
    "Brightness": ImageEnhance.Brightness,
    "Color": ImageEnhance.Color,
    "Contrast": ImageEnhance.Contrast,
    "Sharpness": ImageEnhance.Sharpness,
}


def apply_op(image: Image.Image, word: str, magnitude: float, filter: str = "nearest", fill: Any = 0) -> Image.Image:
    """Return what torchvision makes of a picture by an operation of its policies."""
    if word == "Color":  # spelled out, for Pillow-SIMD rounds gray otherwise
        gray = to_gray(image)
        start = gray if image.mode == "L" else Image.merge("RGB", (gray, gray, gray))
        return Image.blend(start, image, 1.0 + magnitude)
    if word in FACTORS:
        return FACTORS[word](image).enhance(1.0 + magnitude)  # type: ignore[no-any-return]
    match word:
        case "ShearX":
            shear = math.tan(math.radians(math.degrees(math.atan(magnitude))))
            return _affine(image, (1.0, shear, 0.0, 0.0, 1.0, 0.0), filter, fill)
        case "ShearY":
            # With torchvision's matrix, which isn't quite (1, 0, 0, shear, 1, 0).
            angle = math.radians(math.degrees(math.atan(magnitude)))
            a, c = math.cos(-angle) / math.cos(angle), math.sin(-angle) / math.cos(angle)
            return _affine(image, (1.0, 0.0, 0.0, -c, a, 0.0), filter, fill)
        case "TranslateX":
            return _affine(image, (1.0, 0.0, float(-int(magnitude)), 0.0, 1.0, 0.0), filter, fill)
        case "TranslateY":
            return _affine(image, (1.0, 0.0, 0.0, 0.0, 1.0, float(-int(magnitude))), filter, fill)
        case "Rotate":
            return image.rotate(magnitude, FILTERS[filter], fillcolor=_fill(image, fill))
        case "Posterize":
            mask = ~(2 ** (8 - int(magnitude)) - 1)
            return image.point([value & mask & 255 for value in range(256)] * len(image.getbands()))
        case "Solarize":
            return ImageOps.solarize(image, magnitude)  # type: ignore[arg-type]
        case "AutoContrast":
            return ImageOps.autocontrast(image)
        case "Equalize":
            return ImageOps.equalize(image)
        case "Invert":
            return ImageOps.invert(image)
    assert word == "Identity"
    return image


def apply_timm(image: Image.Image, word: str, value: float, filter: str, fill: Any) -> Image.Image:
    """Return what timm makes of a picture by an operation, whose argument is `value`."""
    kind = word.removesuffix("Increasing")
    width, height = image.size
    match kind:
        case "ShearX":
            return _affine(image, (1.0, value, 0.0, 0.0, 1.0, 0.0), filter, fill)
        case "ShearY":
            return _affine(image, (1.0, 0.0, 0.0, value, 1.0, 0.0), filter, fill)
        case "TranslateXRel":
            return _affine(image, (1.0, 0.0, value * width, 0.0, 1.0, 0.0), filter, fill)
        case "TranslateYRel":
            return _affine(image, (1.0, 0.0, 0.0, 0.0, 1.0, value * height), filter, fill)
        case "SolarizeAdd":
            lut = [min(255, each + int(value)) if each < 128 else each for each in range(256)]
            return image.point(lut * len(image.getbands()))
    return apply_op(image, kind, value - 1.0 if kind in FACTORS else value, filter, fill)


def _affine(image: Image.Image, matrix: tuple[float, ...], filter: str, fill: Any) -> Image.Image:
    return image.transform(image.size, Image.Transform.AFFINE, matrix, FILTERS[filter], fillcolor=_fill(image, fill))


def _fill(image: Image.Image, fill: Any) -> Any:
    return (fill,) * 3 if image.mode == "RGB" and isinstance(fill, int) else fill


# --- policies, drawn in pure Python ---------------------------------------------------------------------------------

NAMES = {"Saturation": "Color", "Autocontrast": "AutoContrast"}  # torchvision's of steps, where they differ
Leaf = tuple[Step, int]


def key_of(key: int, name: str) -> int:
    """Return what a step of that draw name draws from; `key` is the sample's."""
    return fold(key, xxhash.xxh3_64_intdigest(name.encode()))


def drawn_leaves(steps: tuple[Step, ...], key: int, path: str = "") -> list[Leaf]:
    """Return the steps that a picture passes through, each with the key that it draws from."""
    leaves: list[Leaf] = []
    for step, name in zip(steps, draw_names(steps, path), strict=True):
        own = key_of(key, name)
        if isinstance(step, Branch) and not isinstance(step, AugMix):
            way = next((i for i, limit in enumerate(step.limits_of_ways) if draw(own, 0) < limit), None)
            if way is not None:
                leaves += drawn_leaves(step.ways[way], key, f"{name}/{step.path(way)}")
        else:
            leaves.append((step, own))
    return leaves


def drawn_chains(policy: AugMix, key: int) -> list[list[Leaf]]:
    """Return what each chain of the first aug_mix of a slot runs."""
    return [drawn_leaves(way, key, f"AugMix#0/{i}/") for i, way in enumerate(policy.ways)]


def magnitude_of(leaf: Leaf, side: tuple[int, int] = (0, 0)) -> float:
    """Return torchvision's magnitude of an operation; `side`: the picture's width and height."""
    step, own = leaf
    fields = {"Rotate": "degrees", "Posterize": "bits", "Solarize": "threshold", "SolarizeAdd": "add"}
    usual = "factor" if hasattr(step, "mirror") else "magnitude"
    value = getattr(step, fields.get(type(step).__name__, usual))
    if isinstance(value, DrawnLevel):
        value = drawn_level(own, *value)
    elif isinstance(value, tuple):
        assert value[0] == value[1]
        value = value[0]
    if getattr(step, "mirror", False) and draw(own, 2) < 0.5:
        value = 2.0 - value
    if getattr(step, "random_sign", False) and draw(own, 1) < 0.5:
        value = -value
    if isinstance(step, (TranslateX, TranslateY)) and step.unit is Unit.FRACTION:
        value *= side[isinstance(step, TranslateY)]
    return float(value)


def apply_leaf(image: Image.Image, leaf: Leaf) -> Image.Image:
    """Return what an operation makes of a picture."""
    step, _ = leaf
    word = NAMES.get(type(step).__name__, type(step).__name__)
    if isinstance(step, (Autocontrast, Equalize, Invert)):
        return apply_op(image, word, 0.0)
    if isinstance(step, Grayscale):
        return Image.merge("RGB", (to_gray(image),) * 3)
    magnitude = magnitude_of(leaf, image.size)
    if isinstance(step, SolarizeAdd):
        return apply_timm(image, word, magnitude, "nearest", 0)
    if word in FACTORS:
        return apply_op(image, word, magnitude - 1.0)
    if isinstance(step, (TranslateX, TranslateY)):  # torchvision's sign, and timm's parts of pixels
        moved = float(int(magnitude)) if step.whole else magnitude
        matrix = (1.0, 0.0, -moved, 0.0, 1.0, 0.0) if word == "TranslateX" else (1.0, 0.0, 0.0, 0.0, 1.0, -moved)
        return _affine(image, matrix, step.filter.value, step.fill)
    if isinstance(step, WarpStep):
        return apply_op(image, word, magnitude, step.filter.value, step.fill)
    return apply_op(image, word, magnitude)


def apply_policy(image: Image.Image, policy: Policy, key: int) -> Image.Image:
    """Return what the first such policy of a slot makes of a picture."""
    if not isinstance(policy, AugMix):
        for leaf in drawn_leaves((policy,), key):
            image = apply_leaf(image, leaf)
        return image
    made = []
    for chain in drawn_chains(policy, key):
        of_chain = image
        for leaf in chain:
            of_chain = apply_leaf(of_chain, leaf)
        made.append(np.asarray(of_chain))
    return Image.fromarray(mix(key_of(key, "AugMix#0"), policy.alpha, np.asarray(image), made))
