"""The first step of image slots: decode_image."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from toolkit._native.image.program import MAX_PIXELS
from toolkit.pipelines import fields
from toolkit.pipelines.image.formats import DEFAULT_MAX_PIXELS
from toolkit.pipelines.image.image_step import ENCODED, ImageStep
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import Layout, MisfitError, State, ValueKind

__all__ = ["Accuracy", "DecodeImage", "Mode", "Truncated"]

_DEFAULT_MAX_BYTES = 256 * 1024 * 1024  # of the file


class Mode(enum.Enum):
    """Channels that an image is decoded to: 3, 1 or 4."""

    RGB = "rgb"
    GRAY = "gray"
    RGBA = "rgba"


class Accuracy(enum.Enum):
    """EXACT agrees with Pillow within 1/255; FAST may scale in the DCT and resize before colour conversion."""

    EXACT = "exact"
    FAST = "fast"


class Truncated(enum.Enum):
    """What an image that ends too early is: an error, or a warning and gray pixels where it lacks some."""

    ERROR = "error"
    WARN = "warn"


_CHANNELS = {Mode.RGB: 3, Mode.GRAY: 1, Mode.RGBA: 4}


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeImage(ImageStep):
    """Decode to uint8 (height, width, channels).

    Args:
        mode: "rgb" (3 channels), "gray" (1) or "rgba" (4).
        exif: Turn it as its EXIF orientation says.
        max_pixels: More are an error, found in the header.
        max_bytes: A larger file is an error.
        truncated: What a file that ends too early is: "error", or "warn": gray where it lacks pixels.
        accuracy: "exact" agrees with Pillow within 1/255; "fast" may be 40 dB PSNR off it.
        icc: Convert to sRGB by the embedded profile.
    """

    word = "decode_image"
    limits = frozenset({"max_pixels", "max_bytes", "truncated"})
    takes_bytes = True
    mode: Mode = fields.choice(Mode, Mode.RGB, keyword=True)
    exif: bool = fields.flag(True, keyword=True)
    max_pixels: int = fields.whole(DEFAULT_MAX_PIXELS, most=MAX_PIXELS, keyword=True)
    max_bytes: int = fields.whole(_DEFAULT_MAX_BYTES, most=1 << 62, keyword=True)
    truncated: Truncated = fields.choice(Truncated, Truncated.ERROR, keyword=True)
    accuracy: Accuracy = fields.choice(Accuracy, Accuracy.EXACT, keyword=True)
    icc: bool = fields.flag(False, keyword=True)

    def after(self, state: State) -> State:
        """Make pixels of a stored image."""
        if state.kind is ValueKind.PIXELS:
            raise MisfitError("encoded image bytes", state, "decode once")
        if state.kind not in ENCODED:
            raise MisfitError("an image column", state, "only image files and bytes can be decoded")
        return State(ValueKind.PIXELS, "uint8", (None, None, _CHANNELS[self.mode]), Layout.HWC)

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        scaled = ", scaled" if self.accuracy is Accuracy.FAST else ""
        return f"native{scaled}; libjpeg-turbo for progressive and rare JPEGs; PIL for other formats"
