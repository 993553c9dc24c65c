"""What a dataset holds, in figures: splits, classes, image sizes, first samples. Reads headers, decodes no pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.image.program import ImageError, probe
from toolkit._native.shards.fetch import FetchBuffer
from toolkit.errors import NotFoundError, UsageError, did_you_mean
from toolkit.format.contents import read_classes
from toolkit.format.layout import leaf_name
from toolkit.format.manifest import Manifest, Split
from toolkit.format.pin import Version, resolve
from toolkit.format.schema import KEY, Column, Kind
from toolkit.loader.api import Dataset
from toolkit.loader.api import open as open_dataset
from toolkit.loader.dataset.decoded import DecodedColumn, Sizes
from toolkit.pipelines.image.formats import open_picture
from toolkit.pipelines.image.pil_messages import heard
from toolkit.pipelines.media import held_medium

__all__ = [
    "ClassCount",
    "ColumnFacts",
    "FirstSample",
    "ImageFacts",
    "LabelFacts",
    "SampleImage",
    "SplitFacts",
    "Spread",
    "Summary",
    "summarise",
]

_TOP_CLASSES = 20
_CHUNK_ROWS = 64
_JPEG_MAGIC = b"\xff\xd8\xff"
_RAW = "raw"  # in place of a file format


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """A column as the manifest has it; `classes` is the number of names of a label column."""

    name: str
    kind: str
    arrow_type: str
    encoding: str | None
    classes: int | None


@dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """A split: its rows, shards, and bytes of shards."""

    rows: int
    shards: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class ClassCount:
    """How many samples a class has."""

    id: int
    name: str
    count: int


@dataclass(frozen=True, kw_only=True)
class LabelFacts:
    """A label column over the chosen splits.

    Attributes:
        classes: Names in the class map.
        top: The classes with the most samples, by count and then id.
        more: Classes with samples that `top` leaves out.
        empty: Names of the classes without a sample, by id.
        missing: Samples without a label.
    """

    classes: int
    top: tuple[ClassCount, ...]
    more: int
    empty: tuple[str, ...]
    missing: int


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Smallest, median, mean and largest of some values."""

    min: float
    median: float
    mean: float
    max: float


@dataclass(frozen=True, kw_only=True)
class ImageFacts:
    """An image column over the chosen splits, from the headers of `scanned` of `rows` evenly spaced samples.

    Attributes:
        missing: Scanned samples without an image.
        unreadable: Scanned images whose header can't be read.
        rotated: Images that EXIF turns or mirrors; width and height are as stored, before that.
        formats: Images by format, the most frequent first.
        width, height, bytes: None when no image could be read.
    """

    rows: int
    scanned: int
    missing: int
    unreadable: int
    rotated: int
    formats: dict[str, int]
    width: Spread | None
    height: Spread | None
    bytes: Spread | None


@dataclass(frozen=True, kw_only=True)
class SampleImage:
    """An image of a sample; without width, height and format when its header can't be read."""

    bytes: int
    width: int | None
    height: int | None
    format: str | None


@dataclass(frozen=True, kw_only=True)
class FirstSample:
    """A sample: its labels by name (None: missing) and images by column; `toolkit head` shows the other columns."""

    split: str
    row: int
    key: str
    labels: dict[str, str | None]
    images: dict[str, SampleImage | None]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """A version of a dataset in figures; `chosen` are the splits that labels, images and samples cover."""

    root: str
    pin: str
    format: int
    parent: str | None
    options: dict[str, object]
    user: dict[str, str]
    samples: int
    shards: int
    bytes: int
    columns: tuple[ColumnFacts, ...]
    splits: dict[str, SplitFacts]
    chosen: tuple[str, ...]
    labels: dict[str, LabelFacts]
    images: dict[str, ImageFacts]
    first: tuple[FirstSample, ...]


