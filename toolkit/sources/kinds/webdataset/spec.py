"""What a WebDataset is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, FIELDS, TOKENS, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "WebDatasetSpec"]


class WebDatasetSpec(SourceSpec):
    """Tars of samples: members with the same key, one behind the other."""

    name = "webdataset"
    title = "WebDataset tars"
    sign = "tars by content"
    survey_text = "the headers in tars are read, and compressed tars whole"
    accepts = COMMON | FIELDS | TOKENS | {"limit", "classes", "missing"}  # no key: the names in a tar have it
    renames = True
    in_place = True
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "folders": ("folder in a tar", "folders in tars"),
        "links": ("link in a tar", "links in tars"),
        "meta": ("metadata file in a tar", "metadata files in tars"),
        "missing": ("sample that lacks a column", "samples that lack a column"),
        "no_extension": ("name without an extension", "names without an extension"),
        "other_types": ("tar member of another type", "tar members of other types"),
        "sparse": ("sparse file in a tar", "sparse files in tars"),
    }

    def looks_like(self, path: str) -> bool:
        """Tell whether the file begins as a tar does, compressed or not."""
        from toolkit.sources.kinds.webdataset.tar import looks_like_tar

        return looks_like_tar(path)

    def is_named(self, name: str) -> bool:
        """Tell whether a file is called as tars are."""
        from toolkit.sources.kinds.webdataset.tar import SUFFIXES

        return name.lower().endswith(SUFFIXES)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.webdataset.source import WebDatasetSource

        return WebDatasetSource(options)


SPEC = WebDatasetSpec()
