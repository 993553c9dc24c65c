"""Tell what kind of source a path is, by its content, and make it."""

from __future__ import annotations

from collections.abc import Callable

from toolkit.errors import UsageError
from toolkit.sources.base import Source
from toolkit.sources.imagefolder_source import ImageFolderSource
from toolkit.sources.kind import find_kind
from toolkit.sources.options import SourceKind, SourceOptions
from toolkit.sources.parquet import ParquetSource
from toolkit.sources.text import TextSource
from toolkit.sources.text_roxxel import RoxxelSource
from toolkit.sources.text_tokenized import TokenizedSource
from toolkit.sources.tfrecord import TFRecordSource
from toolkit.sources.webdataset import WebDatasetSource

__all__ = ["make_source"]


def make_source(kind: SourceKind | None, options: SourceOptions) -> tuple[SourceKind, Source]:
    """Return the source of that kind, or of the kind that the input is found to be, and the kind.

    Raises:
        SourceError: The input is of no kind that is known.
    """
    found = find_kind(options.paths) if kind is None else kind
    if options.tokenizer is not None:
        return found, TokenizedSource(found, options, _SOURCES[found])
    if found is not SourceKind.ROXXEL and (options.eos or options.eos_token is not None):
        raise UsageError("--eos and --eos-token belong to tokens: give --tokenizer, or leave them out")
    if found is not SourceKind.TEXT and options.text_column is not None:
        raise UsageError("--text-column names the field to tokenise: give --tokenizer, or choose fields with --columns")
    return found, _SOURCES[found](options)


_SOURCES: dict[SourceKind, Callable[[SourceOptions], Source]] = {
    SourceKind.IMAGEFOLDER: ImageFolderSource,
    SourceKind.PARQUET: ParquetSource,
    SourceKind.ROXXEL: RoxxelSource,
    SourceKind.TEXT: TextSource,
    SourceKind.TFRECORD: TFRecordSource,
    SourceKind.WEBDATASET: WebDatasetSource,
}
