"""Facts of media columns: from derived columns; where a dataset has none, from headers and stored sizes.

Nothing is decoded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit._native.shards.fetch import FetchBuffer
from toolkit.format.layout import leaf_name
from toolkit.format.references import UNHASHED, is_reference
from toolkit.format.schema import Column
from toolkit.loader.api import Dataset
from toolkit.loader.dataset.decoded import DecodedColumn
from toolkit.loader.dataset.located import Located
from toolkit.pipelines.media import Held, held_medium
from toolkit.pipelines.medium import Header

__all__ = ["MediumFacts", "SampleFacts", "Spread", "media_facts", "sample_facts"]

_CHUNK_ROWS = 64
_DERIVED_ROWS = 4096

_Seen = tuple[int | None, Header | None]  # bytes of a value and its header; None where there is none


@dataclass(frozen=True, kw_only=True)
class Spread:
    """Smallest, median, mean and largest of some values."""

    min: float
    median: float
    mean: float
    max: float


@dataclass(frozen=True, kw_only=True)
class MediumFacts:
    """A media column over the chosen splits, from `scanned` of `rows` samples, evenly spaced.

    Attributes:
        plural: What its values are called.
        read: Whether anything is known of the values but their sizes; not so where they lie in other files, and nothing
            was read of them.
        missing: Scanned samples without a value.
        unreadable: Scanned values whose header can't be read.
        marks: How many have each of the medium's marks.
        mark_texts: The words for these.
        formats: Values by format, the most frequent first.
        numbers: The medium's numbers, of images as they are decoded; each None when no header could be read.
        bytes: None when there is no value.
    """

    plural: str
    read: bool
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
            "read": self.read,
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
        read: Whether anything is known of the value but its size.
        numbers: The medium's numbers, by name.
        bytes: Its size; None when it is missing.
        header: None when it is missing, or its header can't be read.
    """

    plural: str
    read: bool
    numbers: tuple[str, ...]
    bytes: int | None
    header: Header | None

    def document(self) -> dict[str, object] | None:
        """Return them as a JSON object has them; None when the value is missing."""
        if self.bytes is None:
            return None
        known = self.header.numbers if self.header is not None else dict.fromkeys(self.numbers)
        return {
            "read": self.read,
            "bytes": self.bytes,
            **known,
            "format": None if self.header is None else self.header.format,
        }


def media_facts(datasets: Sequence[Dataset], columns: Sequence[Column], scan: int) -> dict[str, MediumFacts]:
    """Return the facts of each media column over all of `datasets`, of at most `scan` samples."""
    facts = {}
    rows = sum(len(dataset) for dataset in datasets)
    chosen = _evenly_spaced([len(dataset) for dataset in datasets], scan)
    for column in columns:
        held = _held(datasets[0], column) if datasets else None
        if held is not None:
            scanned = [
                value
                for dataset, some in zip(datasets, chosen, strict=True)
                for value in _headers(dataset, column.name, held, some)
            ]
            facts[column.name] = _figures(held, scanned, rows, read=_is_read(datasets[0], column.name))
    return facts


def sample_facts(dataset: Dataset, column: Column, row: int) -> SampleFacts | None:
    """Return what is known of the value of a row of a whole split; None of a column that holds no medium."""
    held = _held(dataset, column)
    if held is None:
        return None
    [(nbytes, header)] = _headers(dataset, column.name, held, np.array([row], np.int64))
    return SampleFacts(
        plural=held.medium.stored.plural,
        read=_is_read(dataset, column.name),
        numbers=held.medium.numbers,
        bytes=nbytes,
        header=header,
    )


def _is_read(dataset: Dataset, column: str) -> bool:
    """Tell whether something of the column's values was read when the dataset was made, or may be now."""
    return UNHASHED not in dataset.manifest.requires or not is_reference(dataset.schema.field(column).type)


def _held(dataset: Dataset, column: Column) -> Held | None:
    return held_medium(column.kind, dataset.schema.field(column.name).type)


def _evenly_spaced(lengths: list[int], most: int) -> list[NDArray[np.int64]]:
    """Return which rows of each split to read: all, or `most` at equal distances over the splits together."""
    total = sum(lengths)
    if total <= most:
        return [np.arange(length, dtype=np.int64) for length in lengths]
    step, rest = divmod(total, most)
    rows = np.arange(most, dtype=np.int64) * step + np.arange(most, dtype=np.int64) * rest // most
    ends = np.cumsum(lengths)
    return [rows[(rows >= end - n) & (rows < end)] - (end - n) for n, end in zip(lengths, ends, strict=True)]