def summarise(reference: str, *, split: str | None = None, first: int = 5, scan: int = 10_000) -> Summary:
    """Return what the dataset holds.

    Args:
        reference: The dataset, as toolkit.open takes it.
        split: Only this split's labels, images and samples.
        first: How many first samples of each split.
        scan: How many image headers to read at the most; 0 reads none.

    Raises:
        NotFoundError, PinMismatchError, CorruptTableError, FormatError: As toolkit.open.
        CorruptShardError: A value that was read isn't what was packed.
    """
    if min(first, scan) < 0:
        raise UsageError(f"first and scan can't be negative, got {first} and {scan}")
    version = resolve(reference)
    manifest = version.manifest
    chosen = _chosen(reference, manifest, split)
    names = read_classes(version)
    # By its pin, so that a pack that ends in between can't mix two versions.
    pinned = f"{version.root}@sha256:{version.pin}"
    shown = [column.name for column in manifest.columns if column.kind in (Kind.IMAGE, Kind.LABEL)]
    datasets = {name: open_dataset(pinned, split=name, columns=shown) for name in chosen} if first or scan else {}
    splits = {
        name: SplitFacts(rows=s.rows, shards=sum(t.shards for t in s.tables), bytes=s.bytes)
        for name, s in manifest.splits.items()
    }
    return Summary(
        root=version.root,
        pin=version.pin,
        format=manifest.format,
        parent=manifest.parent,
        options=manifest.options,
        user=manifest.user,
        samples=sum(s.rows for s in splits.values()),
        shards=sum(s.shards for s in splits.values()),
        bytes=sum(s.bytes for s in splits.values()),
        columns=tuple(_column_facts(column, names) for column in manifest.columns),
        splits=splits,
        chosen=chosen,
        labels={name: _label_facts(name, known, [manifest.splits[s] for s in chosen]) for name, known in names.items()},
        images=_image_facts(version, list(datasets.values()), scan) if scan else {},
        first=tuple(
            _first_sample(dataset, row, names)
            for dataset in datasets.values()
            for row in range(min(first, len(dataset)))
        ),
    )


def _chosen(reference: str, manifest: Manifest, split: str | None) -> tuple[str, ...]:
    if split is None:
        return tuple(manifest.splits)
    if split not in manifest.splits:
        known = manifest.splits
        raise NotFoundError(
            f"{reference} has no split {split!r}; it has {', '.join(known)}.{did_you_mean(split, known)}"
        )
    return (split,)


def _column_facts(column: Column, names: dict[str, tuple[str, ...]]) -> ColumnFacts:
    return ColumnFacts(
        name=column.name,
        kind=column.kind.value,
        arrow_type=column.arrow_type,
        encoding=column.encoding,
        classes=len(names[column.name]) if column.name in names else None,
    )


def _label_facts(column: str, names: tuple[str, ...], splits: list[Split]) -> LabelFacts:
    counted = [split.labels[column] for split in splits if column in split.labels]
    totals = np.zeros(len(names), np.int64)
    for one in counted:
        totals += np.asarray(one.counts, np.int64)
    order = np.argsort(-totals, kind="stable")
    filled = int(np.count_nonzero(totals))
    return LabelFacts(
        classes=len(names),
        top=tuple(
            ClassCount(id=i, name=names[i], count=int(totals[i])) for i in order[: min(filled, _TOP_CLASSES)].tolist()
        ),
        more=max(0, filled - _TOP_CLASSES),
        empty=tuple(names[i] for i in np.flatnonzero(totals == 0).tolist()),
        missing=sum(one.missing for one in counted),
    )


def _image_facts(version: Version, datasets: list[Dataset], scan: int) -> dict[str, ImageFacts]:
    facts = {}
    rows = sum(len(dataset) for dataset in datasets)
    for column in version.manifest.columns:
        if column.kind is Kind.IMAGE:
            scanned = [
                row
                for dataset, chosen in zip(datasets, _evenly_spaced([len(d) for d in datasets], scan), strict=True)
                for row in _headers(dataset, column.name, chosen)
            ]
            facts[column.name] = _image_figures(scanned, rows)
    return facts


def _evenly_spaced(lengths: list[int], most: int) -> list[NDArray[np.int64]]:
    """Return which rows of each split to read: all, or `most` at equal distances over the splits together."""
    total = sum(lengths)
    if total <= most:
        return [np.arange(length, dtype=np.int64) for length in lengths]
    step, rest = divmod(total, most)
    rows = np.arange(most, dtype=np.int64) * step + np.arange(most, dtype=np.int64) * rest // most
    ends = np.cumsum(lengths)
    return [rows[(rows >= end - n) & (rows < end)] - (end - n) for n, end in zip(lengths, ends, strict=True)]


