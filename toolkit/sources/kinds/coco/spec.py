"""What COCO annotations are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, TABLES, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "CocoSpec"]


class CocoSpec(SourceSpec):
    """JSON files of images, annotations and categories, beside folders of the pictures."""

    name = "coco"
    title = "COCO annotations"
    sign = "COCO annotations by content (.json)"
    survey_text = "annotation files are read whole, and headers of some pictures"
    accepts = COMMON | TABLES | {"root", "fetch_urls", "fetch_hosts"}
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "no_picture": ("annotation of no image", "annotations of no image"),
        "left_out_fields": ("field that isn't packed", "fields that aren't packed"),
        "panoptic": ("panoptic file", "panoptic files"),
    }
    in_place = True

    def looks_like(self, path: str) -> bool:
        """Tell whether a JSON file begins as COCO annotations do."""
        from toolkit.sources.kinds.coco.looks import looks_like_coco

        return looks_like_coco(path)

    def takes_folder(self, path: str) -> bool:
        """Tell whether the folder has annotations/*.json, or annotations beside the pictures of a split."""
        from toolkit.sources.kinds.coco.looks import takes_folder

        return takes_folder(path)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.coco.source import CocoSource

        return CocoSource(options)


SPEC = CocoSpec()
