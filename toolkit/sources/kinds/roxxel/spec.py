"""What ROXXEL02 files are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolkit.sources.spec import COMMON, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "RoxxelSpec"]


class RoxxelSpec(SourceSpec):
    """Files of token ids that Roxxel 0.9 wrote."""

    name = "roxxel"
    title = "ROXXEL02 files"
    sign = "ROXXEL02 by content"
    survey_text = "every token id is read once, to find the largest"
    accepts = COMMON | {"eos", "eos_token"}
    has_images = False

    def looks_like(self, path: str) -> bool:
        """Tell whether the file ends as ROXXEL02 files do."""
        from toolkit.sources.kinds.roxxel.footer import looks_like_roxxel

        return looks_like_roxxel(path)

    def make(self, options: SourceOptions) -> Source:
        """Return what reads them."""
        from toolkit.sources.kinds.roxxel.source import RoxxelSource

        return RoxxelSource(options)


SPEC = RoxxelSpec()
