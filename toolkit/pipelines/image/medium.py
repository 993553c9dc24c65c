"""Images as a medium."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit.format.media import IMAGE, StoredForm
from toolkit.pipelines.medium import Medium
from toolkit.pipelines.state import State, ValueKind

__all__ = ["ImageMedium"]

_CHANNELS = 3


class ImageMedium(Medium):
    """Image files, and uint8 pixels (height, width, 3)."""

    stored = IMAGE

    def state(self, form: StoredForm, column: str) -> State:
        """Return an image file or an image of pixels."""
        return State(ValueKind.RAW_IMAGE if form.is_decoded else ValueKind.IMAGE, column=column)

    def sizes_fault(self, nbytes: int, sizes: Sequence[int]) -> str | None:
        """Say why pixels don't fit the height, width and channels stored beside them, or None."""
        height, width, channels = sizes
        if channels != _CHANNELS or height < 1 or width < 1:
            return f"no size of a raw image: {height} x {width} pixels, {channels} channels"
        if nbytes != height * width * channels:
            return f"{nbytes} bytes of pixels for a raw image of {height} x {width} x {channels}"
        return None
