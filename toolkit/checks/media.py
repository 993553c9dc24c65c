"""Facts of media columns, from headers and stored sizes alone: nothing is decoded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.fetch import FetchBuffer
from toolkit.format.layout import leaf_name
from toolkit.format.schema import Column
from toolkit.loader.api import Dataset
from toolkit.loader.dataset.decoded import DecodedColumn
from toolkit.pipelines.media import Held, held_medium
from toolkit.pipelines.medium import Header

__all__ = ["MediumFacts", "SampleFacts", "Spread", "media_facts", "sample_facts"]

_CHUNK_ROWS = 64


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Smallest, median, mean and largest of some values."""

    min: float
    median: float
    mean: float
    max: float


@dataclass(frozen=True, kw_only=True)
class MediumFacts:
    """A media column over the chosen splits, from the headers of `scanned` of `rows` evenly spaced samples.

    Attributes:
        plural: What its values are called.
        missing: Scanned samples without a value.
        unreadable: Scanned values whose header can't be read.
        marks: How many have each of the medium's marks.
        mark_texts: The words for these.
        formats: Values by format, the most frequent first.
        numbers: The medium's numbers; each None when no header could be read.
        bytes: None when there is no value.
    """

    plural: str
    rows: int
    scanned: int
    missing: int
    unreadable: int
    marks: dict[str, int]
    mark_texts: dict[str, str]
    formats: dict[str, int]
    numbers: dict[str, Spread | None]
    bytes: Spread | None

    def document(self) -> dict[str, object]:
        """Return the facts as a JSON object has them, marks and numbers under their names."""
        return {
            "rows": self.rows,
            "scanned": self.scanned,
            "missing": self.missing,
            "unreadable": self.unreadable,
            **self.marks,
            "formats": self.formats,
            **self.numbers,
            "bytes": self.bytes,
        }


@dataclass(frozen=True, kw_only=True)
class SampleFacts:
    """A value of a sample.

    Attributes:
        plural: What the column's values are called.
        numbers: The medium's numbers, by name.
        bytes: Its size; None when it is missing.
        header: None when it is missing, or its header can't be read.
    """

    plural: str
    numbers: tuple[str, ...]
    bytes: int | None
    header: Header | None

    def document(self) -> dict[str, object] | None:
        """Return them as a JSON object has them; None when the value is missing."""
        if self.bytes is None:
            return None
        known = self.header.numbers if self.header is not None else dict.fromkeys(self.numbers)
        return {"bytes": self.bytes, **known, "format": None if self.header is None else self.header.format}


def media_facts(datasets: Sequence[Dataset], columns: Sequence[Column], scan: int) -> dict[str, MediumFacts]:
    """Return the facts of each media column over all of `datasets`, of at most `scan` samples."""
    facts = {}
    rows = sum(len(dataset) for dataset in datasets)
    chosen = _evenly_spaced([len(dataset) for dataset in datasets], scan)
    for column in columns:
        held = _held(datasets, column)
        if held is not None:
            scanned = [
                value
                for dataset, some in zip(datasets, chosen, strict=True)
                for value in _headers(dataset, column.name, held, some)
            ]
            facts[column.name] = _figures(held, scanned, rows)
    return facts


def sample_facts(dataset: Dataset, column: Column, value: Any) -> SampleFacts | None:
    """Return what is known of the value of `ds[i]`; None of a column that holds no medium."""
    held = _held([dataset], column)
    if held is None:
        return None
    plural, numbers = held.medium.stored.plural, held.medium.numbers
    if value is None:
        return SampleFacts(plural=plural, numbers=numbers, bytes=None, header=None)
    if held.form.is_decoded:
        return SampleFacts(
            plural=plural, numbers=numbers, bytes=value.nbytes, header=held.medium.header_of(value.shape)
        )
    return SampleFacts(plural=plural, numbers=numbers, bytes=len(value), header=held.medium.header(value))


def _held(datasets: Sequence[Dataset], column: Column) -> Held | None:
    return held_medium(column.kind, datasets[0].schema.field(column.name).type) if datasets else None


def _evenly_spaced(lengths: list[int], most: int) -> list[NDArray[np.int64]]:
    """Return which rows of each split to read: all, or `most` at equal distances over the splits together."""
    total = sum(lengths)
    if total <= most:
        return [np.arange(length, dtype=np.int64) for length in lengths]
    step, rest = divmod(total, most)
    rows = np.arange(most, dtype=np.int64) * step + np.arange(most, dtype=np.int64) * rest // most
    ends = np.cumsum(lengths)
    return [rows[(rows >= end - n) & (rows < end)] - (end - n) for n, end in zip(lengths, ends, strict=True)]


def _headers(
    dataset: Dataset, column: str, held: Held, rows: NDArray[np.int64]
) -> Iterator[tuple[int | None, Header | None]]:
    """Yield (bytes, header) of each row."""
    buffer = FetchBuffer()
    for start in range(0, len(rows), _CHUNK_ROWS):
        located = dataset.fetcher.locate(rows[start : start + _CHUNK_ROWS])
        if held.form.is_decoded:
            sizes = DecodedColumn(dataset.fetcher, column, held).sizes(located)
            item = np.dtype(held.form.dtype).itemsize
            for i, missing in enumerate(sizes.missing.tolist()):
                shape = sizes.shape(i)
                yield (None, None) if missing else (int(np.prod(shape)) * item, held.medium.header_of(shape))
            continue
        values = dataset.fetcher.variable(leaf_name(column, held.form.payload), located, buffer)
        for i in range(len(located.rows)):
            data = values.bytes(i)
            yield (None, None) if data is None else (len(data), held.medium.header(data))


def _figures(held: Held, scanned: Sequence[tuple[int | None, Header | None]], rows: int) -> MediumFacts:
    import polars as pl

    headers = [header for _, header in scanned if header is not None]
    sizes = [nbytes for nbytes, _ in scanned if nbytes is not None]
    formats = pl.DataFrame({"format": [header.format for header in headers]}, schema={"format": pl.String})
    by_format = formats.group_by("format").len("count").sort(["count", "format"], descending=[True, False])
    return MediumFacts(
        plural=held.medium.stored.plural,
        rows=rows,
        scanned=len(scanned),
        missing=len(scanned) - len(sizes),
        unreadable=len(sizes) - len(headers),
        marks={mark: sum(mark in header.marks for header in headers) for mark in held.medium.marks},
        mark_texts=dict(held.medium.marks),
        formats=dict(by_format.iter_rows()),
        numbers={name: _spread([header.numbers[name] for header in headers]) for name in held.medium.numbers},
        bytes=_spread(sizes),
    )


def _spread(values: Sequence[float]) -> Spread | None:
    import polars as pl

    if not values:
        return None
    column = pl.Series(values)
    return Spread(**{name: getattr(column, name)() for name in ("min", "median", "mean", "max")})
