"""What paired files are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from toolkit.sources.spec import COMMON, SourceSpec

if TYPE_CHECKING:
    from toolkit.sources.base import Source
    from toolkit.sources.options import SourceOptions

__all__ = ["SPEC", "PairSpec"]


class PairSpec(SourceSpec):
    """A folder of files that belong together by what they are called: pictures, their masks, their captions."""

    name = "pairs"
    title = "a folder of paired files (--pair)"
    sign = "files that --pair names"
    survey_text = "files are listed, none is read"
    accepts = COMMON | {"pair", "limit", "kind", "classes", "missing"}
    skips: ClassVar[Mapping[str, tuple[str, str]]] = {
        "no_pattern": (
            "file or folder that fits no pattern of --pair",
            "files and folders that fit no pattern of --pair",
        ),
    }
    is_folder = True
    told_by = "pair"
    in_place = True

    def looks_like(self, path: str) -> bool:
        """Say no: no file tells by itself what it belongs to."""
        return False

    def make(self, options: SourceOptions) -> Source:
        """Return what reads it."""
        from toolkit.sources.kinds.pairs.source import PairSource

        return PairSource(options)


SPEC = PairSpec()
