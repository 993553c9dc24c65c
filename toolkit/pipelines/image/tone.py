"""Steps that change each value by a table: of their parameters, or of the picture's histogram.

Each channel goes by itself; alpha stays. Tables that follow each other are one for the kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number, an_int
from toolkit.pipelines.image.image_step import ColourStep, colours, pixels
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State

__all__ = ["Autocontrast", "Equalize", "Gamma", "Invert", "Lut", "Posterize", "Solarize", "SolarizeAdd"]


def _cutoff(name: str, value: Any) -> tuple[float, float]:
    ends = value if isinstance(value, (tuple, list)) else (value, value)
    if len(ends) != 2:
        raise BadArgumentError(f"{name} must be a number or (darkest, lightest), got {short(value, 80, quoted=True)}")
    darkest, lightest = (a_number(name, end, least=0, most=100) for end in ends)
    return darkest, lightest


def _table(name: str, value: Any) -> tuple[int, ...] | tuple[tuple[int, ...], ...]:
    """Return 256 values, or 256 for each of three channels. numpy arrays will do."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    if not isinstance(value, Sequence) or isinstance(value, (str, bytearray)) or len(value) not in (3, 256):
        raise BadArgumentError(f"{name} must be 256 values, or 3 times 256, got {short(value, 80, quoted=True)}")
    if len(value) == 256:
        return tuple(an_int(f"value {i} of {name}", each, least=0, most=255) for i, each in enumerate(value))
    if any(not isinstance(each, Sequence) or isinstance(each, str) or len(each) != 256 for each in value):
        raise BadArgumentError(f"{name} must be 256 values, or 3 times 256, got {short(value, 80, quoted=True)}")
    return tuple(
        tuple(an_int(f"value {i} of {name}[{c}]", each, least=0, most=255) for i, each in enumerate(channel))
        for c, channel in enumerate(value)
    )


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


@register
class Gamma(ColourStep):
    """Bend values by a power: torchvision's adjust_gamma, floor(255.999 * gain * (value / 255)^gamma), 255 at most.

    It happens when u0 < p, with gamma = low + (high - low) * u1.

    Args:
        gamma: The exponent, or (low, high) to draw it from; above 1 it makes shadows darker.
        gain: What the result is multiplied by.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "gamma"
    ranges: ClassVar = ("gamma",)
    gamma: float | tuple[float, float] = fields.number_or_pair(least=0, most=1e3)
    gain: float = fields.number(1.0, least=0, most=1e3)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()


@register
class Lut(ColourStep):
    """Look each value up in a table: PIL's Image.point. It happens when u0 < p.

    Args:
        table: What becomes of values 0 to 255: 256 ints, or three times 256 for red, green and blue; a numpy
            array will do.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "lut"
    table: tuple[int, ...] | tuple[tuple[int, ...], ...] = fields.argument(
        _table, "Sequence[int] | Sequence[Sequence[int]]", least=0, most=255
    )
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    def after(self, state: State) -> State:
        """Leave the size. One table a channel needs colours."""
        if isinstance(self.table[0], tuple):
            colours(state, alpha=True)
        pixels(state)
        return state

    def kernel(self) -> dict[str, Any]:
        """Return three tables, one behind the other."""
        table = np.array(self.table, dtype=np.float64).reshape(-1, 256)
        return {"table": np.broadcast_to(table, (3, 256)).ravel().tolist(), "p": self.p}
