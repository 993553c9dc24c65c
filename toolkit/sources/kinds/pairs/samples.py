"""Put the files of each stem together: a sample's paths, its key, its split; and tell what is doubtful about names."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.errors import NotFoundError, SourceError, did_you_mean
from toolkit.format.arrays import bool_array, numbers, valid_rows
from toolkit.sources.kinds.pairs.listing import Listed
from toolkit.sources.kinds.pairs.patterns import Pattern, Patterns
from toolkit.sources.names import printable
from toolkit.sources.splits import DEFAULT_SPLIT, SPLIT_NAMES, is_train, like_splits

__all__ = ["Doubled", "Samples", "by_split", "make_samples"]

_MOST_LOOKED_AT = 100_000  # lone files of a column that are compared with those of others


@dataclass(frozen=True, order=True)
class Doubled:
    """A sample that has several files for one column, and so is none. `key` is what it would have."""

    key: str
    column: str
    files: tuple[str, ...]

    @property
    def reason(self) -> str:
        """Why it is left out."""
        return f"its {self.column} may be any of {', '.join(map(repr, self.files))}: leave all but one out"


@dataclass(frozen=True)
class Samples:
    """Samples in order.

    Attributes:
        paths: A column of paths for each column of the dataset: of a file that isn't there, what it would be called;
            null where that is another column's file.
        doubled: What has two files or more for one column.
        warnings: What the user should look at.
    """

    paths: pa.Table
    doubled: tuple[Doubled, ...]
    warnings: tuple[str, ...]


def make_samples(listed: Sequence[Listed], patterns: Patterns) -> Samples:
    """Return the samples, in the order of their keys: by the parts of the path that the first column has."""
    stems = [one.stems for one in listed]
    every = pc.unique(pa.chunked_array(stems, pa.large_string()))
    doubled = [_doubled(column) for column in stems]
    columns = []
    for number, one in enumerate(listed):
        found = one.paths.take(pc.index_in(every, value_set=stems[number]))
        lacking = pc.is_null(found)
        made = _would_be(every.filter(lacking), patterns.of(number)[0], listed)
        columns.append(pc.replace_with_mask(found, lacking, made))
    keys = pc.coalesce(*columns)
    order = pc.sort_indices(pc.replace_substring(keys, "/", "\0"))
    bad = np.zeros(len(every), np.bool_)
    told = []
    for number, names in enumerate(doubled):
        rows = valid_rows(pc.index_in(every, value_set=names))
        bad |= rows
        for stem in names.to_pylist():
            files = listed[number].paths.filter(pc.equal(stems[number], stem)).to_pylist()
            key = keys.filter(pc.equal(every, stem))[0].as_py()
            told.append(Doubled(key, patterns.columns[number], tuple(sorted(files))))
    table = pa.table(columns, names=list(patterns.columns))
    order = order.filter(bool_array(~bad[numbers(order)]))
    return Samples(table.take(order), tuple(sorted(told)), _near(stems, patterns))


def by_split(keys: pa.ChunkedArray, split: str | None, top: str) -> dict[str, np.ndarray]:
    """Return the rows of each split: by a folder that is called as splits are in every key, or one split.

    Raises:
        NotFoundError: The split asked for isn't among those that the folders tell.
        SourceError: Only some keys tell a split, or folders look like splits, and none is asked for.
    """
    folders = pc.dictionary_encode(pc.replace_substring_regex(keys, r"(^|/)[^/]*$", "")).combine_chunks()
    names = folders.dictionary.to_pylist()
    words = [next((part for part in name.split("/") if part in SPLIT_NAMES), None) for name in names]
    rows = numbers(folders.indices)
    if split is None and any(words) and not all(words):
        told, silent = (
            next(name for name, word in zip(names, words, strict=True) if bool(word) is has) for has in (True, False)
        )
        raise SourceError(
            f"{printable(told)!r} tells the split of its files ({next(filter(None, words))}) and {printable(silent)!r} "
            "tells none: leave files out with --exclude, or call everything one split with --split"
        )
    if not all(words):
        if split is None:
            _refuse_alike(names, top)
        return {split or DEFAULT_SPLIT: np.arange(len(rows), dtype=np.int64)}
    order = [word for word in SPLIT_NAMES if word in words]
    groups = {word: np.flatnonzero(np.array([one == word for one in words])[rows]) for word in order}
    if split is None:
        return groups
    if split not in groups:
        if len(groups) == 1:
            return {split: np.arange(len(rows), dtype=np.int64)}
        raise NotFoundError(
            f"the folders tell the splits {', '.join(groups)}, not {split!r}.{did_you_mean(split, groups)}"
        )
    return {split: groups[split]}


def _refuse_alike(folders: Sequence[str], top: str) -> None:
    """Raise SourceError when folders look like a split to train on and one to test on: they would be packed as one."""
    alike = sorted(set(like_splits(part for folder in folders for part in folder.split("/"))))
    if len({is_train(name) for name in alike}) == 2:
        raise SourceError(
            f"{printable(top)!r} has folders that look like splits ({', '.join(map(repr, alike))}); those of paired "
            f"files are called {', '.join(SPLIT_NAMES)}. Pack one with --include '*/{alike[0]}/*' --split NAME and the "
            "others with --on-existing append, or everything as one split with --split all"
        )


def _would_be(stems: pa.Array, pattern: Pattern, listed: Sequence[Listed]) -> pa.Array:
    """Return what files of these stems would be called; null where a file of another column is called so."""
    before, behind, nothing = (pa.scalar(text, pa.large_string()) for text in (pattern.before, pattern.behind, ""))
    made = pc.binary_join_element_wise(before, stems, behind, nothing)
    taken = np.zeros(len(made), np.bool_)
    if len(made):
        for one in listed:
            taken |= valid_rows(pc.index_in(made, value_set=one.paths.filter(pc.is_in(one.paths, value_set=made))))
    return pc.if_else(bool_array(taken), pa.scalar(None, pa.large_string()), made)


def _doubled(stems: pa.Array) -> pa.Array:
    """Return the stems that come twice or more."""
    counted = pc.value_counts(stems)
    values, counts = counted.field("values"), counted.field("counts")
    return values.filter(pc.greater(counts, 1))


def _near(stems: Sequence[pa.Array], patterns: Patterns) -> tuple[str, ...]:
    """Tell of stems without a partner that have one but for capitals, or for how their letters are composed."""
    lone = []
    for number, column in enumerate(stems):
        others = pa.chunked_array([one for i, one in enumerate(stems) if i != number], pa.large_string())
        alone = column.filter(pc.invert(pc.is_in(column, value_set=others)))
        lone.append(alone[:_MOST_LOOKED_AT].to_pylist())
    seen: dict[str, tuple[int, str]] = {}
    near = []
    for number, names in enumerate(lone):
        for name in names:
            first, other = seen.setdefault(unicodedata.normalize("NFKC", name).casefold(), (number, name))
            if first != number and other != name:
                near.append(f"{patterns.columns[first]} {other!r} and {patterns.columns[number]} {name!r}")
    if not near:
        return ()
    more = f" and {len(near) - 3} more" if len(near) > 3 else ""
    return (
        f"files that differ only in capitals, or in how their letters are composed, are no pair: {', '.join(near[:3])}"
        f"{more}. Rename one of each if they are meant as one",
    )
