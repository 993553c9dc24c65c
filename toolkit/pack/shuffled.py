"""Staged rows in another order: each slice is a run of places in a keyed permutation of its split.

Only sizes are kept for each row, in a file; which row comes at a place is arithmetic.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.errors import StorageError
from toolkit.format.digest import sample_digests
from toolkit.format.schema import DIGEST, DIGEST_BYTES, KEY, is_own_name
from toolkit.format.sizes import row_bytes
from toolkit.format.tables import sha256
from toolkit.format.unhashed import stat_path
from toolkit.pack.derive import STATS
from toolkit.pack.journal import SliceResult
from toolkit.pack.stage import Stage
from toolkit.sources.base import Rows, Slice, Survey
from toolkit.sources.shuffle import shuffled
from toolkit.storage.files import storage_errors
from toolkit.storage.mapped import map_file
from toolkit.storage.scratch import written
from toolkit.storage.store import local_path_of

__all__ = ["ShuffledRows"]

_PIECE_BYTES = 16 * 1024 * 1024  # a piece takes rows from all over the stage: small ones would open each batch often
_PLACES = 1 << 20  # how many places are cut into slices at once
_OPEN_FILES = 64

_Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Run:
    """What a slice is: places `start` to `stop` in the order of `seed`; `of` is a hash of all staged rows."""

    start: int
    stop: int
    seed: int
    of: str


class ShuffledRows:
    """The rows that a first pass staged, in the order of a seed.

    Attributes:
        survey: The first pass's survey with other slices: each fills one shard.
    """

    def __init__(
        self,
        survey: Survey,
        results: Sequence[SliceResult],
        stage: Stage,
        *,
        seed: int,
        slice_bytes: int,
        refers: bool = False,
    ) -> None:
        """`survey` and `results` are those of the first pass; `refers`: its rows are references, and finished."""
        self._seed = seed
        self._slice_bytes = slice_bytes
        self._splits = {
            name: _StagedSplit(name, [result for result in results if result.split == name], stage, refers)
            for name in survey.splits
        }
        slices = tuple(part for name, split in self._splits.items() for part in self._cut(name, split))
        self.survey = replace(survey, slices=slices, shuffled=True)

    def rows(self, part: Slice) -> Iterator[Rows]:
        """Gather the rows of a slice from all over the stage."""
        run: _Run = part.payload  # type: ignore[assignment]
        split = self._splits[part.split]
        places = np.arange(run.start, run.stop, dtype=np.int64)
        rows = shuffled(split.rows, run.seed, part.split, places)
        ends = np.cumsum(split.sizes[rows])
        files: dict[str, _StagedFile] = {}
        start = 0
        while start < len(rows):
            before = int(ends[start - 1]) if start else 0
            stop = max(start + 1, int(np.searchsorted(ends, before + _PIECE_BYTES, side="right")))
            yield Rows(split.gather(rows[start:stop], files), (), int(ends[stop - 1]) - before)
            start = stop

    def _cut(self, name: str, split: _StagedSplit) -> Iterator[Slice]:
        """Cut the places where their rows' sizes fill a shard."""
        number = start = used = 0
        for first in range(0, split.rows, _PLACES):
            places = np.arange(first, min(first + _PLACES, split.rows), dtype=np.int64)
            ends = np.cumsum(split.sizes[shuffled(split.rows, self._seed, name, places)])
            before = 0  # bytes of these places that earlier slices took
            while (fit := int(np.searchsorted(ends, before + self._slice_bytes - used, side="right"))) < len(ends):
                fit = fit if first + fit > start else fit + 1  # a row bigger than a shard has one of its own
                taken = int(ends[fit - 1]) if fit else 0
                yield self._slice(name, number, start, first + fit, used + taken - before, split)
                number, start, used, before = number + 1, first + fit, 0, taken
            used += int(ends[-1]) - before
        if start < split.rows:
            yield self._slice(name, number, start, split.rows, used, split)

    def _slice(self, name: str, number: int, start: int, stop: int, nbytes: int, split: _StagedSplit) -> Slice:
        run = _Run(start, stop, self._seed, split.digest)
        return Slice(name, number, stop - start, nbytes, run)


