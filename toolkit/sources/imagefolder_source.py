"""An ImageFolder as a source: the scan cut into slices, and the files of a slice as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from toolkit.format.schema import IMAGE_TYPE, image_column, label_column
from toolkit.sources.base import PIECE_BYTES, ROW_OVERHEAD_BYTES, Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.imagefolder import Entry, ImageFolderOptions, scan_imagefolder
from toolkit.sources.images import NotAnImageError, check_header
from toolkit.sources.options import SourceKind, SourceOptions
from toolkit.sources.reject import Reject
from toolkit.sources.scan import printable
from toolkit.sources.shuffle import shuffled
from toolkit.storage.local import storage_errors

__all__ = ["ImageFolderSource"]


class ImageFolderSource(Source):
    """A folder of images, in folders of classes or not, below folders of splits or not."""

    def __init__(self, options: SourceOptions) -> None:
        options.refuse(SourceKind.IMAGEFOLDER, "mapping", "columns", "rename", "kinds", "key", "missing", "raw")
        options.refuse(SourceKind.IMAGEFOLDER, "include", "exclude")
        self._options = options

    def survey(self) -> Survey:
        """List the files and decide labels; read no image."""
        options = self._options
        scan = scan_imagefolder(
            options.paths[0],
            ImageFolderOptions(
                label_mode=options.label_mode,
                require_labels=options.require_labels,
                classes=options.classes,
                split=options.split,
                limit=options.limit,
            ),
        )
        labelled = scan.classes is not None
        return Survey(
            columns=(image_column("image"), *([label_column("label", "")] if labelled else [])),
            types={"image": IMAGE_TYPE, "label": pa.int64()},
            classes={"label": scan.classes} if scan.classes is not None else {},
            splits=tuple(scan.splits),
            slices=tuple(
                part
                for split, entries in scan.splits.items()
                for part in _cut(split, _ordered(split, entries, options.shuffle_seed), options.slice_bytes)
            ),
            skipped={
                "hidden": scan.skipped_hidden,
                "loops": scan.skipped_loops,
                "not_images": scan.skipped_not_images,
            },
            rejects=tuple(scan.rejects),
            options={
                "classes_given": options.classes is not None,
                "label_mode": options.label_mode.value,
                "limit": options.limit,
                "source_kind": SourceKind.IMAGEFOLDER.value,
                "split": options.split,
            },
            shuffled=options.shuffle_seed is not None,
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read the slice's files."""
        schema = rows_schema(survey)
        pending: list[tuple[Entry, bytes]] = []
        rejects: list[Reject] = []
        size = read = 0
        for entry in part.payload:  # type: ignore[attr-defined]
            try:
                data = _read(entry)
                check_header(data)
            except NotAnImageError as fault:
                rejects.append(Reject(source=printable(entry.path), key=entry.key, reason=str(fault)))
            else:
                pending.append((entry, data))
                size += len(data)
            read += entry.bytes
            if size >= PIECE_BYTES:
                yield Rows(_batch(pending, schema), tuple(rejects), read)
                pending, rejects, size, read = [], [], 0, 0
        if pending or rejects:
            yield Rows(_batch(pending, schema), tuple(rejects), read)


def _ordered(split: str, entries: Sequence[Entry], seed: int | None) -> Sequence[Entry]:
    if seed is None or not entries:
        return entries
    places = np.arange(len(entries), dtype=np.int64)
    return [entries[i] for i in shuffled(len(entries), seed, split, places).tolist()]


def _cut(split: str, entries: Sequence[Entry], slice_bytes: int) -> Iterator[Slice]:
    """Cut where the files' sizes fill a slice."""
    start = total = number = read = 0
    for i, entry in enumerate(entries):
        size = entry.bytes + 2 * len(entry.key) + ROW_OVERHEAD_BYTES
        if i > start and total + size > slice_bytes:
            yield Slice(split, number, i - start, read, tuple(entries[start:i]))
            start, total, read, number = i, 0, 0, number + 1
        total += size
        read += entry.bytes
    if entries:
        yield Slice(split, number, len(entries) - start, read, tuple(entries[start:]))


def _read(entry: Entry) -> bytes:
    try:
        with open(entry.path, "rb", buffering=0) as file:
            return file.read()
    except FileNotFoundError as error:
        raise NotAnImageError("vanished during the pack") from error
    except PermissionError as error:
        raise NotAnImageError("permission denied") from error
    except OSError:
        with storage_errors("read", entry.path):
            raise


def _batch(files: Sequence[tuple[Entry, bytes]], schema: pa.Schema) -> pa.RecordBatch:
    names = [entry.key.rpartition("/")[2] for entry, _ in files]
    columns = {
        "__key__": pa.array([entry.key for entry, _ in files], pa.string()),
        "image": pa.StructArray.from_arrays(
            [pa.array([data for _, data in files], pa.binary()), pa.array(names, pa.string())], fields=list(IMAGE_TYPE)
        ),
        "label": pa.array([entry.label for entry, _ in files], pa.int64()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
