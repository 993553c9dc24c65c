"""What a folder of Pascal VOC is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, FIELDS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "VocSpec"]


class VocSpec(SourceSpec):
    """A VOCdevkit folder, or the folder of one year in it."""

    name = "voc"
    title = "Pascal VOC (JPEGImages/ and Annotations/)"
    sign = "Pascal VOC by its folders JPEGImages and Annotations"
    survey_text = "annotations and lists are read, no image is"
    accepts = COMMON | FIELDS | {"classes", "limit", "missing", "splits"}
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "no_annotation": ("picture without an annotation", "pictures without an annotation"),
        "no_picture": ("annotation or mask without a picture", "annotations and masks without a picture"),
        "parts": ("part of an object", "parts of objects"),
    }
    is_folder = True
    in_place = True

    def looks_like(self, path: str) -> bool:
        """Say no: it takes a folder, and its files are pictures, which other kinds take too."""
        return False

    def takes_folder(self, path: str) -> bool:
        """Tell whether there are pictures beside annotations or masks, in it or in folders called VOC…."""
        from toolkit.sources.kinds.voc.devkit import find_years

        return bool(find_years(path))

    def make(self, options: SourceOptions) -> Source:
        """Return what reads it."""
        from toolkit.sources.kinds.voc.source import VocSource

        return VocSource(options)


SPEC = VocSpec()
