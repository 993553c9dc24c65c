"""The first samples of a dataset, one at a time."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolkit.checks.arguments import split_of, whole
from toolkit.format.layout import leaf_name
from toolkit.format.schema import reference_columns
from toolkit.loader.api import Dataset
from toolkit.loader.api import open as open_dataset
from toolkit.loader.dataset.located import Located

__all__ = ["HeadSample", "head"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSample:
    """A sample: its row, its values by column, and the class names of the columns that have a label table."""

    row: int
    values: Mapping[str, Any]
    class_names: Mapping[str, tuple[str, ...]]


def head(dataset: str | os.PathLike[str], *, split: str | None = None, samples: int = 5) -> Iterator[HeadSample]:
    """Return the first samples, read as they are asked for.

    Of a value that lies in another file it says where: {"root": …, "path": …, "offset": …, "length": …}. No such file
    is opened.

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
    names = [column.name for column in dataset.columns]
    referred = reference_columns(dataset.columns, dataset.schema)
    stored = dataset.select([name for name in names if name not in referred]) if referred else dataset
    for row in range(count):
        values = stored[row]
        if referred:
            located = dataset.fetcher.locate(np.array([row], np.int64))
            places = {name: _place(dataset, name, located) for name in referred}
            values = {name: places[name] if name in places else values[name] for name in [*_own(values, names), *names]}
        yield HeadSample(row=row, values=values, class_names=dataset.class_names)


def _own(values: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    """Return what a sample has besides its columns: its key."""
    return [name for name in values if name not in names]


def _place(dataset: Dataset, column: str, located: Located) -> dict[str, str | int] | None:
    """Return where a value lies. No file is opened."""
    fetcher = dataset.fetcher
    root, path = (fetcher.bytes(leaf_name(column, of), located)[0] for of in ("root", "path"))
    if root is None or path is None:
        return None
    place: dict[str, str | int] = {"root": root.decode(errors="replace"), "path": path.decode(errors="replace")}
    for of in ("offset", "length"):
        number = np.empty(1, np.int64)
        fetcher.fixed(leaf_name(column, of), located, number.view(np.uint8))
        place[of] = int(number[0])
    return place
