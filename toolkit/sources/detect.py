"""Tell what kind of source a path is, by its content, and make it."""

from __future__ import annotations

from toolkit.sources.base import Source
from toolkit.sources.imagefolder_source import ImageFolderSource
from toolkit.sources.options import SourceKind, SourceOptions

__all__ = ["make_source"]


def make_source(kind: SourceKind | None, options: SourceOptions) -> tuple[SourceKind, Source]:
    """Return the source of that kind, or of the kind that the input is found to be, and the kind.

    Raises:
        SourceError: The input is of no kind that is known.
    """
    found = SourceKind.IMAGEFOLDER if kind is None else kind
    return found, _SOURCES[found](options)


_SOURCES = {SourceKind.IMAGEFOLDER: ImageFolderSource}
