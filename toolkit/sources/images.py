"""Tell whether bytes begin as an image does, by the header alone."""

from __future__ import annotations

import io

from toolkit._native.image import UNSUPPORTED, ImageError, probe
from toolkit.sources.base import LARGEST_VALUE

__all__ = ["NotAnImageError", "check_header"]

_JPEG_MAGIC = b"\xff\xd8\xff"


class NotAnImageError(ValueError):
    """Why bytes are no image."""


def check_header(data: bytes | memoryview) -> None:
    """Raise NotAnImageError when `data` doesn't begin as an image that can be stored does."""
    if not len(data):
        raise NotAnImageError("empty file")
    if len(data) > LARGEST_VALUE:
        raise NotAnImageError(f"{len(data)} bytes are more than an image column holds (2 GiB)")
    if data[:3] == _JPEG_MAGIC:
        try:
            probe(data)
            return
        except ImageError as error:
            if error.status != UNSUPPORTED:  # CMYK and the like: PIL decodes them
                raise NotAnImageError(f"no readable JPEG header: {error}") from error
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)):
            pass
    except Exception as error:  # PIL's plugins raise whatever damaged bytes lead them to
        raise NotAnImageError("not an image: no header that is known") from error
