"""Images as a medium."""

from __future__ import annotations

from collections.abc import Sequence

from toolkit._native.image.program import UNSUPPORTED, ImageError, probe
from toolkit.format.media import IMAGE, StoredForm
from toolkit.pipelines.image.encode import ImageEncoder
from toolkit.pipelines.image.formats import NotAPictureError, find_format, open_picture
from toolkit.pipelines.medium import Medium, Shaping, UnfitMediumError
from toolkit.pipelines.state import State, ValueKind

__all__ = ["ImageMedium"]

_CHANNELS = 3
_JPEG_MAGIC = b"\xff\xd8\xff"


class ImageMedium(Medium):
    """Image files, and uint8 pixels (height, width, 3)."""

    stored = IMAGE
    extensions = frozenset(
        {
            *("jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp", "gif", "jfif"),
            *("apng", "avif", "j2k", "jp2", "jpe", "jpf", "jpx", "pbm", "pfm", "pnm"),
        }
    )

    def begins(self, head: bytes) -> bool:
        """Tell whether one of the formats that are decoded begins so."""
        return find_format(head) is not None

    def check_header(self, payload: bytes | memoryview) -> None:
        """Read the header, a JPEG's natively."""
        if payload[:3] == _JPEG_MAGIC:
            try:
                probe(payload)
                return
            except ImageError as error:
                if error.status != UNSUPPORTED:  # CMYK and the like: PIL decodes them
                    raise UnfitMediumError(f"no readable JPEG header: {error}") from error
        try:
            open_picture(payload).close()
        except NotAPictureError as error:
            raise UnfitMediumError(str(error)) from error

    def encoder(self, shaping: Shaping) -> ImageEncoder:
        """Return what keeps files, or stores JPEGs or pixels."""
        return ImageEncoder(shaping)

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
