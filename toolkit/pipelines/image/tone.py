"""Steps that change each value by a table: of their parameters, or of the picture's histogram.

Each channel goes by itself; alpha stays. Tables that follow each other are one for the kernels.
"""

from __future__ import annotations

from typing import Any, ClassVar

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number
from toolkit.pipelines.image.image_step import ColourStep
from toolkit.pipelines.registry import register

__all__ = ["Autocontrast", "Equalize", "Invert", "Posterize", "Solarize", "SolarizeAdd"]


def _cutoff(name: str, value: Any) -> tuple[float, float]:
    ends = value if isinstance(value, (tuple, list)) else (value, value)
    if len(ends) != 2:
        raise BadArgumentError(f"{name} must be a number or (darkest, lightest), got {short(value, 80, quoted=True)}")
    darkest, lightest = (a_number(name, end, least=0, most=100) for end in ends)
    return darkest, lightest


@register
class Posterize(ColourStep):
    """Keep the highest bits of each value: PIL.ImageOps.posterize, torchvision's RandomPosterize.

    It happens when u0 < p, with bits = low + floor(u1 * (high - low + 1)).

    Args:
        bits: How many, 1 to 8, or (low, high) to draw from.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "posterize"
    ranges: ClassVar = ("bits",)
    bits: int | tuple[int, int] = fields.whole_or_pair(least=1, most=8)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()


@register
class Solarize(ColourStep):
    """Invert values of `threshold` or more: PIL.ImageOps.solarize, torchvision's RandomSolarize.

    It happens when u0 < p, with threshold = low + (high - low) * u1.

    Args:
        threshold: The least value that is inverted, or (low, high) to draw it from; above 255 there is none.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "solarize"
    ranges: ClassVar = ("threshold",)
    threshold: float | tuple[float, float] = fields.number_or_pair(128.0, least=0, most=256)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()


@register
class SolarizeAdd(ColourStep):
    """Add to values below `threshold`, up to 255: solarize_add of timm's RandAugment.

    It happens when u0 < p, with add = low + floor(u1 * (high - low + 1)).

    Args:
        add: What is added, or (low, high) to draw from.
        threshold: The least value that stays.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "solarize_add"
    ranges: ClassVar = ("add",)
    add: int | tuple[int, int] = fields.whole_or_pair(least=-255, most=255)
    threshold: float = fields.number(128.0, least=0, most=256)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()


@register
class Invert(ColourStep):
    """Turn values round, 255 - value: PIL.ImageOps.invert, torchvision's RandomInvert. It happens when u0 < p.

    Args:
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "invert"
    p: float = fields.number(1.0, least=0, most=1)
    name: str | None = fields.draw_name()


@register
class Equalize(ColourStep):
    """Even out the histogram of each channel: PIL.ImageOps.equalize, torchvision's RandomEqualize.

    It happens when u0 < p.

    Args:
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "equalize"
    p: float = fields.number(1.0, least=0, most=1)
    name: str | None = fields.draw_name()


@register
class Autocontrast(ColourStep):
    """Stretch each channel to go from 0 to 255: PIL.ImageOps.autocontrast, torchvision's RandomAutocontrast.

    It happens when u0 < p.

    Args:
        cutoff: The percentage of the darkest and of the lightest pixels that don't count: one number, or one each.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "autocontrast"
    cutoff: tuple[float, float] = fields.argument(_cutoff, "float | tuple[float, float]", (0.0, 0.0), least=0, most=100)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()