class _StagedSplit:
    """The staged rows of a split, numbered in the order of the input.

    Attributes:
        rows: How many there are.
        sizes: int64, what each row adds to a shard, in a file.
        digest: A hash that changes with any of them.
    """

    def __init__(self, name: str, results: Sequence[SliceResult], stage: Stage, refers: bool) -> None:
        self._names: list[str] = []
        self._refers = refers
        self._sums: dict[str, bytes] = {}  # of files that are still to be checked as a whole
        self._store = stage.journal.store
        self._damaged: set[str] = set()  # files that were removed, because their bytes had changed
        self._lock = threading.Lock()
        places: list[tuple[int, int, int]] = []  # of each record batch: its file, its number there, its rows
        for record in (record for result in results for record in result.records):
            places += [(len(self._names), number, batch.rows) for number, batch in enumerate(record.batches)]
            self._names.append(stage.journal.shard_name(record))
            if refers:
                self._sums[self._names[-1]] = record.sha256
        self._batches = np.array(places, np.int64).reshape(-1, 3)
        self._ends = np.cumsum(self._batches[:, 2])
        self.rows = int(self._ends[-1]) if len(self._ends) else 0
        self.digest = sha256(repr([(result.fingerprint, result.renames, result.rows) for result in results]).encode())
        assert stage.journal.folder is not None  # nothing in memory is shuffled
        self.sizes = self._measure(os.path.join(stage.journal.folder, f"{name}.sizes"))

    def gather(self, rows: _Numbers, files: dict[str, _StagedFile]) -> pa.RecordBatch:
        """Return the rows with those numbers, in that order; `files` keeps some open between calls.

        Raises:
            StorageError: A row isn't what was staged; its file is removed, so that another run stages it again.
        """
        order = np.argsort(rows)
        ascending = rows[order]
        batches = np.searchsorted(self._ends, ascending, side="right")
        pieces = []
        cuts = np.flatnonzero(np.diff(batches)) + 1
        for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), len(rows)], strict=True):
            batch = int(batches[start])
            within = ascending[start:stop] - (int(self._ends[batch]) - int(self._batches[batch, 2]))
            file = self._file(batch, files)
            piece = file.batch(int(self._batches[batch, 1])).take(pa.array(within))
            if self._refers:
                pieces.append(self._with_stats(batch, piece, within))
                file.let_go()
                continue
            file.let_go()
            self._check(batch, piece)
            # Derived columns are in no digest: nobody could tell whether the disk changed them.
            pieces.append(piece.drop_columns([one for one in piece.schema.names if is_own_name(one) and one != KEY]))
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return pa.concat_batches(pieces).take(pa.array(back))

    def _measure(self, path: str) -> _Numbers:
        """Write the size of every row to a file; return its map."""
        files: dict[str, _StagedFile] = {}
        with written(path) as sizes:
            for batch in range(len(self._batches)):
                file = self._file(batch, files)
                rows = file.batch(int(self._batches[batch, 1])).drop_columns([DIGEST])
                sizes.write(row_bytes(rows).tobytes())
                file.let_go()
        if not self.rows:
            return np.empty(0, np.int64)
        return np.frombuffer(map_file(path), np.int64)

    def _file(self, batch: int, files: dict[str, _StagedFile]) -> _StagedFile:
        """Return the file of a batch, opened if it isn't."""
        name = self._names[int(self._batches[batch, 0])]
        if name not in files:
            if len(files) == _OPEN_FILES:
                files.pop(next(iter(files)))
            try:
                files[name] = _StagedFile(local_path_of(self._store, name))
                self._check_whole(name, files[name])
            except StorageError:
                if name in self._damaged:  # another thread found that, and removed it
                    raise self._fault(name) from None
                raise
        return files[name]

    def _with_stats(self, batch: int, rows: pa.RecordBatch, within: _Numbers) -> pa.RecordBatch:
        """Return rows with what lies beside their file, if anything does."""
        name = stat_path(self._names[int(self._batches[batch, 0])])
        info = self._store.info(name)
        if info is None or not info.bytes:
            return rows
        first = int(np.searchsorted(self._batches[:, 0], self._batches[batch, 0]))  # of the file's record batches
        width = info.bytes // int(self._batches[self._batches[:, 0] == self._batches[batch, 0], 2].sum())
        numbers = within + int(self._batches[first:batch, 2].sum())
        stats = np.frombuffer(map_file(local_path_of(self._store, name)), np.uint8).reshape(-1, width)[numbers]
        column = pa.Array.from_buffers(pa.binary(width), len(numbers), [None, pa.py_buffer(stats)])
        return pa.RecordBatch.from_arrays([*rows.columns, column], names=[*rows.schema.names, STATS])

    def _check(self, batch: int, rows: pa.RecordBatch) -> None:
        if not pa.array(sample_digests(rows), pa.binary(DIGEST_BYTES)).equals(rows.column(DIGEST)):
            self._refuse(self._names[int(self._batches[batch, 0])])

    def _check_whole(self, name: str, file: _StagedFile) -> None:
        """Check a file by its hash, once: the digests of references aren't of what is staged."""
        with self._lock:
            digest = self._sums.get(name)
        if digest is None:
            return
        if file.sha256() != digest:
            self._refuse(name)
        with self._lock:
            self._sums.pop(name, None)

    def _refuse(self, name: str) -> NoReturn:
        with self._lock:
            if name not in self._damaged:
                self._damaged.add(name)
                self._store.delete([name])
        raise self._fault(name)

    def _fault(self, name: str) -> StorageError:
        return StorageError(
            f"{self._store.place(name)!r} is not what this pack wrote to it in its first pass: check the disk. The "
            "same command reads those samples again"
        )


class _StagedFile:
    """A staged shard, mapped. Pages that were touched count as this process's memory until they are let go."""

    def __init__(self, path: str) -> None:
        self._map = map_file(path)
        with storage_errors("read", path):
            self._reader = pa.ipc.open_file(pa.py_buffer(self._map))

    def batch(self, number: int) -> pa.RecordBatch:
        """Return a record batch that lies in the map."""
        return self._reader.get_batch(number)

    def sha256(self) -> bytes:
        """Return the hash of the whole file."""
        found = hashlib.sha256(self._map).digest()
        self.let_go()
        return found

    def let_go(self) -> None:
        """Give the touched pages back; they stay in the page cache."""
        self._map.madvise(mmap.MADV_DONTNEED)
