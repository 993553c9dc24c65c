"""What every source offers the pack engine: a survey of what there is, and the rows of one slice of it.

A slice is a fixed part of the input, found from the input alone, that becomes one or more shards of its own: so the
result can't depend on how many slices are packed at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from toolkit.format.schema import KEY, Column, Kind
from toolkit.sources.in_place import Places
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
    """A part of a split that is read on its own, and becomes shards of its own.

    Attributes:
        split: Which split.
        number: Its place in the split: 0, 1, 2 and so on, without a gap.
        samples: How many rows and rejects read() gives for it, if that is known before.
        bytes: How much is read for it, about; for progress and plans.
        payload: The source's own. It can be pickled, and its repr() tells all that the rows depend on: files with
            their sizes and times, places in them. By that a killed pack knows whether a finished slice is still good.
        source: What it is read from, in a few words for people.
    """

    split: str
    number: int
    samples: int | None
    bytes: int
    payload: object
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a source found out about its input without reading more of the samples than it must.

    It follows from the input and the options alone: not from the clock, from the order in which a file system lists
    names, or from how many slices are packed at a time. Two surveys of the same input say the same.

    Attributes:
        columns: The columns in order; label columns without their label table yet.
        types: Stored Arrow type of each column.
        classes: Names of each label column, and of the ids in columns of lists that name them, in id order.
        splits: Names in order, each once; a split may have no slices.
        slices: In order of split, as in `splits`, and of number.
        skipped: How much was passed over on purpose, by reason; a reason may be told with 0. Words for reasons stand
            in toolkit.sources.skips and in the kind's SourceSpec.
        skipped_names: The first names of each reason that has names, sorted; printable.
        rejects: Samples that are known to be unusable already. read() doesn't give these again.
        options: The options that shaped the samples, by name, as JSON has them: they are part of the pin, so none of
            them names a place outside the input. The pack adds the kind.
        shuffled: The slices are in the order of the shuffle seed already.
        tables: Files of further tables that the columns name.
        left_out: Names of what lies beside the samples and was left out because of an option.
        warnings: What the user should look at before trusting the result, a sentence or two each.
        open_classes: The names are found while rows are packed, so shards can't have them: the label tables alone do.
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
    open_classes: bool = False

    @property
    def counted(self) -> dict[str, tuple[str, ...]]:
        """Class names of the columns whose classes a manifest counts: those of labels, one a sample."""
        return {one.name: self.classes[one.name] for one in self.columns if one.kind is Kind.LABEL}


@dataclass(frozen=True, slots=True)
class Rows:
    """Some rows of a slice, in order.

    Attributes:
        batch: A record batch of rows_schema(survey). It may have no rows.
        rejects: Samples that would have come between or behind these rows, each once, in order.
        read_bytes: How much of the slice's `bytes` was read since the rows before.
        places: Column of a medium -> where the values of its rows lie, where the source was asked for it.
    """

    batch: pa.RecordBatch
    rejects: tuple[Reject, ...]
    read_bytes: int
    places: Mapping[str, Places] = field(default_factory=dict)


class Source(ABC):
    """What reads one input. Made by a SourceSpec; making it reads nothing.

    What a source promises:

    - The same input and options give the same survey, and a slice gives the same rows and rejects in the same order,
      in any process and however often it is read. Where rows are cut into pieces means nothing.
    - Each sample of the input is a row, a reject, or passed over and counted in `skipped`: nothing is left out unseen.
    - A sample that can't be packed is a reject, and the samples behind it are packed. An input that can't be read to
      its end, or isn't what was surveyed any more, is an error, or a reject where the file is one sample: never
      fewer rows without a word.
    - Keys are valid UTF-8, and the same in every pack of the same input. Keys that come twice are the pack's business.
    - Memory stays at a few pieces of PIECE_BYTES and one value of `max_value_bytes` for each slice that is read.
    """

    @abstractmethod
    def survey(self) -> Survey:
        """Find what there is. Called once, before read().

        Raises:
            NotFoundError: The input, or a part of it that was asked for, isn't there.
            SourceError: It holds nothing that can be packed, or can't be understood.
            UsageError: An option doesn't fit what is there.
            StorageError: It can't be read.
        """

    @abstractmethod
    def read(self, survey: Survey, part: Slice) -> Iterator[Rows]:
        """Yield the rows of a slice in pieces of about PIECE_BYTES.

        Called from several threads, each with its own slice, and for some slices never. The consumer may stop early
        and close the iterator, which closes files.

        Args:
            survey: What survey() of this source gave, or of another one of the same input and options.
            part: One of its slices.

        Raises:
            SourceError: The input is damaged beyond single samples, or was changed since the survey; names the file.
            StorageError: It can't be read.
        """

    @abstractmethod
    def place(self, part: Slice, key: str) -> str:
        """Return the path of the file that a sample of the slice comes from, for a reject; printable. Reads nothing."""


def too_large(nbytes: int, most: int) -> str:
    """Return why a value of so many bytes is rejected."""
    return f"{nbytes} bytes are more than a value may have ({most}); --max-value-bytes says how many"


def rows_schema(survey: Survey) -> pa.Schema:
    """Return the schema of Rows.batch: the key, then every column."""
    fields = [pa.field(KEY, pa.string(), nullable=False)]
    return pa.schema(fields + [pa.field(column.name, survey.types[column.name]) for column in survey.columns])
