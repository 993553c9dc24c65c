"""What `verify --full` looks for in the rows of one record batch: digests, labels, tokens, derived columns, keys.

The bytes are those that were packed; here it is asked whether they are what the dataset says of them.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.checks.verify_derived import DerivedChecks
from toolkit.errors import StorageError
from toolkit.format.arrays import numbers, valid_rows, value_offsets
from toolkit.format.digest import sample_digests
from toolkit.format.key_hashes import key_hash
from toolkit.format.key_repeats import find_repeats
from toolkit.format.manifest import LabelCounts
from toolkit.format.schema import DIGEST, KEY, Column, Kind, TokenEncoding
from toolkit.storage.files import storage_errors
from toolkit.storage.scratch import scratch_folder, written

__all__ = ["Fault", "KeyLog", "SampleChecks"]


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the batch, and what is wrong with it."""

    row: int
    what: str


class SampleChecks:
    """Checks of the rows of a split, and what they add up to. Safe from any thread.

    Attributes:
        rows: How many were looked at.
    """

    def __init__(
        self,
        columns: Sequence[Column],
        classes: Mapping[str, int],
        derived: DerivedChecks | None,
        keys: KeyLog,
        split: str,
    ) -> None:
        """`classes`: how many each column that has a label table has; `derived` is None where nothing is hashed."""
        self._derived = derived
        labels = [one.name for one in columns if one.kind is Kind.LABEL]
        self._labelled = {name: classes[name] for name in labels}
        self._lists = {name: count for name, count in classes.items() if name not in labels}
        self._tokens = next((one for one in columns if one.kind is Kind.TOKENS), None)
        self.keys = keys
        self._split = split
        self._lock = threading.Lock()
        self.rows = 0
        self._labels = {name: Counter[int | None]() for name in labels}

    def look(self, records: pa.RecordBatch, first_row: int) -> Iterator[Fault]:
        """Count the rows, and yield what is wrong with them."""
        self.keys.add(self._split, first_row, records.column(KEY).to_pylist())
        if self._derived is not None:
            packed = records.column(DIGEST).to_pylist()
            for row, digest in enumerate(sample_digests(records)):
                if digest != packed[row]:
                    yield Fault(row, "its digest isn't the one that it was packed with")
            for row, what in self._derived.look(records):
                yield Fault(row, what)
        for name, classes in self._labelled.items():
            yield from self._look_at_labels(name, classes, records.column(name))
        for name, classes in self._lists.items():
            yield from _look_at_lists(name, classes, records.column(name))
        if self._tokens is not None and self._tokens.tokens is not None:
            yield from _look_at_tokens(self._tokens.name, self._tokens.tokens, records.column(self._tokens.name))
        with self._lock:
            self.rows += records.num_rows

    def tokens_fault(self, records: pa.RecordBatch, tokens: int) -> str | None:
        """Compare the documents of a record batch with its tokens: they are one run, which leaves none out."""
        if self._tokens is None:
            return None
        ends = value_offsets(records.column(self._tokens.name))
        held = int(ends[-1] - ends[0])
        return None if held == tokens else f"its documents hold {held} tokens, its shard table says {tokens}"

    def labels_fault(self, column: str, counts: LabelCounts) -> str | None:
        """Compare what was counted of a label column with what the manifest says."""
        seen = self._labels[column]
        counted = LabelCounts(counts=tuple(seen[i] for i in range(len(counts.counts))), missing=seen[None])
        return None if counted == counts else f"the classes of column {column} occur otherwise than the manifest says"

    def _look_at_labels(self, name: str, classes: int, labels: pa.Array) -> Iterator[Fault]:
        ids = numbers(labels)
        there = valid_rows(labels)
        strange = there & ((ids < 0) | (ids >= classes))
        values, counts = np.unique(ids[there & ~strange], return_counts=True)
        with self._lock:
            self._labels[name].update(dict(zip(values.tolist(), counts.tolist(), strict=True)))
            self._labels[name][None] += int(np.count_nonzero(~there))
        for row in np.flatnonzero(strange).tolist():
            yield Fault(row, f"column {name} has the label {ids[row]}, and its label table {classes} names")


