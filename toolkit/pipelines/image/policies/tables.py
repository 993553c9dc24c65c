"""The tables of published policies: their operations with magnitudes and probabilities.

Magnitudes of rand_augment, auto_augment, trivial_augment_wide and aug_mix are those of torchvision 0.28
(transforms/autoaugment.py), levels those of timm 1.0 (data/auto_augment.py), entry by entry.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = [
    "AUG_MIX",
    "AUG_MIX_MORE",
    "AUTO_AUGMENT",
    "LEARNED",
    "LEARNED_BINS",
    "RAND_AUGMENT",
    "TIMM_DECREASING",
    "TIMM_INCREASING",
    "TRIVIAL_AUGMENT_WIDE",
    "Bits",
    "Even",
    "Learned",
    "Level",
    "Levels",
    "Scale",
    "Space",
]


@dataclass(frozen=True, slots=True)
class Even:
    """Magnitudes in even steps from `first` to `last`; `signed`: of either sign, each as likely as the other.

    `of_side`: in widths or heights of the picture, cut off to whole pixels.
    """

    first: float
    last: float
    signed: bool = False
    of_side: bool = False


@dataclass(frozen=True, slots=True)
class Bits:
    """How many bits of a value are kept: `most` and then fewer, down to `least`."""

    most: int
    least: int


Scale = Even | Bits | None
"""The magnitudes of an operation, a bin each; None: it has none."""
Space = Mapping[str, Scale]
"""The operations of a policy."""


def _space(shear: float, translate: Even, rotate: float, factor: float, bits: Bits) -> dict[str, Scale]:
    """Return the operations that all have, in the order in which they are numbered."""
    return {
        "shear_x": Even(0.0, shear, signed=True),
        "shear_y": Even(0.0, shear, signed=True),
        "translate_x": translate,
        "translate_y": translate,
        "rotate": Even(0.0, rotate, signed=True),
        "brightness": Even(0.0, factor, signed=True),
        "color": Even(0.0, factor, signed=True),
        "contrast": Even(0.0, factor, signed=True),
        "sharpness": Even(0.0, factor, signed=True),
        "posterize": bits,
        "solarize": Even(255.0, 0.0),
        "autocontrast": None,
        "equalize": None,
    }


_BASE = _space(0.3, Even(0.0, 150.0 / 331.0, signed=True, of_side=True), 30.0, 0.9, Bits(8, 4))
RAND_AUGMENT: Space = {"identity": None, **_BASE}
AUTO_AUGMENT: Space = {**_BASE, "invert": None}
TRIVIAL_AUGMENT_WIDE: Space = {"identity": None, **_space(0.99, Even(0.0, 32.0, signed=True), 135.0, 0.99, Bits(8, 2))}
_MORE = ("brightness", "color", "contrast", "sharpness")
_MIX = _space(0.3, Even(0.0, 1.0 / 3.0, signed=True, of_side=True), 30.0, 0.9, Bits(4, 0))
AUG_MIX: Space = {word: scale for word, scale in _MIX.items() if word not in _MORE}
AUG_MIX_MORE: Space = {**AUG_MIX, **{word: _MIX[word] for word in _MORE}}


@dataclass(frozen=True, slots=True)
class Level:
    """What timm makes of a level of 0 to 10: start + level / 10 * change.

    Attributes:
        start, change: Of the magnitude.
        whole: level / 10 * change is cut off to an int.
        signed: Either sign, each as likely as the other.
    """

    start: float
    change: float
    whole: bool = False
    signed: bool = False


Levels = Mapping[str, Level | None]
"""The operations of timm's rand_augment; None: it has no magnitude."""

_FACTOR = Level(0.1, 1.8)
TIMM_DECREASING: Levels = {
    "autocontrast": None,
    "equalize": None,
    "invert": None,
    "rotate": Level(0.0, 30.0, signed=True),
    "posterize": Level(0, 4, whole=True),
    "solarize": Level(0, 256, whole=True),
    "solarize_add": Level(0, 110, whole=True),
    "color": _FACTOR,
    "contrast": _FACTOR,
    "brightness": _FACTOR,
    "sharpness": _FACTOR,
    "shear_x": Level(0.0, 0.3, signed=True),
    "shear_y": Level(0.0, 0.3, signed=True),
    "translate_x": Level(0.0, 0.45, signed=True),
    "translate_y": Level(0.0, 0.45, signed=True),
}
TIMM_INCREASING: Levels = {
    **TIMM_DECREASING,
    "posterize": Level(4, -4, whole=True),
    "solarize": Level(256, -256, whole=True),
    **{word: Level(1.0, 0.9, signed=True) for word in _MORE},
}


class Learned(enum.Enum):
    """A policy of auto_augment, by the dataset that it was learned on."""

    IMAGENET = "imagenet"
    CIFAR10 = "cifar10"
    SVHN = "svhn"


