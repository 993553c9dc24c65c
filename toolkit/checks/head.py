"""The first samples of a dataset, one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from toolkit.checks.arguments import split_of, whole
from toolkit.loader.api import Dataset
from toolkit.loader.api import open as open_dataset

__all__ = ["HeadSample", "head"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSample:
    """A sample: its row, its values by column, and the class names of the columns that have a label table."""

    row: int
    values: Mapping[str, Any]
    class_names: Mapping[str, tuple[str, ...]]


def head(dataset: str | os.PathLike[str], *, split: str | None = None, samples: int = 5) -> Iterator[HeadSample]:
    """Return the first samples, read as they are asked for.

    Args:
        dataset: As toolkit.open takes it.
        split: Which; may be left out when there is only one.
        samples: How many.

    Raises:
        UsageError: An option can't be.
        NotFoundError, PinMismatchError, CorruptTableError, FormatError: As toolkit.open, at once.
        CorruptShardError: A value isn't what was packed, when its sample is asked for.
    """
    count = whole("samples", samples)
    opened = open_dataset(dataset, split=split_of(split))
    return _samples(opened, min(count, len(opened)))


def _samples(dataset: Dataset, count: int) -> Iterator[HeadSample]:
    for row in range(count):
        yield HeadSample(row=row, values=dataset[row], class_names=dataset.class_names)
