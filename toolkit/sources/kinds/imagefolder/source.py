"""An ImageFolder as a source: the scan cut into slices, and the files of a slice as rows."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from toolkit.errors import UsageError
from toolkit.format.arrays import to_array
from toolkit.format.media import IMAGE
from toolkit.format.schema import KEY, image_column, label_column
from toolkit.sources.base import ROW_OVERHEAD_BYTES, Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.kinds.imagefolder.entries import NO_LABEL, Entries
from toolkit.sources.kinds.imagefolder.images import pieces, read_images
from toolkit.sources.kinds.imagefolder.scan import ImageFolderOptions, scan_imagefolder
from toolkit.sources.names import printable
from toolkit.sources.options import SourceOptions
from toolkit.sources.payloads import payload_column
from toolkit.sources.shuffle import shuffled

__all__ = ["ImageFolderSource"]

_KEYS_AT_A_TIME = 65536


class ImageFolderSource(Source):
    """A folder of images, in folders of classes or not, below folders of splits or not."""

    def __init__(self, options: SourceOptions) -> None:
        if len(options.paths) > 1:
            raise UsageError(
                f"an image folder is one SOURCE, and there are {len(options.paths)}: pack the first, then the others "
                "with --on-existing append"
            )
        self._options = options
        self._folder = ImageFolderOptions(
            label_mode=options.label_mode,
            require_labels=options.require_labels,
            classes=options.classes,
            split=options.split,
            limit=options.limit,
            splits=options.splits,
            follow_links=options.follow_links,
            include=options.include,
            exclude=options.exclude,
        )

    def survey(self) -> Survey:
        """List the files and decide labels; read no image."""
        options = self._options
        scan = scan_imagefolder(
            options.paths[0],
            self._folder,
        )
        labelled = scan.classes is not None
        return Survey(
            columns=(image_column("image"), *([label_column("label", "")] if labelled else [])),
            types={"image": IMAGE.source_form.type, "label": pa.int64()},
            classes={"label": scan.classes} if scan.classes is not None else {},
            splits=tuple(scan.splits),
            slices=tuple(
                part
                for split, entries in scan.splits.items()
                for part in _cut(split, _ordered(split, entries, options.shuffle_seed), options.slice_bytes)
            ),
            skipped={
                **scan.skipped,
                **({"excluded": scan.excluded} if options.include or options.exclude else {}),
            },
            skipped_names=scan.skipped_names,
            rejects=tuple(scan.rejects),
            options={
                "classes_given": options.classes is not None,
                "label_mode": options.label_mode.value,
                "limit": options.limit,
                "split": options.split,
                **self._chosen(),
            },
            shuffled=options.shuffle_seed is not None,
            left_out=scan.left_out,
            warnings=scan.doubts,
        )

    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Read the slice's files."""
        schema = rows_schema(survey)
        for listed in pieces(part.payload):  # type: ignore[arg-type]
            entries, images, rejects = read_images(listed, self._options.verify_images, self._options.max_value_bytes)
            yield Rows(_batch(entries, images, schema), rejects, int(listed.sizes.sum()))

    def _chosen(self) -> dict[str, object]:
        """Return the options that choose files, where they are given."""
        options = self._options
        chosen = {
            "exclude": [printable(pattern) for pattern in options.exclude],
            "include": [printable(pattern) for pattern in options.include],
            "splits": {split: [printable(one) for one in folders] for split, folders in options.splits.items()},
        }
        return {name: value for name, value in chosen.items() if value}

    def place(self, part: Slice, key: str) -> str:
        """Return the path of the file with that key."""
        entries: Entries = part.payload  # type: ignore[assignment]
        return printable(os.path.join(entries.root, key))


def _ordered(split: str, entries: Entries, seed: int | None) -> Entries:
    if seed is None or not entries:
        return entries
    return entries.take(shuffled(len(entries), seed, split, np.arange(len(entries), dtype=np.int64)))


def _cut(split: str, entries: Entries, slice_bytes: int) -> Iterator[Slice]:
    """Cut where the files' sizes fill a slice."""
    start = total = number = read = 0
    for i, (nbytes, letters) in enumerate(_sizes(entries)):
        size = nbytes + 2 * letters + ROW_OVERHEAD_BYTES
        if i > start and total + size > slice_bytes:
            yield Slice(split, number, i - start, read, entries[start:i])
            start, total, read, number = i, 0, 0, number + 1
        total += size
        read += nbytes
    if entries:
        yield Slice(split, number, len(entries) - start, read, entries[start:])


def _sizes(entries: Entries) -> Iterator[tuple[int, int]]:
    """Yield each file's bytes, and the length of its key, a part of them in memory at a time."""
    for start in range(0, len(entries), _KEYS_AT_A_TIME):
        part = entries[start : start + _KEYS_AT_A_TIME]
        yield from zip(part.sizes.tolist(), map(len, part.keys), strict=True)


def _batch(entries: Entries, images: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    keys = entries.keys
    names = to_array([key.rpartition("/")[2] for key in keys], pa.string())
    labels = [None if label == NO_LABEL else label for label in entries.labels.tolist()]
    columns = {
        KEY: to_array(keys, pa.string()),
        "image": payload_column(IMAGE.source_form, images, names),
        "label": to_array(labels, pa.int64()),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
