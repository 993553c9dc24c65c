"""Views one after the other: the samples of several datasets as one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TypeVar

from toolkit.errors import UsageError
from toolkit.loader.dataset.dataset import Dataset
from toolkit.loader.dataset.joined import JoinedSplits, starts
from toolkit.loader.dataset.selection import joined
from toolkit.loader.dataset.views import view_hash

__all__ = ["concat"]

_Dataset = TypeVar("_Dataset", bound=Dataset)


def concat(datasets: Sequence[_Dataset]) -> _Dataset:
    """Return the samples of several datasets, or views, one after the other; of any manifests, with equal columns.

    Raises:
        UsageError: There is none, or their columns, types or class names differ; the message says in what.
    """
    parts = list(datasets)
    if not parts or not all(isinstance(part, Dataset) for part in parts):
        raise UsageError("concat takes a list of datasets: toolkit.concat([a, b])")
    for part in parts[1:]:
        _check_alike(parts[0], part)
    all_stored = [part.stored for part in parts]
    sizes, rows = [len(part) for part in parts], [stored.rows for stored in all_stored]
    selection = joined([part.selection for part in parts], starts(sizes), starts(rows))
    splits = JoinedSplits([opened for stored in all_stored for opened in stored.parts])
    return type(parts[0])(splits, parts[0].columns, selection, view_hash("concat", *(part.view for part in parts)))


def _derived(dataset: Dataset) -> list[str]:
    """Return the derived columns with their versions: by one name, two of them may say different things."""
    return [f"{one.name} (version {one.version})" for one in dataset.stored.derived]


def _check_alike(first: Dataset, other: Dataset) -> None:
    for what, mine, theirs in (
        ("read the columns", [c.name for c in first.columns], [c.name for c in other.columns]),
        ("store the columns", first.schema.names, other.schema.names),
        ("call the key", [first.stored.key or "nothing"], [other.stored.key or "nothing"]),
        ("store the types", [str(t) for t in first.schema.types], [str(t) for t in other.schema.types]),
        ("have the kinds", [c.kind.value for c in first.columns], [c.kind.value for c in other.columns]),
        ("have class names in the columns", sorted(first.class_names), sorted(other.class_names)),
        ("have the derived columns", _derived(first), _derived(other)),
    ):
        if mine != theirs:
            raise UsageError(f"concat: the datasets {what} {', '.join(mine)} and {', '.join(theirs)}: make them equal")
    for column, names in first.class_names.items():
        if names != other.class_names[column]:
            theirs = other.class_names[column]
            pairs = zip_longest(names, theirs, fillvalue=None)
            number, pair = next((i, pair) for i, pair in enumerate(pairs) if pair[0] != pair[1])
            raise UsageError(
                f"concat: id {number} of {column} is {pair[0]!r} in one dataset and {pair[1]!r} in the other: pack "
                "both with the same --classes FILE"
            )
