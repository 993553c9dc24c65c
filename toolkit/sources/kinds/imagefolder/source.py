"""An ImageFolder as a source: the scan cut into slices, and the files of a slice as rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from toolkit.errors import UsageError
from toolkit.format.arrays import bits_buffer
from toolkit.format.media import IMAGE
from toolkit.format.schema import KEY, image_column, label_column
from toolkit.sources.base import ROW_OVERHEAD_BYTES, Rows, Slice, Source, Survey, rows_schema
from toolkit.sources.in_place import Places, check_place
from toolkit.sources.kinds.imagefolder.entries import NO_LABEL, Entries
from toolkit.sources.kinds.imagefolder.images import MOST_FILES, pieces, read_images, without_large
from toolkit.sources.kinds.imagefolder.scan import ImageFolderOptions, scan_imagefolder
from toolkit.sources.names import printable
from toolkit.sources.options import PlacesWanted, SourceOptions
from toolkit.sources.path_arrays import base_names, below
from toolkit.sources.payloads import payload_column
from toolkit.sources.reject import Reject
from toolkit.sources.shuffle import shuffled

__all__ = ["ImageFolderSource"]

_IMAGE = "image"


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
            empty_too=options.places is PlacesWanted.ONLY,
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
            columns=(image_column(_IMAGE), *([label_column("label", "")] if labelled else [])),
            types={_IMAGE: IMAGE.source_form.type, "label": pa.int64()},
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
        """Read the slice's files; none of them where only their places are wanted."""
        schema = rows_schema(survey)
        listed: Entries = part.payload  # type: ignore[assignment]
        if self._options.places is not PlacesWanted.NONE:
            check_place(listed.root)
        for piece in self._pieces(listed):
            entries, images, rejects = self._read(piece)
            names = base_names(entries.key_array)
            batch = _batch(entries, images, names, schema)
            yield Rows(batch, rejects, int(piece.sizes.sum()), self._places(entries, names))

    def _pieces(self, listed: Entries) -> Iterator[Entries]:
        if self._options.places is not PlacesWanted.ONLY:
            return pieces(listed)
        return (listed[start : start + MOST_FILES] for start in range(0, len(listed), MOST_FILES))

    def _read(self, entries: Entries) -> tuple[Entries, pa.Array, tuple[Reject, ...]]:
        """Return the entries that are rows, their bytes or nulls, and the others."""
        options = self._options
        if options.places is not PlacesWanted.ONLY:
            return read_images(entries, options.verify_images, options.max_value_bytes)
        entries, rejects = without_large(entries, options.max_value_bytes)
        return entries, pa.nulls(len(entries), pa.binary()), rejects

    def _places(self, entries: Entries, names: pa.Array) -> Mapping[str, Places]:
        if self._options.places is PlacesWanted.NONE:
            return {}
        files, starts = below(entries.root, entries.key_array), np.zeros(len(entries), np.int64)
        return {_IMAGE: Places(files, starts, entries.sizes, entries.sizes, entries.mtimes_ns, names)}

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
    sizes = entries.sizes + 2 * entries.letters + ROW_OVERHEAD_BYTES
    ends = np.cumsum(sizes)
    start = number = 0
    while start < len(entries):
        before = int(ends[start] - sizes[start])
        stop = max(start + 1, int(np.searchsorted(ends, before + slice_bytes, side="right")))
        part = entries[start:stop]
        yield Slice(split, number, len(part), int(part.sizes.sum()), part)
        start, number = stop, number + 1


def _batch(entries: Entries, images: pa.Array, names: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    known = entries.labels != NO_LABEL
    validity = None if known.all() else bits_buffer(known)
    labels = pa.py_buffer(np.where(known, entries.labels, 0).astype(np.int64))
    columns = {
        KEY: entries.key_array,
        _IMAGE: payload_column(IMAGE.source_form, images, names),
        "label": pa.Array.from_buffers(pa.int64(), len(entries), [validity, labels]),
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
