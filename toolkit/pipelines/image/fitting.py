"""Steps that fit a picture into a size and keep its proportions: cover, contain, thumbnail and scale_jitter.

Their resizes are those of toolkit.pipelines.image.geometry.
"""

from __future__ import annotations

import math
from typing import Self

from toolkit._native.image.program import MAX_SIDE
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_size
from toolkit.pipelines.image.geometry import Filter, Resizing, size_of, to_size
from toolkit.pipelines.image.image_step import places
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State
from toolkit.pipelines.step import call_text

__all__ = ["Contain", "Cover", "ScaleJitter", "Thumbnail"]


@register
class Cover(Resizing):
    """Fill `size` or (height, width) with the middle of the picture, proportions kept: PIL's ImageOps.fit.

    The largest part in the middle that has the proportions of the size is resized to it. Its sides may lie between
    pixels, and the filter sees the pixels around it.
    """

    word = "cover"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)
    filter: Filter = fields.choice(Filter, Filter.BILINEAR, keyword=True)

    @classmethod
    def of(cls, size: int | tuple[int, int], *, filter: str = "bilinear") -> Self:
        """Take both sides in one."""
        height, width = a_size(size, most=MAX_SIDE)
        return cls.checked(height=height, width=width, filter=filter)

    def after(self, state: State) -> State:
        """Make the size."""
        return to_size(self, state)

    def text(self) -> str:
        """Write both sides in one."""
        return call_text(self.word, size_of(self), **self.changed("filter"))


@register
class Contain(Resizing):
    """Resize to the largest picture within `size` or (height, width), proportions kept, and pad it to the size.

    PIL's ImageOps.pad; without `pad` it is ImageOps.contain. The other side is round(size * side / longest side),
    halves to even, at least 1. Where a number of pixels to add is odd, half of it is rounded to even in front.

    Args:
        size: Of the result; without `pad`, the most that it may have.
        pad: Whether to add pixels on both sides, so that all results have the size.
        fill: The value (0..255) of pixels that are added.
        filter: Of the resize.
    """

    word = "contain"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)
    pad: bool = fields.flag(True, keyword=True)
    fill: int = fields.whole(0, least=0, most=255, keyword=True)
    filter: Filter = fields.choice(Filter, Filter.BILINEAR, keyword=True)

    @classmethod
    def of(cls, size: int | tuple[int, int], *, pad: bool = True, fill: int = 0, filter: str = "bilinear") -> Self:
        """Take both sides in one."""
        height, width = a_size(size, most=MAX_SIDE)
        made = cls.checked(height=height, width=width, pad=pad, fill=fill, filter=filter)
        if made.fill and not made.pad:
            raise BadArgumentError("fill is the value of pixels that are added: leave it out with pad=False")
        return made

    def after(self, state: State) -> State:
        """Make the size; without pad, where the picture's is known."""
        if self.pad:
            return to_size(self, state)
        height, width = places(self, state)
        if height is None or width is None:
            return state.with_size(None, None)
        of_picture, of_size = width / height, self.width / self.height
        if of_picture > of_size:
            return state.with_size(max(1, round(height / width * self.width)), self.width)
        if of_picture < of_size:
            return state.with_size(self.height, max(1, round(width / height * self.height)))
        return state.with_size(self.height, self.width)

    def text(self) -> str:
        """Write both sides in one."""
        return call_text(self.word, size_of(self), **self.changed("pad", "fill", "filter"))


@register
class Thumbnail(Resizing):
    """Shrink to the largest picture of the same proportions within `size` or (height, width); never enlarge.

    Sizes are those of PIL's Image.thumbnail: of two whole numbers the one that keeps the proportions better. Pixels
    are those of its reducing_gap=None.
    """

    word = "thumbnail"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)
    filter: Filter = fields.choice(Filter, Filter.BILINEAR, keyword=True)

    @classmethod
    def of(cls, size: int | tuple[int, int], *, filter: str = "bilinear") -> Self:
        """Take both sides in one."""
        height, width = a_size(size, most=MAX_SIDE)
        return cls.checked(height=height, width=width, filter=filter)

    def after(self, state: State) -> State:
        """Make the size, where the picture's is known."""
        height, width = places(self, state)
        if height is None or width is None:
            return state.with_size(None, None)
        if self.width >= width and self.height >= height:
            return state
        aspect, most_h, most_w = width / height, self.height, self.width
        if most_w / most_h >= aspect:
            near = _ends(most_h * aspect)
            return state.with_size(most_h, max(1, min(near, key=lambda side: abs(aspect - side / most_h))))
        near = _ends(most_w / aspect)
        return state.with_size(max(1, min(near, key=lambda side: abs(aspect - most_w / side) if side else 0)), most_w)

    def text(self) -> str:
        """Write both sides in one."""
        return call_text(self.word, size_of(self), **self.changed("filter"))


@register
class ScaleJitter(Resizing):
    """Resize by a random scale and keep the proportions: torchvision's ScaleJitter, large scale jitter.

    With H, W the picture's size: r = min(height / H, width / W) * (low + (high - low) * u0), and the result has
    int(H * r) x int(W * r) pixels, at least one each way. torchvision's target_size is (width, height).

    Args:
        target_size: One number or (height, width), within which a picture lies that is drawn a scale of 1.
        scale_range: (low, high) of the scale.
        filter: Of the resize.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "scale_jitter"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)
    scale_range: tuple[float, float] = fields.pair((0.1, 2.0), least=1e-3, most=1e3, keyword=True)
    filter: Filter = fields.choice(Filter, Filter.BILINEAR, keyword=True)
    name: str | None = fields.draw_name()

    @classmethod
    def of(
        cls,
        target_size: int | tuple[int, int],
        *,
        scale_range: tuple[float, float] = (0.1, 2.0),
        filter: str = "bilinear",
        name: str | None = None,
    ) -> Self:
        """Take both sides in one."""
        height, width = a_size(target_size, most=MAX_SIDE)
        return cls.checked(height=height, width=width, scale_range=scale_range, filter=filter, name=name)

    def after(self, state: State) -> State:
        """Leave the size open."""
        places(self, state)
        return state.with_size(None, None)

    def text(self) -> str:
        """Write both sides in one."""
        return call_text(self.word, size_of(self), **self.changed("scale_range", "filter", "name"))

    @property
    def draws(self) -> bool:
        """The scale."""
        return True


def _ends(number: float) -> tuple[int, int]:
    """Return the whole numbers next to one."""
    return math.floor(number), math.ceil(number)