def _look_at_lists(name: str, classes: int, lists: pa.Array) -> Iterator[Fault]:
    ends = value_offsets(lists)
    items = lists.values[int(ends[0]) : int(ends[-1])]
    ids, there = numbers(items), valid_rows(items)
    wrong = np.flatnonzero(~there | (ids < 0) | (ids >= classes))
    rows, firsts = np.unique(np.searchsorted(ends - ends[0], wrong, side="right") - 1, return_index=True)
    for row, place in zip(rows.tolist(), wrong[firsts].tolist(), strict=True):
        what = f"the id {ids[place]}" if there[place] else "a null"
        if lists[row].is_valid:
            yield Fault(row, f"column {name} has {what} in its list, and its label table {classes} names")


def _look_at_tokens(name: str, encoding: TokenEncoding, documents: pa.Array) -> Iterator[Fault]:
    ids, ends = numbers(documents.values), value_offsets(documents)
    wrong = np.flatnonzero(ids >= encoding.vocabulary)
    for row in np.unique(np.searchsorted(ends, wrong, side="right") - 1).tolist():
        yield Fault(row, f"column {name} has a token beyond the vocabulary of {encoding.vocabulary}")
    if encoding.eos is not None:
        filled = np.flatnonzero(ends[1:] > ends[:-1])
        for row in filled[ids[ends[1:][filled] - 1] != encoding.eos].tolist():
            yield Fault(row, f"column {name} has a document without the end-of-text token {encoding.eos}")


class KeyLog:
    """The hashes of all keys of a version, on disk, to find those that occur twice. Safe from any thread.

    Owns a temporary folder until the `with` block ends.
    """

    def __init__(self, rows: Mapping[str, int]) -> None:
        """`rows`: of each split of the version, in their order."""
        ends = itertools.accumulate(rows.values(), initial=0)
        self._bases = dict(zip(rows, ends, strict=False))
        self._lock = threading.Lock()
        self._starts = [0]
        self._firsts: list[int] = []  # row of the version of the first key of each run
        with contextlib.ExitStack() as opened:
            self._folder = opened.enter_context(scratch_folder(prefix="toolkit-verify-"))
            self._path = os.path.join(self._folder, "keys")
            self._file = opened.enter_context(written(self._path))
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(StorageError):  # a full disk was told already
            self._opened.close()

    def add(self, split: str, first_row: int, keys: Sequence[str]) -> None:
        """Add the keys of a run of rows of a split. Raises StorageError."""
        data = b"".join(map(key_hash, keys))
        with self._lock, storage_errors("write", self._path):
            self._file.write(data)
            self._firsts.append(self._bases[split] + first_row)
            self._starts.append(self._starts[-1] + len(keys))

    def repeats(self) -> Iterator[tuple[str, int, str, int]]:
        """Yield split and row of a key that an earlier row has, and split and row of the first that has it.

        Earlier by the order of splits and rows, whichever thread came first. Raises StorageError.
        """
        with storage_errors("write", self._path):
            self._file.flush()
        found = find_repeats([self._path], self._folder)
        # Threads log in any order: which row is a key's first follows from its place in the version.
        firsts = np.unique(found.firsts)
        keys = np.concatenate([found.firsts, firsts])
        rows = self._in_version(np.concatenate([found.rows, firsts]))
        order = np.lexsort((rows, keys))
        keys, rows = keys[order], rows[order]
        begins = np.flatnonzero(np.diff(keys, prepend=-1))
        earliest = np.repeat(rows[begins], np.diff(begins, append=len(rows)))
        again = np.flatnonzero(rows != earliest)
        for i in again[np.argsort(rows[again])].tolist():
            yield *self._place(int(rows[i])), *self._place(int(earliest[i]))

    def _in_version(self, logged: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of the version, counted over its splits, of keys as they were logged."""
        runs = np.searchsorted(self._starts, logged, side="right") - 1
        return np.array(self._firsts, np.int64)[runs] + logged - np.array(self._starts, np.int64)[runs]

    def _place(self, row: int) -> tuple[str, int]:
        """Return the split of a row of the version, and its row there."""
        name = next(name for name in reversed(self._bases) if self._bases[name] <= row)
        return name, row - self._bases[name]
