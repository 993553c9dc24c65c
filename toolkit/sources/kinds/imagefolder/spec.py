"""What an image folder is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.images import IMAGE_EXTENSIONS, is_image
from toolkit.sources.spec import COMMON, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "ImageFolderSpec"]


class ImageFolderSpec(SourceSpec):
    """A folder of images, in folders of classes or not, below folders of splits or not."""

    name = "imagefolder"
    title = "an image folder ([SPLIT/]CLASS/IMAGE)"
    sign = f"images by name ({' '.join(IMAGE_EXTENSIONS)}) and by content"
    survey_text = "files are listed, no image is read"
    accepts = COMMON | {"limit", "label_mode", "require_labels", "classes", "splits"}
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "annotations": ("annotation file, which is not read", "annotation files, which are not read"),
        "not_images": ("file of another kind", "files of other kinds"),
    }
    is_folder = True
    in_place = True

    def looks_like(self, path: str) -> bool:
        """Tell whether the file is an image."""
        return is_image(path)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads it."""
        from toolkit.sources.kinds.imagefolder.source import ImageFolderSource

        return ImageFolderSource(options)


SPEC = ImageFolderSpec()
