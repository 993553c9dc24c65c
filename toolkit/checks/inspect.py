"""What a dataset holds, in figures: splits, classes, facts of media, first samples. Decodes nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from toolkit.checks.arguments import split_of, whole
from toolkit.checks.media import MediumFacts, SampleFacts, media_facts, sample_facts
from toolkit.checks.references import ReferenceFacts, reference_facts
from toolkit.checks.tokens import TokenFacts, token_facts
from toolkit.errors import NotFoundError, did_you_mean
from toolkit.format.contents import read_classes, read_schema
from toolkit.format.manifest import Manifest, Split
from toolkit.format.pin import resolve
from toolkit.format.schema import KEY, Column, Kind, reference_columns
from toolkit.loader.api import Dataset
from toolkit.loader.api import open as open_dataset
from toolkit.pipelines.media import media
from toolkit.storage.roots import RootsOption

__all__ = [
    "ClassCount",
    "ColumnFacts",
    "FirstSample",
    "InspectResult",
    "LabelFacts",
    "SplitFacts",
    "inspect",
]

_TOP_CLASSES = 20


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    """A column as the manifest has it; `classes` is the number of names that its label table has."""

    name: str
    kind: str
    arrow_type: str
    encoding: str | None
    classes: int | None


@dataclass(frozen=True, kw_only=True)
class SplitFacts:
    """A split: its rows, shards, and bytes of shards."""

    rows: int
    shards: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class ClassCount:
    """How many samples a class has."""

    id: int
    name: str
    count: int


@dataclass(frozen=True, kw_only=True)
class LabelFacts:
    """A label column over the chosen splits.

    Attributes:
        classes: Names in the class map.
        top: The classes with the most samples, by count and then id.
        more: Classes with samples that `top` leaves out.
        empty: Names of the classes without a sample, by id.
        missing: Samples without a label.
    """

    classes: int
    top: tuple[ClassCount, ...]
    more: int
    empty: tuple[str, ...]
    missing: int


@dataclass(frozen=True, kw_only=True)
class FirstSample:
    """A sample: its labels by name (None: missing) and media by column; `toolkit head` shows the other columns."""

    split: str
    row: int
    key: str
    labels: dict[str, str | None]
    media: dict[str, SampleFacts]


@dataclass(frozen=True, kw_only=True)
class InspectResult:
    """A version of a dataset in figures; `chosen` are the splits that labels, media, samples and tokens cover.

    `derived` are the names of derived columns, which toolkit.open() delivers when they are named; `references` is None
    where the version holds all its values.
    """

    root: str
    pin: str
    format: int
    parent: str | None
    options: dict[str, object]
    user: dict[str, str]
    samples: int
    shards: int
    bytes: int
    columns: tuple[ColumnFacts, ...]
    derived: tuple[str, ...]
    splits: dict[str, SplitFacts]
    chosen: tuple[str, ...]
    labels: dict[str, LabelFacts]
    media: dict[str, MediumFacts]
    first: tuple[FirstSample, ...]
    tokens: dict[str, TokenFacts]
    references: ReferenceFacts | None = None

    def document(self) -> dict[str, object]:
        """Return the figures as a JSON object has them, the media under what their values are called: "images"."""
        plain = {name: value for name, value in vars(self).items() if name not in ("media", "first", "tokens")}
        first = [
            {
                **{name: value for name, value in vars(sample).items() if name != "media"},
                **_by_plural(sample.media),
            }
            for sample in self.first
        ]
        return {**plain, **_by_plural(self.media), "first": first, "tokens": self.tokens}


def _by_plural(facts: Mapping[str, MediumFacts] | Mapping[str, SampleFacts]) -> dict[str, dict[str, object]]:
    """Return the documents of columns by medium; every medium is there."""
    made: dict[str, dict[str, object]] = {medium.stored.plural: {} for medium in media()}
    for column, one in facts.items():
        made[one.plural][column] = one.document()
    return made


def inspect(
    dataset: str | os.PathLike[str],
    *,
    split: str | None = None,
    samples: int = 5,
    scan: int = 10_000,
    roots: RootsOption | None = None,
) -> InspectResult:
    """Return what a dataset holds, in figures. Decodes nothing.

    Args:
        dataset: As toolkit.open takes it.
        split: Only this split's labels, media, samples and tokens.
        samples: How many first samples of each split.
        scan: How many values of media to look at at the most; 0 looks at none. Sizes are those that images are decoded
            to: they come from derived columns, and only where a dataset has none are headers read.
        roots: As toolkit.open takes them: where the files of references lie. None of these files is opened.

    Raises:
        UsageError: An option can't be.
        NotFoundError, PinMismatchError, CorruptTableError, FormatError: As toolkit.open.
        CorruptShardError: A value that was read isn't what was packed.
    """
    samples, scan, split = whole("samples", samples), whole("scan", scan), split_of(split)
    version = resolve(dataset)
    manifest = version.manifest
    chosen = _chosen(os.fspath(dataset), manifest, split)
    names = read_classes(version)
    # By its pin, so that a pack that ends in between can't mix two versions.
    pinned = f"{version.root}@sha256:{version.pin}"
    labels = [column.name for column in manifest.columns if column.kind is Kind.LABEL]
    datasets = (
        {name: open_dataset(pinned, split=name, columns=labels, roots=roots) for name in chosen}
        if samples or scan
        else {}
    )
    referred = reference_columns(manifest.columns, read_schema(version))
    splits = {
        name: SplitFacts(rows=s.rows, shards=sum(t.shards for t in s.tables), bytes=s.bytes)
        for name, s in manifest.splits.items()
    }
    return InspectResult(
        root=version.root,
        pin=version.pin,
        format=manifest.format,
        parent=manifest.parent,
        options=manifest.options,
        user=manifest.user,
        samples=sum(s.rows for s in splits.values()),
        shards=sum(s.shards for s in splits.values()),
        bytes=sum(s.bytes for s in splits.values()),
        columns=tuple(_column_facts(column, names) for column in manifest.columns),
        derived=tuple(one.name for one in manifest.derived),
        splits=splits,
        chosen=chosen,
        labels={name: _label_facts(name, names[name], [manifest.splits[s] for s in chosen]) for name in labels},
        media=media_facts(list(datasets.values()), manifest.columns, scan) if scan else {},
        first=tuple(
            _first_sample(one, row, names) for one in datasets.values() for row in range(min(samples, len(one)))
        ),
        tokens=token_facts(version, chosen, first=samples),
        references=reference_facts(version, referred, list(datasets.values()) if scan else [], roots),
    )


def _chosen(reference: str, manifest: Manifest, split: str | None) -> tuple[str, ...]:
    if split is None:
        return tuple(manifest.splits)
    if split not in manifest.splits:
        known = manifest.splits
        raise NotFoundError(
            f"{reference} has no split {split!r}; it has {', '.join(known)}.{did_you_mean(split, known)}"
        )
    return (split,)


def _column_facts(column: Column, names: dict[str, tuple[str, ...]]) -> ColumnFacts:
    return ColumnFacts(
        name=column.name,
        kind=column.kind.value,
        arrow_type=column.arrow_type,
        encoding=column.encoding,
        classes=len(names[column.name]) if column.name in names else None,
    )


def _label_facts(column: str, names: tuple[str, ...], splits: list[Split]) -> LabelFacts:
    counted = [split.labels[column] for split in splits if column in split.labels]
    totals = np.zeros(len(names), np.int64)
    for one in counted:
        totals += np.asarray(one.counts, np.int64)
    order = np.argsort(-totals, kind="stable")
    filled = int(np.count_nonzero(totals))
    return LabelFacts(
        classes=len(names),
        top=tuple(
            ClassCount(id=i, name=names[i], count=int(totals[i])) for i in order[: min(filled, _TOP_CLASSES)].tolist()
        ),
        more=max(0, filled - _TOP_CLASSES),
        empty=tuple(names[i] for i in np.flatnonzero(totals == 0).tolist()),
        missing=sum(one.missing for one in counted),
    )


def _first_sample(dataset: Dataset, row: int, names: dict[str, tuple[str, ...]]) -> FirstSample:
    sample = dataset[row]
    labels: dict[str, str | None] = {}
    found: dict[str, SampleFacts] = {}
    for column in dataset.manifest.columns:
        facts = sample_facts(dataset, column, row)
        if facts is not None:
            found[column.name] = facts
        elif column.kind is Kind.LABEL:
            value = sample[column.name]
            labels[column.name] = None if value is None else _class_name(names[column.name], value)
    return FirstSample(split=dataset.split, row=row, key=sample[KEY], labels=labels, media=found)


def _class_name(names: tuple[str, ...], label: int) -> str:
    return names[label] if 0 <= label < len(names) else f"{label}, no class"
