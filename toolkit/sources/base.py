"""What every source offers the pack engine: a survey of what there is, and the rows of one slice of it.

A slice is a fixed part of the input, found from the input alone, that becomes one or more shards of its own: so the
result can't depend on how many slices are packed at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from toolkit.format.schema import KEY, Column
from toolkit.sources.options import LARGEST_VALUE
from toolkit.sources.reject import Reject

__all__ = [
    "LARGEST_VALUE",
    "PIECE_BYTES",
    "ROW_OVERHEAD_BYTES",
    "Rows",
    "Slice",
    "Source",
    "Survey",
    "rows_schema",
    "too_large",
]

PIECE_BYTES = 4 * 1024 * 1024  # how much a source reads before it hands rows on
ROW_OVERHEAD_BYTES = 96  # what a row takes beside its payload: key, path, digest, offsets, validity, padding; generous


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a split. `number` is its place in the split; `payload` is the source's own; picklable.

    `samples` is how many there are, if that is known; `bytes` how much is read; `source` names the input for people.
    """

    split: str
    number: int
    samples: int | None
    bytes: int
    payload: object
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a source found out about its input without reading the samples themselves.

    Attributes:
        columns: The columns in order; label columns without their label table yet.
        types: Stored Arrow type of each column.
        classes: Names of each label column, in id order.
        splits: Names in order; each may have no slices.
        slices: In order of split and number.
        skipped: What was left out on purpose, counted by reason.
        skipped_names: Its first names by reason, as far as it has names; printable.
        rejects: Samples that are unusable, known already.
        options: The options that shaped the samples, for the manifest.
        shuffled: The slices are in the order of the shuffle seed already.
        tables: Files of further tables that the columns name.
        left_out: Names of what lies beside the samples and was left out because of an option.
        warnings: What the user should look at before trusting the result, a sentence or two each.
    """

    columns: tuple[Column, ...]
    types: Mapping[str, pa.DataType]
    classes: Mapping[str, tuple[str, ...]]
    splits: tuple[str, ...]
    slices: tuple[Slice, ...]
    skipped: Mapping[str, int] = field(default_factory=dict)
    skipped_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rejects: tuple[Reject, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    shuffled: bool = False
    tables: tuple[bytes, ...] = ()
    left_out: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a slice, in order, as a record batch of rows_schema(survey), with what was read for them.

    `rejects` are samples that would have come between or behind these rows.
    """

    batch: pa.RecordBatch
    rejects: tuple[Reject, ...]
    read_bytes: int


class Source(ABC):
    """One kind of input."""

    @abstractmethod
    def survey(self) -> Survey:
        """Find what there is. Raises SourceError, NotFoundError, UsageError, StorageError."""

    @abstractmethod
    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Yield the rows of a slice in pieces of a few MiB. Called from several threads, each with its own slice."""

    @abstractmethod
    def place(self, part: Slice, key: str) -> str:
        """Return the path of the file that a sample of the slice comes from, for a reject; printable."""


def too_large(nbytes: int, most: int) -> str:
    """Return why a value of so many bytes is rejected."""
    return f"{nbytes} bytes are more than a value may have ({most}); --max-value-bytes says how many"


def rows_schema(survey: Survey) -> pa.Schema:
    """Return the schema of Rows.batch: the key, then every column."""
    fields = [pa.field(KEY, pa.string(), nullable=False)]
    return pa.schema(fields + [pa.field(column.name, survey.types[column.name]) for column in survey.columns])
