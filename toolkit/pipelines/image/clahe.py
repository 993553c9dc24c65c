"""The step that evens out histograms place by place: clahe."""

from __future__ import annotations

from typing import Any, ClassVar

from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, an_int
from toolkit.pipelines.image.image_step import ColourStep
from toolkit.pipelines.registry import register

__all__ = ["Clahe"]

_MOST_TILES = 64


def _tiles(name: str, value: Any) -> tuple[int, int]:
    if not isinstance(value, (tuple, list)):
        value = (value, value)
    if len(value) != 2:
        raise BadArgumentError(f"{name} must be a number or (rows, columns), got {short(value, 80, quoted=True)}")
    rows, columns = (an_int(name, each, most=_MOST_TILES) for each in value)
    return rows, columns


@register
class Clahe(ColourStep):
    """Even out the histogram of lightness by tiles, with limited contrast: OpenCV's CLAHE, as in albumentations.

    Of a gray picture the values are equalized, of any other L* of CIE Lab (sRGB, D65) in 8 bits, while a* and b*
    stay. Each tile gets the table that cv2.createCLAHE would give it, and a pixel what the tables of the four
    tiles around it say, bilinearly. It happens when u0 < p, with clip_limit = low + (high - low) * u1. Alpha
    stays. (OpenCV also rounds a* and b* to 8 bits, which moves its colours by up to a few levels.)

    Args:
        clip_limit: How many times the mean a bin of a histogram may have, at most, or (low, high) to draw it from;
            0: there is no limit.
        tiles: How many rows and columns of tiles: one number, or (rows, columns).
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "clahe"
    ranges: ClassVar = ("clip_limit",)
    clip_limit: float | tuple[float, float] = fields.number_or_pair((1.0, 4.0), least=0, most=1e6)
    tiles: tuple[int, int] = fields.argument(_tiles, "int | tuple[int, int]", (8, 8), least=1, most=_MOST_TILES)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    def kernel(self) -> dict[str, Any]:
        """Return the fields, with rows and columns apart."""
        made = ColourStep.kernel(self)
        made["rows"], made["columns"] = made.pop("tiles")
        return made

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, on the whole picture"
