"""Tell what kind of source a path is, by its content, and make it."""

from __future__ import annotations

from collections.abc import Callable

from toolkit.sources.base import Source
from toolkit.sources.imagefolder_source import ImageFolderSource
from toolkit.sources.kind import find_kind
from toolkit.sources.options import SourceKind, SourceOptions
from toolkit.sources.parquet import ParquetSource
from toolkit.sources.tfrecord import TFRecordSource
from toolkit.sources.webdataset import WebDatasetSource

__all__ = ["make_source"]


def make_source(kind: SourceKind | None, options: SourceOptions) -> tuple[SourceKind, Source]:
    """Return the source of that kind, or of the kind that the input is found to be, and the kind.

    Raises:
        SourceError: The input is of no kind that is known.
    """
    found = find_kind(options.paths) if kind is None else kind
    return found, _SOURCES[found](options)


_SOURCES: dict[SourceKind, Callable[[SourceOptions], Source]] = {
    SourceKind.IMAGEFOLDER: ImageFolderSource,
    SourceKind.PARQUET: ParquetSource,
    SourceKind.TFRECORD: TFRecordSource,
    SourceKind.WEBDATASET: WebDatasetSource,
}
