"""Tell what kind of source an input is: a file by its first bytes, a folder by the files in it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from toolkit.errors import SourceError
from toolkit.sources.files import expand, refuse, walk
from toolkit.sources.options import SourceKind
from toolkit.sources.regular import check_regular
from toolkit.sources.images import IMAGE_EXTENSIONS, is_image
from toolkit.storage.local import storage_errors

__all__ = ["find_kind"]

_MOST_FILES_LOOKED_AT = 200


def find_kind(paths: Sequence[str]) -> SourceKind:
    """Return the kind of the input.

    A folder is what the first files in it are: images by their names or content, others by content. Files of no known
    kind don't count, and files of several kinds are not guessed at. Where no content tells, names do: the source then
    says what is wrong with its files.

    Raises:
        NotFoundError: A path isn't there.
        SourceError: It is of no kind that is known, or of several.
    """
    first = expand(paths[0])[0]
    if not os.path.isdir(first):
        with storage_errors("read", first):
            check_regular(first)
        kind = _file_kind(first) or _kind_by_name(first)
        if kind is None:
            raise SourceError(
                f"{first!r} is neither Parquet, TFRecord, ROXXEL02, text nor a tar: "
                "give --source-kind if it is one all the same"
            )
        return kind
    with storage_errors("read", first):
        found = {kind for kind in map(_kind_in_folder, _some_files(first)) if kind is not None}
    has_text = SourceKind.TEXT in found
    found.discard(SourceKind.TEXT)  # a list of classes, a README: text lies beside anything, and says the least
    if len(found) > 1:
        names = " and ".join(sorted(kind.value for kind in found))
        raise SourceError(f"{first!r} holds files of several kinds ({names}): say which with --source-kind")
    if found:
        return found.pop()
    named = {kind for kind in map(_kind_by_name, _some_files(first)) if kind is not None}
    if len(named) == 1:
        return named.pop()
    # An image may lie further down than was looked.
    everything = [os.path.join(base, name) for base, files in walk(first, refuse) for name in files]
    if any(map(is_image, everything)):
        return SourceKind.IMAGEFOLDER
    if has_text:
        return SourceKind.TEXT
    raise SourceError(
        f"nothing to pack in {first!r}: {_files_text(len(everything))}. Looked by name for images "
        f"({' '.join(IMAGE_EXTENSIONS)}) and text, and by content for images, Parquet, TFRecord, ROXXEL02 and tars. "
        "Give the folder that holds them, or say what the files are with --source-kind"
    )


def _files_text(number: int) -> str:
    return "no files" if number == 0 else "1 file" if number == 1 else f"{number} files"


def _file_kind(path: str) -> SourceKind | None:
    # Late: a folder of images needs none of these, and they bring more than its own source.
    from toolkit.sources.kinds.parquet.files import looks_like_parquet
    from toolkit.sources.kinds.text.source import looks_like_text
    from toolkit.sources.kinds.roxxel.source import looks_like_roxxel
    from toolkit.sources.kinds.tfrecord.records import looks_like_tfrecord
    from toolkit.sources.kinds.webdataset.source import looks_like_webdataset

    by_content = {
        SourceKind.PARQUET: looks_like_parquet,
        SourceKind.WEBDATASET: looks_like_webdataset,
        SourceKind.TFRECORD: looks_like_tfrecord,
        SourceKind.ROXXEL: looks_like_roxxel,
        SourceKind.TEXT: looks_like_text,  # last: it goes by the name alone
    }
    return next((kind for kind, looks in by_content.items() if looks(path)), None)


def _kind_by_name(path: str) -> SourceKind | None:
    from toolkit.sources.kinds.parquet.files import SUFFIXES as PARQUET_SUFFIXES
    from toolkit.sources.kinds.tfrecord.records import is_named_tfrecord
    from toolkit.sources.kinds.webdataset.source import SUFFIXES as TAR_SUFFIXES

    if path.lower().endswith(PARQUET_SUFFIXES):
        return SourceKind.PARQUET
    if path.lower().endswith(TAR_SUFFIXES):
        return SourceKind.WEBDATASET
    return SourceKind.TFRECORD if is_named_tfrecord(path) else None


def _kind_in_folder(path: str) -> SourceKind | None:
    return SourceKind.IMAGEFOLDER if is_image(path) else _file_kind(path)


def _some_files(folder: str) -> Iterator[str]:
    """Yield the first files below a folder, in the order of their names, hidden ones left out."""
    left = _MOST_FILES_LOOKED_AT
    for base, files in walk(folder):
        for name in files:
            if left == 0:
                return
            if not name.startswith((".", "_")) and os.path.isfile(os.path.join(base, name)):
                left -= 1
                yield os.path.join(base, name)
