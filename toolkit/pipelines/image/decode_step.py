"""The first step of image slots: decode_image."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Self

from toolkit._native.image.program import MAX_PIXELS
from toolkit.pipelines import fields
from toolkit.pipelines.check import BadArgumentError
from toolkit.pipelines.image.formats import DEFAULT_MAX_PIXELS
from toolkit.pipelines.image.image_step import ENCODED, ImageStep
from toolkit.pipelines.registry import register
from toolkit.pipelines.state import Layout, MisfitError, State, ValueKind

__all__ = ["Accuracy", "DecodeImage", "Mode", "Truncated"]

_DEFAULT_MAX_BYTES = 256 * 1024 * 1024  # of the file


class Mode(enum.Enum):
    """Channels that an image is decoded to: 3, 1 or 4; or one number a pixel, as it is stored."""

    RGB = "rgb"
    GRAY = "gray"
    RGBA = "rgba"
    ID = "id"


class Accuracy(enum.Enum):
    """EXACT agrees with Pillow within 1/255; FAST may scale in the DCT and resize before colour conversion."""

    EXACT = "exact"
    FAST = "fast"


class Truncated(enum.Enum):
    """What an image that ends too early is: an error, or a warning and gray pixels where it lacks some."""

    ERROR = "error"
    WARN = "warn"


_DEFAULT_IGNORE = 255
_MOST_ID = (1 << 16) - 1
_CHANNELS = {Mode.RGB: 3, Mode.GRAY: 1, Mode.RGBA: 4}


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeImage(ImageStep):
    """Decode to uint8 (height, width, channels), or in mode "id" to int32 (height, width).

    Ids are the numbers of masks and label maps, as they are stored: the place in a palette, a gray value of up to
    16 bits, or 0 (black) and 1. They are never converted, and a picture in colour is an error. Steps may move them,
    with filter="nearest"; none mixes them or changes their values.

    Args:
        mode: "rgb" (3 channels), "gray" (1), "rgba" (4) or "id".
        exif: Turn it as its EXIF orientation says.
        max_pixels: More are an error, found in the header.
        max_bytes: A larger file is an error.
        truncated: What a file that ends too early is: "error", or "warn": gray where it lacks pixels.
        accuracy: "exact" agrees with Pillow within 1/255; "fast" may be 40 dB PSNR off it.
        icc: Convert to sRGB by the embedded profile.
        ignore: With mode="id", what stands where a step finds no pixels, such as padding.
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
    ignore: int = fields.whole(_DEFAULT_IGNORE, least=0, most=_MOST_ID, keyword=True)

    @classmethod
    def checked(cls, **values: Any) -> Self:
        """Refuse what doesn't go together."""
        made = ImageStep.checked.__func__(cls, **values)  # type: ignore[attr-defined]
        if made.mode is Mode.ID and made.icc:
            raise BadArgumentError("icc converts colours, and ids have none: leave it out")
        if made.mode is not Mode.ID and made.ignore != _DEFAULT_IGNORE:
            raise BadArgumentError('ignore is an id: say mode="id", too')
        return made  # type: ignore[no-any-return]

    def after(self, state: State) -> State:
        """Make pixels of a stored image."""
        if state.is_picture:
            raise MisfitError("encoded image bytes", state, "decode once")
        if state.kind not in ENCODED:
            raise MisfitError("an image column", state, "only image files and bytes can be decoded")
        if self.mode is Mode.ID:
            if state.kind is ValueKind.RAW_IMAGE:
                raise MisfitError("image files", state, "pixels in colour have no ids")
            return State(ValueKind.IDS, "int32", (None, None), Layout.HW)
        return State(ValueKind.PIXELS, "uint8", (None, None, _CHANNELS[self.mode]), Layout.HWC)

    def identity(self) -> list[object]:
        """Leave ignore out where it stands for nothing."""
        name, values = ImageStep.identity(self)
        assert isinstance(values, dict)
        if self.ignore == _DEFAULT_IGNORE and self.mode is not Mode.ID:
            del values["ignore"]
        return [name, values]

    @property
    def native(self) -> str:
        """What runs it there, for explain()."""
        if self.mode is Mode.ID:
            return "PIL"
        scaled = ", scaled" if self.accuracy is Accuracy.FAST else ""
        return f"native{scaled}; libjpeg-turbo for progressive and rare JPEGs; PIL for other formats"
