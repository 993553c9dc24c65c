"""Tell what kind of source a path is, by its content, and make it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from toolkit.errors import UsageError
from toolkit.sources.base import Source
from toolkit.sources.detect import find_kind
from toolkit.sources.options import SourceKind, SourceOptions
from toolkit.sources.splits import check_name

__all__ = ["check_options", "make_source"]


def make_source(kind: SourceKind | None, options: SourceOptions) -> tuple[SourceKind, Source]:
    """Return the source of that kind, or of the kind that the input is found to be, and the kind.

    Raises:
        SourceError: The input is of no kind that is known.
    """
    found = find_kind(options.paths) if kind is None else kind
    _check_of_kind(found, options)
    if options.tokenizer is not None:
        from toolkit.sources.tokenized import TokenizedSource

        return found, TokenizedSource(found, options, _source(found))
    return found, _source(found)(options)


def check_options(kind: SourceKind | None, options: SourceOptions) -> None:
    """Refuse options that make_source() would refuse for an input of that kind, or of every kind. Reads nothing.

    Raises:
        UsageError: An option means nothing for the kind, or contradicts another.
    """
    faults = []
    for one in SourceKind if kind is None else [kind]:
        try:
            _check_of_kind(one, options)
            return
        except UsageError as error:
            faults.append(error)
    # What most kinds say: the others have reasons of their own.
    said = Counter(map(str, faults)).most_common(1)[0][0]
    raise next(fault for fault in faults if str(fault) == said)


def _check_of_kind(kind: SourceKind, options: SourceOptions) -> None:
    if options.split is not None:
        check_name(options.split)
    if kind is not SourceKind.IMAGEFOLDER:
        options.refuse(kind, "splits")
    if options.tokenizer is not None:
        from toolkit.sources.tokenized import check_tokenized, text_options

        check_tokenized(kind, options)
        _source(kind)(text_options(kind, options))
        return
    if kind is not SourceKind.ROXXEL and (options.eos or options.eos_token is not None):
        raise UsageError("--eos and --eos-token belong to tokens: give --tokenizer, or leave them out")
    if kind is not SourceKind.TEXT and options.text_column is not None:
        raise UsageError("--text-column names the field to tokenise: give --tokenizer, or choose fields with --columns")
    _source(kind)(options)  # each checks its own options when it is made, and reads nothing


def _source(kind: SourceKind) -> Callable[[SourceOptions], Source]:
    """Return what makes a source of that kind. Imported late: a pack needs the libraries of one kind, not of all."""
    match kind:
        case SourceKind.IMAGEFOLDER:
            from toolkit.sources.kinds.imagefolder.source import ImageFolderSource

            return ImageFolderSource
        case SourceKind.PARQUET:
            from toolkit.sources.kinds.parquet.source import ParquetSource

            return ParquetSource
        case SourceKind.ROXXEL:
            from toolkit.sources.kinds.roxxel.source import RoxxelSource

            return RoxxelSource
        case SourceKind.TEXT:
            from toolkit.sources.kinds.text.source import TextSource

            return TextSource
        case SourceKind.TFRECORD:
            from toolkit.sources.kinds.tfrecord.source import TFRecordSource

            return TFRecordSource
        case SourceKind.WEBDATASET:
            from toolkit.sources.kinds.webdataset.source import WebDatasetSource

            return WebDatasetSource
