"""Steps that move pixels: resizes, crops, pad and flips.

Resizes are antialiased, and equal those of RESIZES_AS. (Pillow 13 makes the vertical pass first where that is less
work; what is rounded and clipped between the passes then differs.)
"""

from __future__ import annotations

import enum
from typing import Any, Self

from toolkit._native.image.program import MAX_SIDE
from toolkit.escapes import short
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError, a_size, an_int
from toolkit.pipelines.image.image_step import PixelStep, places
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import State
from toolkit.pipelines.step import call_text

__all__ = [
    "RESIZES_AS",
    "CenterCrop",
    "Crop",
    "Filter",
    "HFlip",
    "Pad",
    "RandomCrop",
    "RandomResizedCrop",
    "Resize",
    "ResizeLong",
    "ResizeShort",
    "Resizing",
    "VFlip",
    "size_of",
    "to_size",
]

RESIZES_AS = "Pillow 12"


class Filter(enum.Enum):
    """How a resize weighs pixels."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    LANCZOS = "lanczos"


def size_of(step: Any) -> object:
    """Return the size of a step's result as it is written: one number where the sides are alike."""
    return step.height if step.height == step.width else (step.height, step.width)


def to_size(step: Any, state: State) -> State:
    """Return pixels of the step's size. Raises MisfitError."""
    places(step, state)
    return state.with_size(step.height, step.width)


class Resizing(PixelStep):
    """A step that resizes with a filter."""

    __slots__ = ()
    filter: Filter

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return f"native {self.filter.value}, row by row"


class _Flip(PixelStep):
    __slots__ = ()

    def after(self, state: State) -> State:
        """Leave the size."""
        places(self, state)
        return state

    @property
    def draws(self) -> bool:
        """Whether to flip."""
        return True


@register
class Resize(Resizing):
    """Resize to exactly (height, width), antialiased. Filters: nearest, bilinear, bicubic, lanczos."""

    word = "resize"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)
    filter: Filter = fields.choice(Filter, Filter.BILINEAR, keyword=True)

    @classmethod
    def of(cls, size: tuple[int, int], *, filter: str = "bilinear") -> Self:
        """Take both sides in one."""
        if isinstance(size, int) and not isinstance(size, bool):
            side = short(size)
            raise BadArgumentError(
                f"a size is (height, width), got {side}: say resize(({side}, {side})), or resize_short({side}), "
                "which keeps the proportions"
            )
        height, width = a_size(size, most=MAX_SIDE)
        return cls.checked(height=height, width=width, filter=filter)

    def after(self, state: State) -> State:
        """Make the size."""
        return to_size(self, state)

    def text(self) -> str:
        """Write both sides in one."""
        return call_text(self.word, (self.height, self.width), **self.changed("filter"))


