"""What a YOLO dataset is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, FIELDS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "YoloSpec"]


class YoloSpec(SourceSpec):
    """A folder with images/ and labels/, and a YAML file that names splits and classes or not."""

    name = "yolo"
    title = "YOLO (data.yaml, or images/ and labels/)"
    sign = "YOLO by a data.yaml, or by images/ beside labels/ with numbers"
    survey_text = "label files are read, no image is"
    accepts = COMMON | FIELDS | {"classes", "limit", "missing", "root"}
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "backgrounds": (
            "picture without a label file, packed without objects",
            "pictures without a label file, packed without objects",
        ),
        "no_image": ("label file without a picture", "label files without a picture"),
        "repeated_lines": ("line that repeats another of its label file", "lines that repeat another of their file"),
    }
    in_place = True

    def looks_like(self, path: str) -> bool:
        """Tell whether the file is a YAML file that names classes and splits."""
        from toolkit.sources.kinds.yolo.config import looks_like_config

        return looks_like_config(path)

    def takes_folder(self, path: str) -> bool:
        """Tell whether there is such a file in it, or images/ beside labels/ with lines of numbers."""
        from toolkit.sources.kinds.yolo.places import is_yolo

        return is_yolo(path)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads it."""
        from toolkit.sources.kinds.yolo.source import YoloSource

        return YoloSource(options)


SPEC = YoloSpec()
