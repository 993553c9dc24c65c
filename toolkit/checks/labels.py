"""How the classes of a dataset are balanced: from the manifest and its label tables alone, no shard is opened."""

from __future__ import annotations

import os
from dataclasses import dataclass

from toolkit.checks.arguments import split_of
from toolkit.errors import NotFoundError, did_you_mean
from toolkit.format.contents import read_classes
from toolkit.format.pin import resolve
from toolkit.format.schema import Kind

__all__ = ["ClassBalance", "LabelBalance", "LabelReport", "inspect_labels"]


@dataclass(frozen=True, kw_only=True)
class ClassBalance:
    """A class: its samples in each split and in all, and its share of the samples that have a label (0 to 1)."""

    id: int
    name: str
    splits: dict[str, int]
    count: int
    share: float


@dataclass(frozen=True, kw_only=True)
class LabelBalance:
    """A label column: every class in id order, and the samples without a label in each split."""

    classes: tuple[ClassBalance, ...]
    labelled: int
    missing: dict[str, int]


@dataclass(frozen=True, kw_only=True)
class LabelReport:
    """The label columns of a version; `splits` are those that are counted."""

    root: str
    pin: str
    splits: tuple[str, ...]
    columns: dict[str, LabelBalance]


def inspect_labels(dataset: str | os.PathLike[str], *, split: str | None = None) -> LabelReport:
    """Return the classes of every label column with their samples.

    Args:
        dataset: As toolkit.open takes it.
        split: Count only this one.

    Raises:
        UsageError: An option can't be.
        NotFoundError, PinMismatchError, CorruptTableError, FormatError: As toolkit.open.
    """
    split = split_of(split)
    version = resolve(dataset)
    known = version.manifest.splits
    if split is not None and split not in known:
        raise NotFoundError(
            f"{os.fspath(dataset)} has no split {split!r}; it has {', '.join(known)}.{did_you_mean(split, known)}"
        )
    chosen = tuple(known) if split is None else (split,)
    columns = {}
    classes = read_classes(version)
    for column in [one.name for one in version.manifest.columns if one.kind is Kind.LABEL]:
        names = classes[column]
        counts = {name: known[name].labels[column] for name in chosen}
        columns[column] = _balance(
            names,
            {name: one.counts for name, one in counts.items()},
            {name: one.missing for name, one in counts.items()},
        )
    return LabelReport(root=version.root, pin=version.pin, splits=chosen, columns=columns)


def _balance(names: tuple[str, ...], counts: dict[str, tuple[int, ...]], missing: dict[str, int]) -> LabelBalance:
    labelled = sum(map(sum, counts.values()))
    classes = []
    for number, name in enumerate(names):
        splits = {split: of[number] for split, of in counts.items()}
        total = sum(splits.values())
        classes.append(
            ClassBalance(id=number, name=name, splits=splits, count=total, share=total / labelled if labelled else 0.0)
        )
    return LabelBalance(classes=tuple(classes), labelled=labelled, missing=missing)
