"""Tell whether bytes can be stored as an image, by their size and header alone."""

from __future__ import annotations

from toolkit._native.image.program import UNSUPPORTED, ImageError, probe
from toolkit.pipelines.image.formats import NotAPictureError, open_picture
from toolkit.sources.base import LARGEST_VALUE
from toolkit.sources.options import VerifyImages

__all__ = ["NotAnImageError", "check_header", "check_image"]

_JPEG_MAGIC = b"\xff\xd8\xff"


class NotAnImageError(ValueError):
    """Why bytes are no image."""


def check_image(data: bytes | memoryview, verify: VerifyImages) -> None:
    """Raise NotAnImageError when `data` can't be stored as an image, or doesn't begin as one unless `verify` is OFF."""
    if verify is VerifyImages.OFF:
        _check_size(data)
    else:
        check_header(data)


def check_header(data: bytes | memoryview) -> None:
    """Raise NotAnImageError when `data` doesn't begin as an image that can be stored does."""
    if not len(data):
        raise NotAnImageError("empty file")
    _check_size(data)
    if data[:3] == _JPEG_MAGIC:
        try:
            probe(data)
            return
        except ImageError as error:
            if error.status != UNSUPPORTED:  # CMYK and the like: PIL decodes them
                raise NotAnImageError(f"no readable JPEG header: {error}") from error
    try:
        open_picture(data).close()
    except NotAPictureError as error:
        raise NotAnImageError(str(error)) from error


def _check_size(data: bytes | memoryview) -> None:
    if len(data) > LARGEST_VALUE:
        raise NotAnImageError(f"{len(data)} bytes are more than an image column holds (2 GiB)")
