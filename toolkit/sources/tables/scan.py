"""Look behind the paths of a table once, in the survey: which rows have their files, and what no row names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray

from toolkit.format.arrays import valid_rows
from toolkit.sources.files import refuse, stays_within, walk
from toolkit.sources.names import printable
from toolkit.sources.options import Missing, SourceOptions
from toolkit.sources.patterns import Patterns
from toolkit.sources.payloads import named_as
from toolkit.sources.skips import MOST_NAMES, Skips
from toolkit.sources.tables.paths import (
    FETCH,
    MISSING,
    NO_PATH,
    UNSAFE,
    Files,
    Root,
    UnsafePathError,
    key_of,
    paths_of,
)
from toolkit.sources.tables.plan import Plan, is_media
from toolkit.sources.tables.table import Table

__all__ = ["Listed", "Scan", "scan", "tell_unlisted"]


@dataclass(frozen=True)
class Scan:
    """What was found of a table's first rows.

    Attributes:
        rows: How many they are.
        files: Of each field of paths, what lies behind them.
        dropped: Which rows are passed over; None for none.
    """

    rows: int
    files: Mapping[str, Files]
    dropped: NDArray[np.bool_] | None


class Listed:
    """Which files below a folder are named by a row: eight bytes each."""

    def __init__(self) -> None:
        self._hashes: list[NDArray[np.uint64]] = []

    def add(self, paths: Sequence[str]) -> None:
        """Take note of paths below the folder."""
        self._hashes.append(np.array([_hash(path) for path in paths], np.uint64))

    def without(self, paths: Iterator[str]) -> Iterator[str]:
        """Yield the others."""
        known = np.unique(np.concatenate(self._hashes)) if self._hashes else np.zeros(0, np.uint64)
        for path in paths:
            value = np.uint64(_hash(path))
            at = int(np.searchsorted(known, value))
            if at == len(known) or known[at] != value:
                yield path


def scan(
    table: Table, rows: int, plan: Plan, roots: Mapping[str, Root], skips: Skips, listed: Mapping[str, Listed]
) -> Scan:
    """Look at what the first `rows` rows of a table need besides the table.

    Args:
        table: The table.
        rows: How many rows.
        plan: Which fields are paths, and what becomes of rows that lack something.
        roots: The folder of each such field.
        skips: Where to note what is passed over.
        listed: By folder, where to note what is named.

    Raises:
        SourceError: The table is damaged.
        StorageError: Something can't be read.
    """
    skipping = plan.missing is Missing.SKIP
    files = {name: Files.empty(roots[name].folder, rows) for name in plan.files}
    inside = [one.field for one in plan.columns if skipping and is_media(one) and one.field not in files]
    if not files and not inside:
        return Scan(rows, files, None)
    dropped = np.zeros(rows, np.bool_)
    gone: dict[int, str] = {}
    start = 0
    for batch in table.read([*files, *inside], 0, len(table.pieces)):
        batch = batch.slice(0, rows - start)
        for name, found in files.items():
            below = _look(batch.column(name), found, start, roots[name], gone, fetches=plan.fetches)
            if roots[name].folder in listed:
                listed[roots[name].folder].add(below)
            if skipping:
                codes = found.codes[start : start + batch.num_rows]
                needed = name not in table.facts.optional
                dropped[start : start + batch.num_rows] |= (codes == MISSING) | ((codes == NO_PATH) & needed)
        for name in inside:
            dropped[start : start + batch.num_rows] |= ~valid_rows(batch.column(name))
        start += batch.num_rows
        if start >= rows:
            break
    for row in np.flatnonzero(dropped).tolist():
        place = os.path.basename(table.place(row))
        skips.add("missing_files", f"{gone[row]} ({place})" if row in gone else place)
    return Scan(rows, files, dropped if dropped.any() else None)


def tell_unlisted(listed: Mapping[str, Listed], options: SourceOptions, skips: Skips) -> tuple[str, ...]:
    """Note the media below folders that no row names; return what is to be said of them."""
    patterns = Patterns(options.include, options.exclude)
    doubts = []
    for folder, named in listed.items():
        first, number = None, 0
        for path in named.without(_media_below(folder, follow_links=options.follow_links)):
            if patterns.takes(path):
                skips.add("unlisted", path)
                first = path if first is None else first
                number += 1
        if first is not None:
            what = "1 file is" if number == 1 else f"{number:,} files are"
            doubts.append(
                f"{what} named by no row and so left out, {printable(first)!r} for one. "
                "If they are samples, add rows that name them; if not, leave them out with --exclude"
            )
    return tuple(doubts)


def _look(array: pa.Array, found: Files, start: int, root: Root, gone: dict[int, str], *, fetches: bool) -> list[str]:
    """Note what lies behind the paths of rows from `start` on; return those that are safe, and no URLs.

    The first paths that lead nowhere are put into `gone`.
    """
    below = []
    for row, text in enumerate(paths_of(array), start):
        if text is None:
            continue
        try:
            path, is_remote = key_of(text, fetches=fetches)
        except UnsafePathError:
            found.note(row, UNSAFE, None)
            continue
        if is_remote:
            found.note(row, FETCH, None)
            continue
        code, status = root.look(path)
        found.note(row, code, status)
        below.append(path)
        if code == MISSING and len(gone) < MOST_NAMES:
            gone.setdefault(row, path)
    return below


def _media_below(folder: str, *, follow_links: bool) -> Iterator[str]:
    stays = stays_within([os.path.realpath(folder)])

    def enter(path: str) -> bool:
        return follow_links or not os.path.islink(path) or stays(path)

    for above, names in walk(folder, refuse, enter):
        for name in names:
            if not name.startswith(".") and named_as(os.path.splitext(name)[1][1:].lower()) is not None:
                yield os.path.relpath(os.path.join(above, name), folder).replace(os.sep, "/")


def _hash(path: str) -> int:
    return xxhash.xxh3_64_intdigest(path.encode("utf-8", "surrogateescape"))