def _headers(dataset: Dataset, column: str, held: Held, rows: NDArray[np.int64]) -> Iterator[_Seen]:
    """Yield (bytes, header) of each row."""
    if not _is_read(dataset, column):
        yield from ((None if nbytes < 0 else nbytes, None) for nbytes in _referred(dataset, column, rows))
        return
    made = {(one.what, one.version): one.name for one in dataset.manifest.derived if one.of == column}
    names = [made.get((fact.what, fact.version)) for fact in held.medium.stored.facts]
    known = [name for name in names if name is not None]
    if known and len(known) == len(names):
        yield from _derived(dataset, column, held, known, rows)
    elif held.form.is_decoded:
        yield from _sizes(dataset, column, held, rows)
    else:
        yield from _files(dataset, column, held, rows)


def _derived(
    dataset: Dataset, column: str, held: Held, names: Sequence[str], rows: NDArray[np.int64]
) -> Iterator[_Seen]:
    """Take what was derived when it was packed; of the values themselves nothing is read but their lengths."""
    fetcher = dataset.fetcher
    for start in range(0, len(rows), _DERIVED_ROWS):
        located = fetcher.locate(rows[start : start + _DERIVED_ROWS])
        facts = zip(*(_values(dataset, name, located) for name in names), strict=True)
        if is_reference(dataset.schema.field(column).type):
            lengths = _lengths(dataset, column, located)
        else:
            lengths = fetcher.lengths(leaf_name(column, held.form.payload), located)
        for nbytes, known in zip(lengths.tolist(), facts, strict=True):
            yield (None, None) if nbytes < 0 else (nbytes, held.medium.header_of_facts(known))


def _referred(dataset: Dataset, column: str, rows: NDArray[np.int64]) -> Iterator[int]:
    """Yield the bytes of values in other files, -1 where there is none. No file is opened."""
    for start in range(0, len(rows), _DERIVED_ROWS):
        yield from _lengths(dataset, column, dataset.fetcher.locate(rows[start : start + _DERIVED_ROWS])).tolist()


def _lengths(dataset: Dataset, column: str, located: Located) -> NDArray[np.int64]:
    """Return what references say of the bytes of their values, -1 where there is none."""
    lengths = np.empty(len(located.rows), np.int64)
    null = dataset.fetcher.fixed(leaf_name(column, "length"), located, lengths.view(np.uint8))
    return np.where(null, -1, np.clip(lengths, 0, None))


def _values(dataset: Dataset, column: str, located: Located) -> list[Any]:
    """Return values as Python has them, None where null: numbers and texts all at once."""
    dtype, fetcher = dataset.schema.field(column).type, dataset.fetcher
    if dtype == pa.string():
        return fetcher.texts(column, located, fetcher.bytes(column, located))
    if not (pa.types.is_integer(dtype) or pa.types.is_floating(dtype)):
        return fetcher.values(column, located)
    numbers = np.empty(len(located.rows), dtype.to_pandas_dtype())
    null = fetcher.fixed(column, located, numbers.view(np.uint8)).tolist()
    return [None if missing else number for number, missing in zip(numbers.tolist(), null, strict=True)]


def _sizes(dataset: Dataset, column: str, held: Held, rows: NDArray[np.int64]) -> Iterator[_Seen]:
    """Read the sizes that are stored beside what was decoded."""
    decoded, item = DecodedColumn(dataset.fetcher, column, held), np.dtype(held.form.dtype).itemsize
    for start in range(0, len(rows), _CHUNK_ROWS):
        located = dataset.fetcher.locate(rows[start : start + _CHUNK_ROWS])
        sizes = decoded.sizes(located)
        for i, missing in enumerate(sizes.missing.tolist()):
            shape = sizes.shape(i)
            yield (None, None) if missing else (int(np.prod(shape)) * item, held.medium.header_of(shape))


def _files(dataset: Dataset, column: str, held: Held, rows: NDArray[np.int64]) -> Iterator[_Seen]:
    """Read the headers of files."""
    buffer = FetchBuffer()
    for start in range(0, len(rows), _CHUNK_ROWS):
        located = dataset.fetcher.locate(rows[start : start + _CHUNK_ROWS])
        values = dataset.fetcher.variable(leaf_name(column, held.form.payload), located, buffer)
        for i in range(len(located.rows)):
            data = values.bytes(i)
            yield (None, None) if data is None else (len(data), held.medium.header(data))


def _figures(held: Held, scanned: Sequence[_Seen], rows: int, *, read: bool) -> MediumFacts:
    import polars as pl

    headers = [header for _, header in scanned if header is not None]
    sizes = [nbytes for nbytes, _ in scanned if nbytes is not None]
    formats = pl.DataFrame({"format": [header.format for header in headers]}, schema={"format": pl.String})
    by_format = formats.group_by("format").len("count").sort(["count", "format"], descending=[True, False])
    return MediumFacts(
        plural=held.medium.stored.plural,
        read=read,
        rows=rows,
        scanned=len(scanned),
        missing=len(scanned) - len(sizes),
        unreadable=len(sizes) - len(headers) if read else 0,
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
