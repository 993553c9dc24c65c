"""Steps that make several pictures of one: five_crop, ten_crop and tile.

Behind them stand only steps that say how pixels are written.
"""

from __future__ import annotations

from typing import Self

from toolkit._native.image.program import MAX_SIDE
from toolkit.pipelines import fields
from toolkit.pipelines.check import a_size
from toolkit.pipelines.image.geometry import size_of
from toolkit.pipelines.image.image_step import PixelStep, places
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import MisfitError, State, ValueKind
from toolkit.pipelines.step import call_text

__all__ = ["FiveCrop", "TenCrop", "Tile"]


class _Views(PixelStep):
    __slots__ = ()
    height: int
    width: int

    @classmethod
    def of(cls, size: int | tuple[int, int]) -> Self:
        """Take both sides in one."""
        height, width = a_size(size, most=MAX_SIDE)
        return cls.checked(height=height, width=width)

    def text(self) -> str:
        """Write both sides in one."""
        return call_text(self.word, size_of(self))

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        return "native, on the whole picture"

    def _made(self, state: State, count: int | None) -> State:
        """Return so many pictures of the step's size."""
        rest = () if state.channels is None else (state.channels,)
        return State(ValueKind.VIEWS, state.dtype, (count, self.height, self.width, *rest), state.layout)


class _Crops(_Views):
    __slots__ = ()

    def _cut(self, state: State, count: int) -> State:
        """Return so many crops; a picture that is smaller can't have them."""
        for name, side, cut in zip(("height", "width"), places(self, state), (self.height, self.width), strict=True):
            if side is not None and side < cut:
                raise MisfitError(f"a {name} of {cut} pixels or more", side, "resize in front of it, or pad")
        return self._made(state, count)


@register
class FiveCrop(_Crops):
    """Cut out the four corners and the middle, `size` or (height, width) each: torchvision's FiveCrop.

    Gives (5, height, width, channels): top left, top right, bottom left, bottom right, middle. A smaller picture is
    an error.
    """

    word = "five_crop"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)

    def after(self, state: State) -> State:
        """Make five."""
        return self._cut(state, 5)


@register
class TenCrop(_Crops):
    """Cut out what five_crop does, and then the same of the flipped picture: torchvision's TenCrop.

    Gives (10, height, width, channels). A smaller picture is an error.

    Args:
        size: One number or (height, width) of each crop.
        vertical: Whether top and bottom are swapped for the second five, and not left and right.
    """

    word = "ten_crop"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)
    vertical: bool = fields.flag(False, keyword=True)

    @classmethod
    def of(cls, size: int | tuple[int, int], *, vertical: bool = False) -> Self:
        """Take both sides in one."""
        height, width = a_size(size, most=MAX_SIDE)
        return cls.checked(height=height, width=width, vertical=vertical)

    def after(self, state: State) -> State:
        """Make ten."""
        return self._cut(state, 10)

    def text(self) -> str:
        """Write both sides in one."""
        return call_text(self.word, size_of(self), **self.changed("vertical"))


@register
class Tile(_Views):
    """Cut into tiles of `size` or (height, width) without gaps: (tiles, height, width, channels), row by row.

    The picture's sides must be multiples of the tile's. Where its size isn't known before, samples come as a list.
    """

    word = "tile"
    height: int = fields.whole(most=MAX_SIDE)
    width: int = fields.whole(most=MAX_SIDE)

    def after(self, state: State) -> State:
        """Make as many as there are."""
        sides = places(self, state)
        for name, side, tile in zip(("height", "width"), sides, (self.height, self.width), strict=True):
            if side is not None and side % tile:
                fix = f"resize, crop or pad to a multiple of {tile} in front of it"
                raise MisfitError(f"a {name} that tiles of {tile} pixels divide", side, fix)
        height, width = sides
        known = height is not None and width is not None
        return self._made(state, height // self.height * (width // self.width) if known else None)  # type: ignore[operator]
