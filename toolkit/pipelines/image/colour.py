"""Steps that enhance as PIL.ImageEnhance does, alone or, as color_jitter, one after the other."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number, a_pair
from toolkit.pipelines.image.image_step import ColourStep, PixelStep, colours
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State

__all__ = ["Brightness", "ColorJitter", "Contrast", "Saturation", "Sharpness"]


def _jitter(middle: float, *, least: float, most: float) -> Any:
    """Declare the range of what is drawn, or None; one number says how far it goes from the middle."""

    def check(name: str, value: Any) -> tuple[float, float] | None:
        return None if value is None else a_pair(name, _around(name, value, middle, least), least=least, most=most)

    annotation = "float | tuple[float, float] | None"
    return fields.argument(check, annotation, None, keyword=True, least=least, most=most)


def _around(name: str, value: object, middle: float, least: float) -> object:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = a_number(name, value)
        if value < 0:
            raise BadArgumentError(f"{name} must be 0 or more, got {short(value, 80, quoted=True)}")
        return max(least, middle - value), middle + value
    return value


@register
class ColorJitter(PixelStep):
    """Change brightness, contrast, saturation and hue, in random order: torchvision's ColorJitter on PIL images.

    Factor i = low + (high - low) * u[i]; the order is permutation number floor(u4 * 24) of the four in
    itertools.permutations' order. Brightness, contrast and saturation are PIL.ImageEnhance's; hue is torchvision's
    adjust_hue through PIL's 8-bit HSV. None leaves alone.

    Args:
        brightness, contrast, saturation: (low, high) of the factor; x is (max(0, 1 - x), 1 + x).
        hue: (low, high) within -0.5..0.5; x is (-x, x).
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "color_jitter"
    brightness: tuple[float, float] | None = _jitter(1.0, least=0.0, most=1e6)
    contrast: tuple[float, float] | None = _jitter(1.0, least=0.0, most=1e6)
    saturation: tuple[float, float] | None = _jitter(1.0, least=0.0, most=1e6)
    hue: tuple[float, float] | None = _jitter(0.0, least=-0.5, most=0.5)
    name: str | None = fields.draw_name()

    def after(self, state: State) -> State:
        """Leave the size."""
        colours(state, alpha=True)
        return state

    @property
    def draws(self) -> bool:
        """The factors and their order."""
        return True

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, on finished rows"


class _Enhancement(ColourStep):
    __slots__ = ()
    ranges: ClassVar = ("factor",)
    mirror: bool

    @classmethod
    def of(
        cls, factor: float | tuple[float, float], *, mirror: bool = False, p: float = 1.0, name: str | None = None
    ) -> Self:
        """Check that every factor has its mirror image."""
        made = cls.checked(factor=factor, mirror=mirror, p=p, name=name)
        if made.mirror and made.kernel()["factor"][1] > 2:
            raise BadArgumentError(
                f"factor must be within 0..2 with mirror=True, got {short(factor, 80, quoted=True)}: "
                "2 - factor must not be less than 0"
            )
        return made

    @property
    def draws(self) -> bool:
        """Whether, and by which factor, unless both are fixed."""
        return self.mirror or super().draws


@register
class Brightness(_Enhancement):
    """Blend with black, or away from it: PIL.ImageEnhance.Brightness.

    It happens when u0 < p, with factor = low + (high - low) * u1. With `mirror` that becomes 2 - factor when
    u2 < 0.5: 1 + m or 1 - m, as RandAugment draws them. Alpha stays.

    Args:
        factor: The factor, or (low, high) to draw it from: 1 changes nothing.
        mirror: Whether to take 2 - factor half the time.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "brightness"
    factor: float | tuple[float, float] = fields.number_or_pair(least=0.0, most=1e6)
    mirror: bool = fields.flag(False, keyword=True)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()


@register
class Contrast(_Enhancement):
    """Blend with the mean of the picture in gray, or away from it: PIL.ImageEnhance.Contrast.

    It happens when u0 < p, with factor = low + (high - low) * u1. With `mirror` that becomes 2 - factor when
    u2 < 0.5: 1 + m or 1 - m, as RandAugment draws them. Alpha stays.

    Args:
        factor: The factor, or (low, high) to draw it from: 1 changes nothing.
        mirror: Whether to take 2 - factor half the time.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "contrast"
    factor: float | tuple[float, float] = fields.number_or_pair(least=0.0, most=1e6)
    mirror: bool = fields.flag(False, keyword=True)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()


@register
class Saturation(_Enhancement):
    """Blend with the picture in gray, or away from it: PIL.ImageEnhance.Color.

    It happens when u0 < p, with factor = low + (high - low) * u1. With `mirror` that becomes 2 - factor when
    u2 < 0.5: 1 + m or 1 - m, as RandAugment draws them. Alpha stays.

    Args:
        factor: The factor, or (low, high) to draw it from: 1 changes nothing.
        mirror: Whether to take 2 - factor half the time.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "saturation"
    factor: float | tuple[float, float] = fields.number_or_pair(least=0.0, most=1e6)
    mirror: bool = fields.flag(False, keyword=True)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    def after(self, state: State) -> State:
        """Leave the size."""
        colours(state, alpha=True)
        return state


@register
class Sharpness(_Enhancement):
    """Blend with a smoothed picture, or away from it: PIL.ImageEnhance.Sharpness, torchvision's adjust_sharpness.

    Factor 0 is the picture smoothed by PIL.ImageFilter.SMOOTH; the border stays. It happens when u0 < p, with
    factor = low + (high - low) * u1. With `mirror` that becomes 2 - factor when u2 < 0.5: 1 + m or 1 - m, as
    RandAugment draws them. Alpha stays.

    Args:
        factor: The factor, or (low, high) to draw it from: 1 changes nothing.
        mirror: Whether to take 2 - factor half the time.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "sharpness"
    factor: float | tuple[float, float] = fields.number_or_pair(least=0.0, most=1e6)
    mirror: bool = fields.flag(False, keyword=True)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, on the whole picture"
