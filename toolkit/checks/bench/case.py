"""A benchmark's cases and figures: frozen data that crosses to the measuring process as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["FIGURES", "BenchCase", "BenchResult", "BenchRun", "CaseResult", "Measured", "measured"]

# What is measured, and what it is exactly. Medians are over repeats.
FIGURES = {
    "samples_per_second": "samples delivered / seconds from the start of the iteration to its last batch",
    "tokens_per_second": "tokens delivered in that time; of a dataset of tokens",
    "megabytes_per_second": "encoded bytes (10^6) copied out of shards in that time",
    "open_ms": "opening the dataset and building the loader, toolkit itself being imported",
    "first_batch_ms": "from the start of the iteration to the first batch",
    "cpu_seconds_per_1000_samples": "processor time, user and system, of the whole process over the iteration",
    "peak_anonymous_bytes": "highest anonymous memory during the iteration, less that before the dataset was "
    "opened: batches, decoders, heap; not the pages of mapped shards. Seen every 5 ms",
    "peak_resident_bytes": "highest resident memory of the process, with Python, libraries and mapped pages (VmHWM)",
}


@dataclass(frozen=True, kw_only=True)
class BenchCase:
    """What one process measures.

    Attributes:
        dataset: The dataset, with its whole pin.
        split: The split.
        columns: The columns to load.
        decode: Decode, resize, crop and normalize image columns; else they come as bytes.
        short_side, crop: Pixels; see Slot.resize_short and Slot.center_crop.
        seq_len: Tokens of a row, when the dataset has tokens; rows are the samples then.
        roots: Where the files of references lie, as absolute paths; None: as the dataset says.
        threads, batch_size, epochs, shuffle, output: See toolkit.loader.options.keywords.
    """

    dataset: str
    split: str
    columns: tuple[str, ...]
    decode: bool
    short_side: int
    crop: int
    threads: int
    batch_size: int
    epochs: int
    shuffle: str
    output: str
    seq_len: int
    roots: Mapping[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class BenchRun:
    """What one process measured; FIGURES says what each is. None where the system doesn't tell, or it means nothing."""

    samples: int
    batches: int
    seconds: float
    samples_per_second: float
    tokens_per_second: float | None
    megabytes_per_second: float
    open_ms: float
    first_batch_ms: float
    cpu_seconds_per_1000_samples: float
    peak_anonymous_bytes: int | None
    peak_resident_bytes: int | None


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A figure over the repeats of a case."""

    median: float
    min: float
    max: float


@dataclass(frozen=True, kw_only=True)
class CaseResult:
    """The repeats of a case and its figures by name; None where the system doesn't tell."""

    threads: int
    figures: dict[str, Measured | None]
    runs: tuple[BenchRun, ...]


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """A benchmark: what was run, and the results by thread count.

    Attributes:
        cache: "warm" when every shard was read once before measuring, "as found" when it didn't fit in memory.
    """

    pin: str
    split: str
    columns: tuple[str, ...]
    pipeline: str
    batch_size: int
    epochs: int
    repeats: int
    shuffle: str
    output: str
    cache: str
    samples: int
    cases: tuple[CaseResult, ...]


def measured(runs: Sequence[BenchRun]) -> dict[str, Measured | None]:
    """Return median, least and most of each figure over `runs`."""
    figures: dict[str, Measured | None] = {}
    for name in FIGURES:
        values = [value for run in runs if (value := getattr(run, name)) is not None]
        figures[name] = Measured(median=statistics.median(values), min=min(values), max=max(values)) if values else None
    return figures