@register
class ResizeShort(Resizing):
    """Resize so that the shorter side has `size` pixels; antialiased, as Pillow and torchvision.

    The longer side is int(size * long / short).
    """

    word = "resize_short"
    size: int = fields.whole(most=MAX_SIDE)
    filter: Filter = fields.choice(Filter, Filter.BILINEAR, keyword=True)

    def after(self, state: State) -> State:
        """Make the size, where the picture's is known."""
        height, width = places(self, state)
        if height is None or width is None:
            return state.with_size(None, None)
        if height <= width:
            return state.with_size(self.size, self.size * width // height)
        return state.with_size(self.size * height // width, self.size)


@register
class ResizeLong(Resizing):
    """Resize so that the longer side has `size` pixels; antialiased.

    The shorter side is max(1, int(size * short / long)).
    """

    word = "resize_long"
    size: int = fields.whole(most=MAX_SIDE)
    filter: Filter = fields.choice(Filter, Filter.BILINEAR, keyword=True)

    def after(self, state: State) -> State:
        """Make the size, where the picture's is known."""
        height, width = places(self, state)
        if height is None or width is None:
            return state.with_size(None, None)
        if height >= width:
            return state.with_size(self.size, max(1, self.size * width // height))
        return state.with_size(max(1, self.size * height // width), self.size)


@register
class Crop(PixelStep):
    """Cut height x width pixels from (top, left) on; zeros where the image has none."""

    word = "crop"
    top: int = fields.whole(least=0, most=MAX_SIDE)
    left: int = fields.whole(least=0, most=MAX_SIDE)
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)

    def after(self, state: State) -> State:
        """Make the size."""
        return to_size(self, state)


class Halves(enum.Enum):
    """How the half of an odd number is rounded."""

    EVEN = "even"
    DOWN = "down"


@register
class CenterCrop(PixelStep):
    """Cut the middle: `size` or (height, width) pixels; a smaller image is padded with zeros.

    Args:
        size: Of the result.
        halves: Where it begins when an odd number of pixels is left out: half of that, rounded to "even" (as
            torchvision) or "down" (as transformers).
    """

    word = "center_crop"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)
    halves: Halves = fields.choice(Halves, Halves.EVEN, keyword=True)

    @classmethod
    def of(cls, size: int | tuple[int, int], *, halves: str = "even") -> Self:
        """Take both sides in one."""
        height, width = a_size(size, most=MAX_SIDE)
        return cls.checked(height=height, width=width, halves=halves)

    def after(self, state: State) -> State:
        """Make the size."""
        return to_size(self, state)

    def text(self) -> str:
        """Write both sides in one."""
        return call_text(self.word, size_of(self), **self.changed("halves"))


@register
class RandomCrop(PixelStep):
    """Cut `size` or (height, width) pixels at a random place; a smaller image is padded with zeros first.

    It is padded as center_crop pads it. With H, W the size after that: top = floor(u0 * (H - height + 1)),
    left = floor(u1 * (W - width + 1)).

    Args:
        size: Of the result.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "random_crop"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)
    name: str | None = fields.draw_name()

    @classmethod
    def of(cls, size: int | tuple[int, int], *, name: str | None = None) -> Self:
        """Take both sides in one."""
        height, width = a_size(size, most=MAX_SIDE)
        return cls.checked(height=height, width=width, name=name)

    def after(self, state: State) -> State:
        """Make the size."""
        return to_size(self, state)

    def text(self) -> str:
        """Write both sides in one."""
        return call_text(self.word, size_of(self), **self.changed("name"))

    @property
    def draws(self) -> bool:
        """Where it cuts."""
        return True


@register
class RandomResizedCrop(Resizing):
    """Cut a random part and resize it to `size` or (height, width): torchvision's RandomResizedCrop.

    Attempt a of 0..9: area = H * W * (scale[0] + (scale[1] - scale[0]) * u[4a]), ratio = exp(log(ratio[0]) +
    (log(ratio[1]) - log(ratio[0])) * u[4a + 1]), w = round(sqrt(area * ratio)), h = round(sqrt(area / ratio)),
    halves to even. With 0 < w <= W and 0 < h <= H: top = floor(u[4a + 2] * (H - h + 1)), left = floor(u[4a + 3] *
    (W - w + 1)). After ten failures torchvision's central crop.

    Args:
        size: Of the result.
        scale: Share of the image's area that the part has, (low, high).
        ratio: Width by height of the part, (low, high).
        filter: Of the resize.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "random_resized_crop"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)
    scale: tuple[float, float] = fields.pair((0.08, 1.0), least=0.0, most=1.0, keyword=True)
    ratio: tuple[float, float] = fields.pair((3 / 4, 4 / 3), least=1e-3, most=1e3, keyword=True)
    filter: Filter = fields.choice(Filter, Filter.BILINEAR, keyword=True)
    name: str | None = fields.draw_name()

    @classmethod
    def of(
        cls,
        size: int | tuple[int, int],
        *,
        scale: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        filter: str = "bilinear",
        name: str | None = None,
    ) -> Self:
        """Take both sides in one."""
        height, width = a_size(size, most=MAX_SIDE)
        return cls.checked(height=height, width=width, scale=scale, ratio=ratio, filter=filter, name=name)

    def after(self, state: State) -> State:
        """Make the size."""
        return to_size(self, state)

    def text(self) -> str:
        """Write both sides in one."""
        return call_text(self.word, size_of(self), **self.changed("scale", "ratio", "filter", "name"))

    @property
    def draws(self) -> bool:
        """Which part it takes."""
        return True


@register
class Pad(PixelStep):
    """Add pixels of value `fill` (0..255) around the image: `size` on each side, or a number for each."""

    word = "pad"
    top: int = fields.whole(0, least=0, most=MAX_SIDE, keyword=True)
    left: int = fields.whole(0, least=0, most=MAX_SIDE, keyword=True)
    bottom: int = fields.whole(0, least=0, most=MAX_SIDE, keyword=True)
    right: int = fields.whole(0, least=0, most=MAX_SIDE, keyword=True)
    fill: int = fields.whole(0, least=0, most=255, keyword=True)

    @classmethod
    def of(
        cls, size: int | None = None, *, top: int = 0, left: int = 0, bottom: int = 0, right: int = 0, fill: int = 0
    ) -> Self:
        """Take one size for all sides, or one for each."""
        made = cls.checked(top=top, left=left, bottom=bottom, right=right, fill=fill)
        if max(made.top + made.bottom, made.left + made.right) >= MAX_SIDE:
            raise BadArgumentError(f"with its padding a side has at most {MAX_SIDE} pixels: pad less")
        if size is None:
            return made
        if made.top or made.left or made.bottom or made.right:
            raise BadArgumentError("give one size for all sides, or top, left, bottom and right")
        side = an_int("size", size, least=0, most=(MAX_SIDE - 1) // 2)
        return cls(side, side, side, side, made.fill)

    def after(self, state: State) -> State:
        """Make the size, where the picture's is known."""
        height, width = places(self, state)
        return state.with_size(
            None if height is None else height + self.top + self.bottom,
            None if width is None else width + self.left + self.right,
        )

    def text(self) -> str:
        """Write one size where all sides have it."""
        if self.top == self.left == self.bottom == self.right:
            return call_text(self.word, self.top, **self.changed("fill"))
        return call_text(self.word, **self.changed("top", "left", "bottom", "right", "fill"))


@register
class HFlip(_Flip):
    """Swap left and right, with probability `p`: when u0 < p.

    Args:
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "hflip"
    p: float = fields.number(0.5, least=0, most=1)
    name: str | None = fields.draw_name()


@register
class VFlip(_Flip):
    """Swap top and bottom, with probability `p`: when u0 < p.

    Args:
        p: The probability.
        name: What it draws by, in place of its number among those that have no name.
    """

    word = "vflip"
    p: float = fields.number(0.5, least=0, most=1)
    name: str | None = fields.draw_name()
