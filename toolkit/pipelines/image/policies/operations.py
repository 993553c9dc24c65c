"""Make steps of the operations that the tables of policies name."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolkit._native.image.program import DrawnLevel
from toolkit.pipelines.conditions import OneOf
from toolkit.pipelines.image.colour import Brightness, Contrast, Saturation, Sharpness
from toolkit.pipelines.image.policies.tables import Bits, Even, Level, Scale
from toolkit.pipelines.image.tone import Autocontrast, Equalize, Invert, Posterize, Solarize, SolarizeAdd
from toolkit.pipelines.image.warps import Fill, Rotate, ShearX, ShearY, Take, TranslateX, TranslateY, Unit
from toolkit.pipelines.step import Step

__all__ = ["Sampling", "Warping", "Way", "any_bin", "at_bin", "at_level", "magnitudes", "one_of"]

Way = tuple[Step, ...]
_Magnitude = tuple[float, float] | DrawnLevel
# Whole pixels are cut off of a share of a side: shares are made this much larger, so that 45 doesn't become 44.999.
_UP = 1.0 + 1e-9
_FACTORS: dict[str, Callable[..., Step]] = {
    "brightness": Brightness,
    "color": Saturation,
    "contrast": Contrast,
    "sharpness": Sharpness,
}
_SHEARS: dict[str, Callable[..., Step]] = {"shear_x": ShearX, "shear_y": ShearY}
_TURNS: dict[str, Callable[..., Step]] = {"rotate": Rotate}
_MOVES: dict[str, Callable[..., Step]] = {"translate_x": TranslateX, "translate_y": TranslateY}
_PLAIN: dict[str, Callable[..., Step]] = {"autocontrast": Autocontrast, "equalize": Equalize, "invert": Invert}
_BY_TABLE: dict[str, Callable[..., Step]] = {
    "posterize": Posterize,
    "solarize": Solarize,
    "solarize_add": SolarizeAdd,
}


class Sampling(enum.Enum):
    """How the operations of a policy that move pixels take them. RANDOM: bilinear or bicubic, either as likely."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    RANDOM = "random"


@dataclass(frozen=True, slots=True)
class Warping:
    """How the operations that move pixels take them, and what lies outside the picture."""

    sampling: Sampling
    fill: Fill


def magnitudes(scale: Even | Bits, bins: int) -> list[float]:
    """Return the magnitude of each bin, as torchvision's tensors hold them: float32, or whole bits.

    They are torch.linspace's as every x86 processor with FMA has them: products are added before they are rounded.
    Those of a share of the picture's side are float64: what torchvision cuts whole pixels off depends on the side.
    """
    numbers = np.arange(bins)
    if isinstance(scale, Bits):
        fewer = numbers.astype(np.float32) / np.float32((bins - 1) / (scale.most - scale.least))
        return [float(scale.most - int(each)) for each in np.round(fewer)]
    if scale.of_side:
        return [scale.first + (scale.last - scale.first) * int(i) / (bins - 1) for i in numbers]
    first, last = np.float32(scale.first), np.float32(scale.last)
    step = float((last - first) / np.float32(bins - 1))
    exact = np.where(numbers < bins // 2, first + step * numbers, last - step * (bins - 1 - numbers))
    return [float(each) for each in exact.astype(np.float32)]


def at_bin(word: str, scale: Scale, number: int, bins: int, warping: Warping) -> Way:
    """Return the operation with the magnitude of a bin, of either sign where it has one."""
    if scale is None:
        return _plain(word)
    magnitude = magnitudes(scale, bins)[number]
    if word in _FACTORS:
        magnitude += 1.0
    of_side = isinstance(scale, Even) and scale.of_side
    if of_side:
        magnitude *= _UP
    signed = isinstance(scale, Even) and scale.signed
    unit = Unit.FRACTION if of_side else Unit.PIXELS
    return _operation(word, (magnitude, magnitude), signed, warping, {"unit": unit, "whole": True})


def any_bin(word: str, scale: Scale, numbers: int, bins: int, warping: Warping) -> Way:
    """Return the operation with the magnitude of one of the first bins, each as likely."""
    if scale is None:
        return _plain(word)
    return one_of(at_bin(word, scale, number, bins, warping) for number in range(numbers))


def at_level(word: str, level: Level | None, magnitude: float, deviation: float, warping: Warping) -> Way:
    """Return timm's operation at a level of 0 to 10, which has a normal deviation, of either sign where it has one."""
    if level is None:
        return _plain(word)
    drawn: _Magnitude
    if deviation > 0:
        drawn = DrawnLevel(magnitude, deviation, level.start, level.change, level.whole)
    else:
        change = magnitude / 10.0 * level.change
        value = level.start + (int(change) if level.whole else change)
        drawn = (value, value)
    return _operation(word, drawn, level.signed, warping, {"unit": Unit.FRACTION, "whole": False})


def one_of(ways: Iterable[Way]) -> Way:
    """Return one of the ways, each as likely as the others."""
    branches = tuple(ways)
    return branches[0] if len(branches) == 1 else (OneOf(branches=branches),)


def _plain(word: str) -> Way:
    return () if word == "identity" else (_PLAIN[word](),)


def _operation(word: str, magnitude: _Magnitude, signed: bool, warping: Warping, moved: dict[str, Any]) -> Way:
    if word in _FACTORS:
        return (_FACTORS[word](factor=magnitude, mirror=signed),)
    if word in _BY_TABLE:
        return (_BY_TABLE[word](magnitude),)
    filters = [Take.BILINEAR, Take.BICUBIC]
    if warping.sampling is not Sampling.RANDOM:
        filters = [Take(warping.sampling.value)]
    return one_of((_warp(word, magnitude, signed, filter, warping.fill, moved),) for filter in filters)


def _warp(word: str, magnitude: _Magnitude, signed: bool, filter: Take, fill: Fill, moved: dict[str, Any]) -> Step:
    if word in _TURNS:
        return _TURNS[word](degrees=magnitude, random_sign=signed, filter=filter, fill=fill)
    if word in _MOVES:
        return _MOVES[word](magnitude=magnitude, random_sign=signed, filter=filter, fill=fill, **moved)
    return _SHEARS[word](magnitude=magnitude, random_sign=signed, filter=filter, fill=fill)
