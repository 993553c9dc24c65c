"""Steps that change colours: color_jitter and grayscale."""

from __future__ import annotations

from typing import Any

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number, a_pair
from toolkit.pipelines.image.image_step import PixelStep, colours
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State

__all__ = ["ColorJitter", "Grayscale"]


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


def _channels(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in (1, 3):
        raise BadArgumentError(f"{name} must be 1 or 3, got {short(value, 80, quoted=True)}")
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
        colours(state)
        return state

    @property
    def draws(self) -> bool:
        """The factors and their order."""
        return True

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, on finished rows"


@register
class Grayscale(PixelStep):
    """Make it gray, in 1 or 3 equal channels: PIL's L of an RGB image."""

    word = "grayscale"
    channels: int = fields.argument(_channels, "int", 1, keyword=True, least=1, most=3)

    def after(self, state: State) -> State:
        """Make the channels."""
        height, width, _ = colours(state)
        return State(state.kind, state.dtype, (height, width, self.channels), state.layout)

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, on finished rows"
