"""Steps that add noise: to pixels, and to the tensor that they become."""

from __future__ import annotations

from typing import ClassVar

from toolkit.pipelines import fields
from toolkit.pipelines.image.image_step import ColourStep, TensorStep, pixels_or_floats
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State

__all__ = ["GaussianNoise", "SaltAndPepper", "SpeckleNoise"]


class _Noise(ColourStep):
    __slots__ = ()

    @property
    def draws(self) -> bool:
        """What each value gets."""
        return True


@register
class GaussianNoise(_Noise, TensorStep):
    """Add noise of the normal distribution to each value, on pixels or behind normalize.

    It happens when u0 < p, with std = low + (high - low) * u1: value + mean + std * z. On pixels the units are
    levels of 0..255, and the sum is rounded, halves up, and cut off at both ends; alpha stays. On a tensor they are
    its own, and the sum is rounded to its dtype. Each channel of each pixel has its own z, a number of the normal
    distribution by Box and Muller from the bits that the pixel's place draws.

    Args:
        std: The standard deviation, or (low, high) to draw it from.
        mean: What is added to all.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "gaussian_noise"
    ranges: ClassVar = ("std",)
    std: float | tuple[float, float] = fields.number_or_pair(least=0, most=1e6)
    mean: float = fields.number(0.0, least=-1e6, most=1e6)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    def after(self, state: State) -> State:
        """Leave what it is."""
        pixels_or_floats(state)
        return state

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, in place"


@register
class SpeckleNoise(_Noise):
    """Multiply each value of pixels with noise: value + value * std * z, skimage's speckle.

    It happens when u0 < p, with std = low + (high - low) * u1. Each channel of each pixel has its own z, as in
    gaussian_noise; the sum is rounded, halves up, and cut off at 0 and 255. Alpha stays.

    Args:
        std: The standard deviation, or (low, high) to draw it from.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "speckle_noise"
    ranges: ClassVar = ("std",)
    std: float | tuple[float, float] = fields.number_or_pair(least=0, most=1e3)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()


@register
class SaltAndPepper(_Noise):
    """Make pixels white or black: a share `amount` of them, and of those the share `salt` white.

    It happens when u0 < p, with amount = low + (high - low) * u1. By the 64 bits that a pixel's place draws: it
    changes when the upper 32, over 2^32, are below the amount, and becomes white when the lower 32 are below the
    share. All colours of a pixel change; alpha stays.

    Args:
        amount: The share of pixels that change, or (low, high) to draw it from.
        salt: The share of white among them.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "salt_and_pepper"
    ranges: ClassVar = ("amount",)
    amount: float | tuple[float, float] = fields.number_or_pair(least=0, most=1)
    salt: float = fields.number(0.5, least=0, most=1)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()
