"""Tell which files are images: by their names, or by their first bytes where the name says nothing."""

from __future__ import annotations

import os
import stat

from toolkit.pipelines.image.formats import HEAD_BYTES, find_format

__all__ = ["IMAGE_EXTENSIONS", "is_camera_file", "is_image"]

IMAGE_EXTENSIONS = (
    *(".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"),  # torchvision's
    *(".gif", ".jfif"),
)

# Raw pictures of cameras begin as a TIFF does, and hold a thumbnail where a TIFF has its picture.
_CAMERA_EXTENSIONS = (".3fr", ".arw", ".cr2", ".dng", ".nef", ".nrw", ".pef", ".sr2", ".srw")


def is_image(path: str) -> bool:
    """Tell whether a file is an image: by its name, or by its first bytes where the name doesn't say so."""
    name = path.lower()
    if name.endswith(IMAGE_EXTENSIONS):
        return True
    if is_camera_file(name):
        return False
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:  # a link that leads nowhere, or nothing that may be read
        return False
    try:
        regular = stat.S_ISREG(os.fstat(file).st_mode)
        return regular and find_format(os.read(file, HEAD_BYTES)) is not None
    except OSError:
        return False
    finally:
        os.close(file)


def is_camera_file(name: str) -> bool:
    """Tell whether a name in lower case is that of a camera's raw picture, which no source takes for an image."""
    return name.endswith(_CAMERA_EXTENSIONS)
