"""Steps that look at each pixel's neighbours: sharpness.

Each keeps the size, and works on every channel alike unless it says otherwise; a fourth channel is alpha.
"""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any

from toolkit.pipelines import fields
from toolkit.pipelines.check import a_number, a_pair
from toolkit.pipelines.image.image_step import PixelStep, pixels
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State

__all__ = ["Sharpness"]


def _number_or_pair(least: float, most: float, default: Any = MISSING, *, keyword: bool = False) -> Any:
    """Declare (low, high) of what is drawn between; one number is both."""

    def check(name: str, value: Any) -> tuple[float, float]:
        if isinstance(value, (tuple, list)):
            return a_pair(name, value, least=least, most=most)
        value = a_number(name, value, least=least, most=most)
        return value, value

    return fields.argument(check, "float | tuple[float, float]", default, keyword=keyword, least=least, most=most)


class _Filter(PixelStep):
    """A step that makes a new picture of the whole one, with probability `p`."""

    __slots__ = ()

    def after(self, state: State) -> State:
        """Leave the size."""
        pixels(state)
        return state

    @property
    def draws(self) -> bool:
        """Whether it happens, and how strongly."""
        return True

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, on the whole picture"


@register
class Sharpness(_Filter):
    """Blend with a smoothed picture, or away from it: PIL.ImageEnhance.Sharpness, torchvision's adjust_sharpness.

    Factor 0 is the picture smoothed by PIL.ImageFilter.SMOOTH (the border stays), 1 the picture itself, and 2 one
    that is as much sharper. It happens when u0 < p, with factor = low + (high - low) * u1. With `mirror` that
    becomes 2 - factor when u2 < 0.5: 1 + m or 1 - m, as RandAugment draws them. Alpha stays.

    Args:
        factor: The factor, or (low, high) to draw it from.
        mirror: Whether to take 2 - factor half the time.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "sharpness"
    factor: tuple[float, float] = _number_or_pair(0.0, 1e6)
    mirror: bool = fields.flag(False, keyword=True)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()
