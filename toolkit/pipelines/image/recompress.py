"""The step that writes pictures as JPEGs and reads them again: jpeg_compression."""

from __future__ import annotations

from typing import ClassVar

from toolkit.pipelines import fields
from toolkit.pipelines.image.image_step import ColourStep
from toolkit.pipelines.registry import register

__all__ = ["JpegCompression"]


@register
class JpegCompression(ColourStep):
    """Write the picture as a JPEG and read it again: what PIL's save(quality=quality) and open() make of it.

    The same pixels, that is, of PIL over libjpeg-turbo: YCbCr with 4:2:0 subsampling; torchvision's v2.JPEG. It
    happens when u0 < p, with quality = low + floor(u1 * (high - low + 1)). Alpha stays. A side has 65500 pixels
    at most.

    Args:
        quality: 1 (worst) to 100, or (low, high) to draw it from.
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "jpeg_compression"
    ranges: ClassVar = ("quality",)
    quality: int | tuple[int, int] = fields.whole_or_pair(least=1, most=100)
    p: float = fields.number(1.0, least=0, most=1, keyword=True)
    name: str | None = fields.draw_name()

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, through libjpeg"
