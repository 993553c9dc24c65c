"""Steps that look at each pixel's neighbours: blurs and unsharp_mask.

Each keeps the size, and works on every channel alike, alpha too. Where nothing else is said, borders are mirrored at
the middle of the outermost pixel, to and fro, as numpy.pad's "reflect" does: a kernel may be larger than the picture.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, an_int
from toolkit.pipelines.image.image_step import ColourStep
from toolkit.pipelines.registry import register

__all__ = [
    "GaussianBlur",
    "MedianBlur",
    "MotionBlur",
    "UnsharpMask",
]

_LARGEST_KERNEL = 255
_LARGEST_SIGMA = 31.0  # whose kernel is 4 sigma to each side


def _odd(name: str, value: Any, least: int, most: int) -> int:
    size = an_int(name, value, least=least, most=most)
    if size % 2 == 0:
        raise BadArgumentError(f"{name} must be odd, so that a pixel lies in the middle, got {size}")
    return size


def _odd_or_none(name: str, value: Any) -> int | None:
    return None if value is None else _odd(name, value, 1, _LARGEST_KERNEL)


class _Filter(ColourStep):
    """A step that makes a new picture of the whole one, with probability `p`."""

    __slots__ = ()

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, on the whole picture"


@register
class GaussianBlur(_Filter):
    """Blur by a Gaussian kernel of kernel_size x kernel_size pixels: torchvision's GaussianBlur.

    Weight k from the middle is exp(-(k / sigma)^2 / 2), divided by the sum of all, along both axes. It happens
    when u0 < p, with sigma = low + (high - low) * u1. Borders are mirrored as numpy.pad's "reflect" does; all
    channels are blurred, alpha too. Values are at most one level from what floats give.

    Args:
        kernel_size: How many pixels it is wide, odd; None: as wide as 4 sigma reaches to each side, as
            scipy.ndimage.gaussian_filter does.
        sigma: The standard deviation in pixels, or (low, high) to draw it from.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "gaussian_blur"
    ranges: ClassVar = ("sigma",)
    kernel_size: int | None = fields.argument(_odd_or_none, "int | None", least=1, most=_LARGEST_KERNEL)
    sigma: float | tuple[float, float] = fields.number_or_pair((0.1, 2.0), least=1e-6, most=1e6)
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
        largest = made.kernel()["sigma"][1]
        if made.kernel_size is None and largest > _LARGEST_SIGMA:
            raise BadArgumentError(
                f"sigma must be at most {_LARGEST_SIGMA:g} where it says the kernel's size, got {largest:g}: give a "
                "kernel_size, too"
            )
        return made

    def kernel(self) -> dict[str, Any]:
        """Return the fields, with 0 for a size that follows sigma."""
        return {**ColourStep.kernel(self), "kernel_size": self.kernel_size or 0}


@register
class MotionBlur(_Filter):
    """Blur along a line through each pixel, as a moving camera does: a mean of kernel_size points one pixel apart.

    Point i = 0 .. n - 1 lies at (i - r) * (cos(angle), -sin(angle)) from the pixel, r = (n - 1) / 2, and is taken
    bilinearly, with the weight 2 / n * (f + (1 - 2f) * i / (n - 1)), f = (1 - direction) / 2. It happens when u0
    < p, with angle = low + (high - low) * u1, and direction likewise by u2. Borders are mirrored as numpy.pad's
    "reflect" does; all channels are blurred, alpha too. Values are at most one level from what floats give.
    Albumentations and imgaug draw such kernels, too, though each rounds lines to pixels in its own way.

    Args:
        kernel_size: How many points, odd.
        angle: Of the line in degrees, counterclockwise from the horizontal, or (low, high) to draw it from.
        direction: -1 to 1, or (low, high) to draw it from: 0 weighs all points alike, 1 the last one most and the
            first one 0, -1 the other way round.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "motion_blur"
    ranges: ClassVar = ("angle", "direction")
    kernel_size: int = fields.argument(lambda name, value: _odd(name, value, 3, 63), "int", least=3, most=63)
    angle: float | tuple[float, float] = fields.number_or_pair((0.0, 360.0), least=-3600, most=3600)
    direction: float | tuple[float, float] = fields.number_or_pair(0.0, least=-1, most=1)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()


@register
class MedianBlur(_Filter):
    """Take the median of the square around each pixel: PIL.ImageFilter.MedianFilter(2 * radius + 1).

    It happens when u0 < p, with radius = low + floor(u1 * (high - low + 1)). Beyond a border its pixels are
    repeated. Each channel goes by itself, alpha too.

    Args:
        radius: How far the square reaches to each side, or (low, high) to draw it from.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "median_blur"
    ranges: ClassVar = ("radius",)
    radius: int | tuple[int, int] = fields.whole_or_pair(1, least=1, most=7)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()


@register
class UnsharpMask(_Filter):
    """Sharpen by what a blur takes away: PIL.ImageFilter.UnsharpMask.

    value + (value - blurred) * percent / 100 where the two are more than `threshold` apart, the blur being PIL's:
    three boxes along each axis. It happens when u0 < p, with radius = low + (high - low) * u1 and percent = low +
    floor(u2 * (high - low + 1)). All channels are sharpened, alpha too.

    Args:
        radius: Of the blur, its standard deviation in pixels, or (low, high) to draw it from.
        percent: How much is added, or (low, high) to draw it from.
        threshold: A value stays where it is at most so many levels from the blur.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "unsharp_mask"
    ranges: ClassVar = ("radius", "percent")
    radius: float | tuple[float, float] = fields.number_or_pair(2.0, least=0, most=1000)
    percent: int | tuple[int, int] = fields.whole_or_pair(150, least=0, most=100_000)
    threshold: int = fields.whole(3, least=0, most=255)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()
