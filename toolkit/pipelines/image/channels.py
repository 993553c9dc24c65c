"""Steps that treat channels differently: grayscale, channel_shuffle, channel_drop and color_temperature."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError
from toolkit.pipelines.image.image_step import ColourStep, colours
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State

__all__ = ["ChannelDrop", "ChannelShuffle", "ColorTemperature", "Grayscale"]


def _channels(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value not in (1, 3):
        raise BadArgumentError(f"{name} must be 1 or 3, got {short(value, 80, quoted=True)}")
    return value


@register
class Grayscale(ColourStep):
    """Make it gray, in 1 or 3 equal channels: PIL's L of an RGB image, torchvision's RandomGrayscale.

    It happens when u0 < p.

    Args:
        channels: 1, or 3 equal ones.
        p: The probability; below 1 only with 3 channels, which colour pictures have, too.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "grayscale"
    channels: int = fields.argument(_channels, "int", 1, keyword=True, least=1, most=3)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    @classmethod
    def of(cls, *, channels: int = 1, p: float = 1.0, name: str | None = None) -> Self:
        """Check that what is gray and what isn't have as many channels."""
        made = cls.checked(channels=channels, p=p, name=name)
        if made.p < 1 and made.channels != 3:
            raise BadArgumentError(
                f"channels must be 3 with p={made.p}, got {channels}: a picture that stays as it is has 3"
            )
        return made

    def after(self, state: State) -> State:
        """Make the channels."""
        height, width, _ = colours(state)
        return State(state.kind, state.dtype, (height, width, self.channels), state.layout)


class _OfChannels(ColourStep):
    __slots__ = ()

    def after(self, state: State) -> State:
        """Leave the size."""
        colours(state, alpha=True)
        return state


@register
class ChannelShuffle(_OfChannels):
    """Put red, green and blue in another order: torchvision's RandomChannelPermutation. Alpha stays.

    It happens when u0 < p, by permutation number floor(u1 * 6) in itertools.permutations' order; the first
    changes nothing. Channel i becomes what channel permutation[i] was.

    Args:
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "channel_shuffle"
    p: float = fields.number(1.0, least=0, most=1)
    name: str | None = fields.draw_name()

    @property
    def draws(self) -> bool:
        """The order."""
        return True


@register
class ChannelDrop(_OfChannels):
    """Fill one or two of red, green and blue: the ChannelDropout of albumentations. Alpha stays.

    It happens when u0 < p, to low + floor(u1 * (high - low + 1)) channels: choice number floor(u2 * 3) of that
    many, in itertools.combinations' order.

    Args:
        channels: How many, 1 or 2, or (1, 2) to draw from.
        fill: Their value.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "channel_drop"
    ranges: ClassVar = ("channels",)
    channels: int | tuple[int, int] = fields.whole_or_pair(1, least=1, most=2)
    fill: int = fields.whole(0, least=0, most=255, keyword=True)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    @property
    def draws(self) -> bool:
        """Which channels."""
        return True


@register
class ColorTemperature(_OfChannels):
    """Light the picture by a black body: value * c / 255, rounded, c being the body's red, green or blue.

    With t = kelvin / 100, red is 255 up to t = 66, then 329.698727446 * (t - 60)^-0.1332047592; green is
    99.4708025861 * ln t - 161.1195681661 up to 66, then 288.1221695283 * (t - 60)^-0.0755148492; blue is 0 up to
    19, then 138.5177312231 * ln(t - 10) - 305.0447927307, and 255 from 66 on; all within 0 to 255. This is Tanner
    Helland's fit (tannerhelland.com, 2012) to Mitchell Charity's table of black bodies in sRGB. Alpha stays.

    It happens when u0 < p, with kelvin = low + (high - low) * u1.

    Args:
        kelvin: 1000 (red) to 40000 (blue), or (low, high) to draw from; 6600 changes next to nothing.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "color_temperature"
    ranges: ClassVar = ("kelvin",)
    kelvin: float | tuple[float, float] = fields.number_or_pair(least=1000, most=40000)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()
