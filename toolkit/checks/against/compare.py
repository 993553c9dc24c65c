"""Compare a version of a dataset with its source, sample by sample: what is missing, what is new, what differs."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.checks.against.contents import Contents, Digests, Stats
from toolkit.checks.against.packed_source import PackedSource
from toolkit.checks.against.sample_log import SampleLog, SampleNames, differences
from toolkit.errors import UsageError
from toolkit.format.schema import DIGEST_BYTES, KEY
from toolkit.loader.api import Dataset
from toolkit.sources.base import Slice
from toolkit.storage.scratch import scratch_folder

__all__ = ["MOST_LISTED", "WHATS", "AgainstResult", "Difference", "compare"]

WHATS = {
    "missing": "isn't in the source",
    "changed": "has other bytes, another label or another column in the source",
    "split": "is in another split of the source",
    "rejected": "can't be packed from the source any more",
    "new": "is in the source and not in the dataset",
    "again": "comes again in the source",
}
"""How a sample can differ, in words."""

MOST_LISTED = 100_000
"""Differences that are listed; all are counted."""

_SPLIT_BITS = 48  # a sample's number: its row, or the place of its name, below the number of its split
_REJECTED = 1 << 62
_UNKNOWN = b"\0" * DIGEST_BYTES

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A sample that isn't the same in the dataset and in its source.

    Attributes:
        what: One of WHATS.
        key: Its key.
        split: Its split in the dataset, or where it isn't there, in the source.
        row: Its row in the dataset, or None.
        place: Where it is in the source, or "".
        reason: Why it is rejected, or "".
    """

    what: str
    key: str
    split: str
    row: int | None = None
    place: str = ""
    reason: str = ""

    @property
    def message(self) -> str:
        """What is wrong, in words."""
        where = f"split {self.split}" + ("" if self.row is None else f", row {self.row}")
        at = "".join(f": {text}" for text in (self.place, self.reason) if text)
        return f"sample {self.key!r} ({where}) {WHATS[self.what]}{at}"


@dataclass(frozen=True, kw_only=True)
class AgainstResult:
    """How a version differs from its source.

    Attributes:
        sources: The inputs, and `kind` what they are.
        samples: Samples that were read of them.
        rejected: Samples of the source that can't be packed, and that the dataset hasn't either.
        counts: How many differ, by Difference.what.
        differences: These, MOST_LISTED of them at the most.
        compared: What was compared, in words.
    """

    sources: tuple[str, ...]
    kind: str
    samples: int
    rejected: int
    counts: dict[str, int]
    differences: tuple[Difference, ...]
    compared: str

    @property
    def ok(self) -> bool:
        """Whether nothing differs."""
        return not any(self.counts.values())