LEARNED_BINS = 10
_Use = tuple[str, float, int]
LEARNED: Mapping[Learned, tuple[tuple[_Use, _Use], ...]] = {
    Learned.IMAGENET: (
        (("posterize", 0.4, 8), ("rotate", 0.6, 9)),
        (("solarize", 0.6, 5), ("autocontrast", 0.6, 0)),
        (("equalize", 0.8, 0), ("equalize", 0.6, 0)),
        (("posterize", 0.6, 7), ("posterize", 0.6, 6)),
        (("equalize", 0.4, 0), ("solarize", 0.2, 4)),
        (("equalize", 0.4, 0), ("rotate", 0.8, 8)),
        (("solarize", 0.6, 3), ("equalize", 0.6, 0)),
        (("posterize", 0.8, 5), ("equalize", 1.0, 0)),
        (("rotate", 0.2, 3), ("solarize", 0.6, 8)),
        (("equalize", 0.6, 0), ("posterize", 0.4, 6)),
        (("rotate", 0.8, 8), ("color", 0.4, 0)),
        (("rotate", 0.4, 9), ("equalize", 0.6, 0)),
        (("equalize", 0.0, 0), ("equalize", 0.8, 0)),
        (("invert", 0.6, 0), ("equalize", 1.0, 0)),
        (("color", 0.6, 4), ("contrast", 1.0, 8)),
        (("rotate", 0.8, 8), ("color", 1.0, 2)),
        (("color", 0.8, 8), ("solarize", 0.8, 7)),
        (("sharpness", 0.4, 7), ("invert", 0.6, 0)),
        (("shear_x", 0.6, 5), ("equalize", 1.0, 0)),
        (("color", 0.4, 0), ("equalize", 0.6, 0)),
        (("equalize", 0.4, 0), ("solarize", 0.2, 4)),
        (("solarize", 0.6, 5), ("autocontrast", 0.6, 0)),
        (("invert", 0.6, 0), ("equalize", 1.0, 0)),
        (("color", 0.6, 4), ("contrast", 1.0, 8)),
        (("equalize", 0.8, 0), ("equalize", 0.6, 0)),
    ),
    Learned.CIFAR10: (
        (("invert", 0.1, 0), ("contrast", 0.2, 6)),
        (("rotate", 0.7, 2), ("translate_x", 0.3, 9)),
        (("sharpness", 0.8, 1), ("sharpness", 0.9, 3)),
        (("shear_y", 0.5, 8), ("translate_y", 0.7, 9)),
        (("autocontrast", 0.5, 0), ("equalize", 0.9, 0)),
        (("shear_y", 0.2, 7), ("posterize", 0.3, 7)),
        (("color", 0.4, 3), ("brightness", 0.6, 7)),
        (("sharpness", 0.3, 9), ("brightness", 0.7, 9)),
        (("equalize", 0.6, 0), ("equalize", 0.5, 0)),
        (("contrast", 0.6, 7), ("sharpness", 0.6, 5)),
        (("color", 0.7, 7), ("translate_x", 0.5, 8)),
        (("equalize", 0.3, 0), ("autocontrast", 0.4, 0)),
        (("translate_y", 0.4, 3), ("sharpness", 0.2, 6)),
        (("brightness", 0.9, 6), ("color", 0.2, 8)),
        (("solarize", 0.5, 2), ("invert", 0.0, 0)),
        (("equalize", 0.2, 0), ("autocontrast", 0.6, 0)),
        (("equalize", 0.2, 0), ("equalize", 0.6, 0)),
        (("color", 0.9, 9), ("equalize", 0.6, 0)),
        (("autocontrast", 0.8, 0), ("solarize", 0.2, 8)),
        (("brightness", 0.1, 3), ("color", 0.7, 0)),
        (("solarize", 0.4, 5), ("autocontrast", 0.9, 0)),
        (("translate_y", 0.9, 9), ("translate_y", 0.7, 9)),
        (("autocontrast", 0.9, 0), ("solarize", 0.8, 3)),
        (("equalize", 0.8, 0), ("invert", 0.1, 0)),
        (("translate_y", 0.7, 9), ("autocontrast", 0.9, 0)),
    ),
    Learned.SVHN: (
        (("shear_x", 0.9, 4), ("invert", 0.2, 0)),
        (("shear_y", 0.9, 8), ("invert", 0.7, 0)),
        (("equalize", 0.6, 0), ("solarize", 0.6, 6)),
        (("invert", 0.9, 0), ("equalize", 0.6, 0)),
        (("equalize", 0.6, 0), ("rotate", 0.9, 3)),
        (("shear_x", 0.9, 4), ("autocontrast", 0.8, 0)),
        (("shear_y", 0.9, 8), ("invert", 0.4, 0)),
        (("shear_y", 0.9, 5), ("solarize", 0.2, 6)),
        (("invert", 0.9, 0), ("autocontrast", 0.8, 0)),
        (("equalize", 0.6, 0), ("rotate", 0.9, 3)),
        (("shear_x", 0.9, 4), ("solarize", 0.3, 3)),
        (("shear_y", 0.8, 8), ("invert", 0.7, 0)),
        (("equalize", 0.9, 0), ("translate_y", 0.6, 6)),
        (("invert", 0.9, 0), ("equalize", 0.6, 0)),
        (("contrast", 0.3, 3), ("rotate", 0.8, 4)),
        (("invert", 0.8, 0), ("translate_y", 0.0, 2)),
        (("shear_y", 0.7, 6), ("solarize", 0.4, 8)),
        (("invert", 0.6, 0), ("rotate", 0.8, 4)),
        (("shear_y", 0.3, 7), ("translate_x", 0.9, 3)),
        (("shear_x", 0.1, 6), ("invert", 0.6, 0)),
        (("solarize", 0.7, 2), ("translate_y", 0.6, 7)),
        (("shear_y", 0.8, 4), ("invert", 0.8, 0)),
        (("shear_x", 0.7, 9), ("translate_y", 0.8, 3)),
        (("shear_y", 0.8, 5), ("autocontrast", 0.7, 0)),
        (("shear_x", 0.7, 2), ("invert", 0.1, 0)),
    ),
}
"""Of each policy its pairs of operations, each with its probability and bin of AUTO_AUGMENT."""