def _headers(dataset: Dataset, column: str, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    buffer = FetchBuffer()
    dtype = dataset.schema.field(column).type
    held = held_medium(Kind.IMAGE, dtype)
    assert held is not None
    for start in range(0, len(rows), _CHUNK_ROWS):
        part = rows[start : start + _CHUNK_ROWS]
        located = dataset.fetcher.locate(part)
        if held.form.is_decoded:
            found += _raw_headers(DecodedColumn(dataset.fetcher, column, held).sizes(located))
            continue
        values = dataset.fetcher.variable(leaf_name(column, "bytes"), located, buffer)
        for i in range(len(part)):
            data = values.bytes(i)
            if data is None:
                found.append({"bytes": None})
            else:
                width, height, kind, rotated = _header(data) or (None, None, None, None)
                found.append({"bytes": len(data), "width": width, "height": height, "format": kind, "rotated": rotated})
    return found


def _raw_headers(sizes: Sizes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for i in range(len(sizes.missing)):
        if sizes.missing[i]:
            found.append({"bytes": None})
        else:
            height, width, channels = sizes.shape(i)
            nbytes = height * width * channels
            found.append({"bytes": nbytes, "width": width, "height": height, "format": _RAW, "rotated": False})
    return found


def _header(data: bytes) -> tuple[int, int, str, bool] | None:
    """Return (width, height, format, turned by EXIF), or None when there is no header that can be read."""
    if data.startswith(_JPEG_MAGIC):
        try:
            width, height, _, orientation, _ = probe(data)
        except ImageError:
            return None
        return width, height, "JPEG", orientation > 1
    from PIL import ExifTags

    try:
        with open_picture(data) as image, heard():
            turned = image.getexif().get(ExifTags.Base.Orientation, 1) in range(2, 9)
            return image.width, image.height, image.format or "?", turned
    except Exception:  # PIL's plugins raise whatever damaged bytes lead them to
        return None


def _image_figures(scanned: list[dict[str, Any]], rows: int) -> ImageFacts:
    import polars as pl

    schema = {"bytes": pl.Int64, "width": pl.Int64, "height": pl.Int64, "format": pl.String, "rotated": pl.Boolean}
    frame = pl.DataFrame(scanned, schema=schema)
    readable = frame.drop_nulls("width")
    by_format = readable.group_by("format").len("count").sort(["count", "format"], descending=[True, False])
    spreads: dict[str, Spread | None] = {}
    for name, of in (("width", readable), ("height", readable), ("bytes", frame.drop_nulls("bytes"))):
        value = pl.col(name)
        row = of.select(min=value.min(), median=value.median(), mean=value.mean(), max=value.max()).row(0, named=True)
        spreads[name] = Spread(**row) if of.height else None
    return ImageFacts(
        rows=rows,
        scanned=frame.height,
        missing=int(frame["bytes"].null_count()),
        unreadable=int(frame["width"].null_count() - frame["bytes"].null_count()),
        rotated=int(readable["rotated"].sum()),
        formats=dict(by_format.iter_rows()),
        width=spreads["width"],
        height=spreads["height"],
        bytes=spreads["bytes"],
    )


def _first_sample(dataset: Dataset, row: int, names: dict[str, tuple[str, ...]]) -> FirstSample:
    sample = dataset[row]
    labels: dict[str, str | None] = {}
    images: dict[str, SampleImage | None] = {}
    for column in dataset.columns:
        value = sample[column.name]
        if column.kind is Kind.IMAGE:
            images[column.name] = None if value is None else _sample_image(value)
        elif column.kind is Kind.LABEL:
            labels[column.name] = None if value is None else _class_name(names[column.name], value)
    return FirstSample(split=dataset.split, row=row, key=sample[KEY], labels=labels, images=images)


def _class_name(names: tuple[str, ...], label: int) -> str:
    return names[label] if 0 <= label < len(names) else f"{label}, no class"


def _sample_image(data: bytes | NDArray[np.uint8]) -> SampleImage:
    if isinstance(data, np.ndarray):
        return SampleImage(bytes=data.nbytes, width=data.shape[1], height=data.shape[0], format=_RAW)
    width, height, kind, _ = _header(data) or (None, None, None, None)
    return SampleImage(bytes=len(data), width=width, height=height, format=kind)