def compare(
    datasets: Mapping[str, Dataset],
    packed: Sequence[PackedSource],
    jobs: int,
    progress: Callable[[int], None],
    cancelled: threading.Event,
) -> AgainstResult:
    """Read all samples of the source, and the keys and digests of the dataset; return how they differ.

    Args:
        datasets: The splits of the version.
        packed: Its sources, surveyed.
        jobs: Slices of the source read at the same time.
        progress: Called with the bytes of the source that are read, one call at a time.
        cancelled: Set when it is to end soon.

    Raises:
        UsageError: Keys come twice, and the pack renamed samples: which is which can't be told.
        SourceError, StorageError: The source can't be read.
        CorruptShardError: A key or digest of the dataset can't be.
    """
    with scratch_folder(prefix="toolkit-verify-") as folder, SampleNames(folder) as names:
        mine, theirs = SampleLog(folder, "dataset"), SampleLog(folder, "source")
        splits = list(dict.fromkeys([*datasets, *(name for one in packed for name in one.survey.splits)]))
        parts = [_Part(one, part) for one in packed for part in one.survey.slices]
        contents: Contents = Digests() if packed[0].is_hashed else Stats()
        reader = _SourceReader(parts, contents, theirs, names, splits, progress, cancelled)
        for number, dataset in enumerate(datasets.values()):
            _log_dataset(dataset, number, contents, mine)
        with ThreadPoolExecutor(jobs, "toolkit-verify") as pool:
            try:
                samples = sum(pool.map(reader.read, range(len(parts)))) + sum(map(reader.known_rejects, packed))
            except BaseException:
                cancelled.set()
                raise
        found = _Comparison(parts, datasets, splits, names, renames=any(one.renames for one in packed))
        rejected = found.look(mine, theirs, folder)
    return AgainstResult(
        sources=tuple(source for one in packed for source in one.sources),
        kind=packed[0].kind,
        samples=samples,
        rejected=rejected,
        counts=found.counts,
        differences=tuple(sorted(found.listed, key=_order)),
        compared=contents.text,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A slice of a source."""

    packed: PackedSource
    slice: Slice


def _log_dataset(dataset: Dataset, split: int, contents: Contents, log: SampleLog) -> None:
    """Read the keys of a split, and what stands for its contents."""
    index, fetcher = dataset.index, dataset.fetcher
    for batch in range(index.batches):
        info = index.batch(batch)
        keys = fetcher.array(KEY, batch).to_pylist()
        log.add(
            keys,
            contents.of_batch(dataset, batch),
            np.arange(info.start, info.start + info.rows) | split << _SPLIT_BITS,
        )


class _SourceReader:
    """Logs the samples of the source. Its read() runs on several threads, each with its own slice."""

    def __init__(
        self,
        parts: Sequence[_Part],
        contents: Contents,
        log: SampleLog,
        names: SampleNames,
        splits: Sequence[str],
        progress: Callable[[int], None],
        cancelled: threading.Event,
    ) -> None:
        self._parts = parts
        self._contents = contents
        self._log = log
        self._names = names
        self._splits = {name: number for number, name in enumerate(splits)}
        self._progress = progress
        self._lock = threading.Lock()
        self._read_bytes = 0
        self._cancelled = cancelled

    def read(self, number: int) -> int:
        """Log a slice; return its samples."""
        packed, part, samples = self._parts[number].packed, self._parts[number].slice, 0
        with contextlib.closing(packed.shaper.rows(part)) as pieces:  # type: ignore[type-var]  # a generator
            for rows in pieces:
                if self._cancelled.is_set():
                    break
                keys = rows.batch.column(KEY).to_pylist()
                digests = self._contents.of_rows(packed.survey, rows)
                self._add(part.split, [json.dumps([number, key]) for key in keys], keys, digests, 0)
                self._reject(part.split, number, [(one.key, one.source, one.reason) for one in rows.rejects])
                samples += len(keys) + len(rows.rejects)
                with self._lock:
                    self._read_bytes += rows.read_bytes
                    self._progress(self._read_bytes)
        return samples

    def known_rejects(self, packed: PackedSource) -> int:
        """Log the rejects of a survey, whose split isn't known; return how many."""
        rejects = packed.survey.rejects
        self._reject(packed.survey.splits[0], -1, [(one.key, one.source, one.reason) for one in rejects])
        return len(rejects)

    def _reject(self, split: str, number: int, rejects: Sequence[tuple[str, str, str]]) -> None:
        texts = [json.dumps([number, *reject]) for reject in rejects]
        self._add(split, texts, [key for key, _, _ in rejects], [_UNKNOWN] * len(rejects), _REJECTED)

    def _add(self, split: str, texts: Sequence[str], keys: Sequence[str], held: Sequence[bytes], mark: int) -> None:
        numbers = self._names.add(texts)
        self._log.add(keys, held, numbers | self._splits[split] << _SPLIT_BITS | mark)


class _Comparison:
    """Counts differences, and lists the first of each kind."""

    def __init__(
        self,
        parts: Sequence[_Part],
        datasets: Mapping[str, Dataset],
        splits: Sequence[str],
        names: SampleNames,
        *,
        renames: bool,
    ) -> None:
        self._parts = parts
        self._datasets = datasets
        self._splits = splits
        self._names = names
        self._renames = renames
        self.counts = dict.fromkeys(WHATS, 0)
        self.listed: list[Difference] = []

    def look(self, mine: SampleLog, theirs: SampleLog, folder: str) -> int:
        """Compare both logs; return how many samples of the source are rejects that the dataset hasn't."""
        rejected = 0
        for part in differences(mine, theirs, folder):
            if self._renames and len(part.again):
                [(_, key, *_)] = self._read_names(part.again[:1])
                raise UsageError(
                    f"the key {key!r} comes twice in the source, and the pack renamed such samples "
                    "(--key-conflict suffix): which is which can't be told, so that this source can't be compared"
                )
            left, right = part.pairs.T
            is_reject = (right & _REJECTED) != 0
            moved = ((left >> _SPLIT_BITS) != (right & ~_REJECTED) >> _SPLIT_BITS) & ~is_reject
            self._of_source("rejected", right[is_reject], left[is_reject])
            self._of_source("split", right[moved], left[moved])
            changed = part.differs & ~is_reject & ~moved
            self._of_source("changed", right[changed], left[changed])
            for what, numbers in (("new", part.strange), ("again", part.again)):
                unread = (numbers & _REJECTED) != 0
                rejected += int(np.count_nonzero(unread))
                self._of_source(what, numbers[~unread])
            self._of_dataset("missing", part.missing)
        return rejected

    def _room(self, what: str, count: int) -> int:
        """Count differences; return how many of them are to be listed."""
        self.counts[what] += count
        return min(count, MOST_LISTED - len(self.listed))

    def _of_dataset(self, what: str, numbers: _Numbers) -> None:
        for split, row, key in self._rows(numbers[: self._room(what, len(numbers))]):
            self.listed.append(Difference(what=what, key=key, split=split, row=row))

    def _of_source(self, what: str, numbers: _Numbers, mine: _Numbers | None = None) -> None:
        """List samples of the source; `mine` are those of the dataset with the same keys."""
        numbers = numbers[: self._room(what, len(numbers))]
        there = None if mine is None else list(self._rows(mine[: len(numbers)]))
        for i, (number, (part, key, *more)) in enumerate(zip(numbers.tolist(), self._read_names(numbers), strict=True)):
            split, row = self._splits[(number & ~_REJECTED) >> _SPLIT_BITS], None
            if there is not None:
                split, row, _ = there[i]
            place, reason = more or (self._place(part, key), "")
            self.listed.append(Difference(what=what, key=key, split=split, row=row, place=place, reason=reason))

    def _place(self, number: int, key: str) -> str:
        part = self._parts[number]
        return part.packed.source.place(part.slice, key)

    def _read_names(self, numbers: _Numbers) -> list[tuple[Any, ...]]:
        return [tuple(json.loads(text)) for text in self._names.read((numbers & (1 << _SPLIT_BITS) - 1).tolist())]

    def _rows(self, numbers: _Numbers) -> Iterator[tuple[str, int, str]]:
        """Yield split, row and key of samples of the dataset."""
        for number in numbers.tolist():
            split, row = self._splits[number >> _SPLIT_BITS], number & (1 << _SPLIT_BITS) - 1
            yield split, row, self._datasets[split].fetcher.place(row).key


def _order(one: Difference) -> tuple[str, str, int, str]:
    return one.what, one.split, -1 if one.row is None else one.row, one.key
