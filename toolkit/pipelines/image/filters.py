"""Steps that look at each pixel's neighbours: sharpness and blurs.

Each keeps the size, and works on every channel alike unless it says otherwise; a fourth channel is alpha.
"""

from __future__ import annotations

from dataclasses import MISSING
from typing import Any, Self

from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_number, a_pair, an_int
from toolkit.pipelines.image.image_step import PixelStep, pixels
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State

__all__ = [
    "GaussianBlur",
    "Sharpness",
]

_LARGEST_KERNEL = 255
_LARGEST_SIGMA = 31.0  # whose kernel is 4 sigma to each side


def _number_or_pair(least: float, most: float, default: Any = MISSING, *, keyword: bool = False) -> Any:
    """Declare (low, high) of what is drawn between; one number is both."""

    def check(name: str, value: Any) -> tuple[float, float]:
        if isinstance(value, (tuple, list)):
            return a_pair(name, value, least=least, most=most)
        value = a_number(name, value, least=least, most=most)
        return value, value

    return fields.argument(check, "float | tuple[float, float]", default, keyword=keyword, least=least, most=most)


def _kernel(name: str, value: Any) -> int:
    size = an_int(name, value, least=1, most=_LARGEST_KERNEL)
    if size % 2 == 0:
        raise BadArgumentError(f"{name} must be odd, so that a pixel lies in the middle, got {size}")
    return size


def _kernel_or_none(name: str, value: Any) -> int | None:
    return None if value is None else _kernel(name, value)


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


@register
class GaussianBlur(_Filter):
    """Blur by a Gaussian kernel of kernel_size x kernel_size pixels: torchvision's GaussianBlur.

    Weight k from the middle is exp(-(k / sigma)^2 / 2), divided by the sum of all, along both axes. It happens
    when u0 < p, with sigma = low + (high - low) * u1. Borders are mirrored as numpy.pad's "reflect" does, so that
    a kernel may be larger than the picture. All channels are blurred, alpha too. Pixels are at most one level from
    what floats give.

    Args:
        kernel_size: How many pixels it is wide, odd; None: as wide as 4 sigma reaches to each side, as
            scipy.ndimage.gaussian_filter does.
        sigma: The standard deviation in pixels, or (low, high) to draw it from.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "gaussian_blur"
    kernel_size: int | None = fields.argument(_kernel_or_none, "int | None", least=1, most=_LARGEST_KERNEL)
    sigma: tuple[float, float] = _number_or_pair(1e-6, 1e6, (0.1, 2.0))
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    @classmethod
    def of(
        cls,
        kernel_size: int | None,
        sigma: float | tuple[float, float] = (0.1, 2.0),
        *,
        p: float = 1.0,
        name: str | None = None,
    ) -> Self:
        """Refuse a sigma whose own kernel would be too large."""
        made = cls.checked(kernel_size=kernel_size, sigma=sigma, p=p, name=name)
        if made.kernel_size is None and made.sigma[1] > _LARGEST_SIGMA:
            raise BadArgumentError(
                f"sigma must be at most {_LARGEST_SIGMA:g} without a kernel_size, got {made.sigma[1]:g}"
            )
        return made

    def kernel(self) -> dict[str, Any]:
        """Return the fields, with 0 for a size that follows sigma."""
        return {**PixelStep.kernel(self), "kernel_size": self.kernel_size or 0}
