"""What a function of the user's own says when it gives pixels: the schema pixels()."""

from __future__ import annotations

from dataclasses import dataclass

from toolkit._native.image.program import MAX_SIDE
from toolkit.errors import PipelineError
from toolkit.escapes import short
from toolkit.pipelines.check import BadArgumentError, a_size
from toolkit.pipelines.state import Layout, State, ValueKind

__all__ = ["PIXEL_MODES", "Pixels", "pixels"]

PIXEL_MODES = {1: "gray", 3: "rgb", 4: "rgba"}  # of so many channels


@dataclass(frozen=True, slots=True)
class Pixels:
    """A schema of python(fn, schema): an image, which steps on pixels take. Made by pixels().

    Attributes:
        size: Height and width, or None: they may be any.
        channels: 1, 3 or 4.
    """

    size: tuple[int, int] | None
    channels: int

    def __repr__(self) -> str:
        size = () if self.size is None else (repr(self.size[0] if self.size[0] == self.size[1] else self.size),)
        channels = () if self.channels == 3 else (f"channels={self.channels}",)
        return f"pixels({', '.join((*size, *channels))})"

    @property
    def state(self) -> State:
        """What the value is."""
        height, width = self.size or (None, None)
        return State(ValueKind.PIXELS, "uint8", (height, width, self.channels), Layout.HWC)


def pixels(size: int | tuple[int, int] | None = None, *, channels: int = 3) -> Pixels:
    """Say that a function returns pixels, uint8 (height, width, channels): python(fn, pixels()).

    Every step on images may then follow, and runs natively.

    Args:
        size: Height and width, or one number for both; None: they may be any, and differ from sample to sample.
        channels: 1 (gray), 3 (red, green, blue) or 4 (with alpha).

    Raises:
        PipelineError: An argument can't be.
    """
    try:
        sides = None if size is None else a_size(size, most=MAX_SIDE)
        if isinstance(channels, bool) or channels not in PIXEL_MODES:
            raise BadArgumentError(f"channels must be 1, 3 or 4, got {short(channels, 80, quoted=True)}")
    except BadArgumentError as error:
        raise PipelineError(f"pixels(): {error}") from None
    return Pixels(sides, channels)
