"""Objects that hold records, as streams of them: what they say of their fields, and the records from any one on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from toolkit.errors import UsageError
from toolkit.pack.writer.declared import Declaration

__all__ = ["Stream", "stream_of"]

_BATCH_ROWS = 256  # of datasets: as many rows lie in memory at once, and an image is some 100 KB
_PAIR = ("image", "label")


@dataclass(frozen=True, kw_only=True)
class Stream:
    """Records of one split.

    Attributes:
        records: Gives the records from a number on.
        fields: What fields are known to be.
        classes: Names of the ids in a field of labels.
        names: The fields of records that are tuples.
        no_label: The id that stands for no label.
        nameless: Fields of lists of ids whose class names are not kept.
        jumps: records() finds a record without reading those before, and can be called again.
    """

    records: Callable[[int], Iterator[Any]]
    fields: Mapping[str, Declaration] = field(default_factory=dict)
    classes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    no_label: int | None = None
    nameless: tuple[str, ...] = ()
    jumps: bool = False


def stream_of(source: Any) -> Stream:
    """Return the records of an object. Raises UsageError: it can't be packed."""
    kinds = {(one.__module__.split(".")[0], one.__name__) for one in type(source).__mro__}
    if ("datasets", "Dataset") in kinds or ("datasets", "IterableDataset") in kinds:
        return _of_datasets(source)
    if ("torch", "DataLoader") in kinds:
        raise UsageError("a DataLoader gives batches, which can't be packed: give the dataset that it reads")
    if ("torch", "Dataset") in kinds:
        return _of_torch(source, is_iterable=("torch", "IterableDataset") in kinds)
    if isinstance(source, Iterable) and not isinstance(source, str | bytes | Mapping):
        return Stream(records=_from(source))
    raise UsageError(
        f"an object of type {type(source).__name__} can't be packed: give a path, an iterable of dicts, a DataFrame, "
        "an Arrow table, or a dataset of datasets or torch"
    )


def _from(source: Iterable[Any]) -> Callable[[int], Iterator[Any]]:
    def records(first: int) -> Iterator[Any]:
        for number, record in enumerate(source):
            if number >= first:
                yield record

    return records


def _of_datasets(source: Any) -> Stream:
    """Return the rows of a dataset of Hugging Face `datasets` as they are stored: nothing is decoded."""
    features = source.features
    if features is None:
        return Stream(records=_from(source))
    types = features.arrow_schema
    fields: dict[str, Declaration] = {}
    classes = {}
    for name, feature in features.items():
        kind = type(feature).__name__
        if kind == "Image":
            fields[name] = "image"
        elif kind == "ClassLabel":
            fields[name] = "label"
            classes[name] = tuple(feature.names)
        else:
            fields[name] = types.field(name).type
    nameless = tuple(name for name, feature in features.items() if _lists_ids(feature))
    stored = source.with_format("arrow")
    # Rows of a streamed one, of which a column was renamed, have the types of their own values, and don't go together.
    batch_rows = _BATCH_ROWS if hasattr(stored, "select") else 1

    def records(first: int) -> Iterator[dict[str, Any]]:
        rest = stored
        if first:
            rest = stored.select(range(first, len(stored))) if hasattr(stored, "select") else stored.skip(first)
        for batch in rest.iter(batch_size=batch_rows):
            yield from batch.to_pylist()

    return Stream(records=records, fields=fields, classes=classes, no_label=-1, nameless=nameless, jumps=True)


def _lists_ids(feature: Any) -> bool:
    """Tell whether a feature is of lists of ids that have names, in any of the forms it had over the years."""
    inside = feature[0] if isinstance(feature, list) and feature else getattr(feature, "feature", None)
    return type(inside).__name__ == "ClassLabel"


def _of_torch(source: Any, *, is_iterable: bool) -> Stream:
    names = getattr(source, "classes", None)
    known = isinstance(names, list | tuple) and bool(names) and all(isinstance(one, str) for one in names)
    classes = {"label": tuple(names)} if known and names is not None else {}
    if is_iterable or not hasattr(source, "__len__"):
        return Stream(records=_from(source), classes=classes, names=_PAIR)

    def records(first: int) -> Iterator[Any]:
        return (source[number] for number in range(first, len(source)))

    return Stream(records=records, classes=classes, names=_PAIR, jumps=True)
