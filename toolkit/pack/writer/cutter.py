"""Cut rows into slices of one shard each, where a row would take a split's shard over its size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.pack.journal import Journal
from toolkit.pack.slices import OpenSlice, SlicePacker
from toolkit.pack.writer.allowance import Refused
from toolkit.pack.writer.checkpoints import Checkpoint, Records, slice_of, write_checkpoint
from toolkit.pack.writer.pieces import Made, MadeRows

__all__ = ["Cutter"]


class Cutter:
    """Writes what pieces came to. When a shard of any split is full, the shards of all splits end, with a checkpoint.

    So where a shard ends depends on the rows alone, and a stopped writer goes on behind a whole number of records. For
    one thread.
    """

    def __init__(
        self,
        packer: SlicePacker,
        journal: Journal,
        records: Records,
        *,
        shard_bytes: int,
        split_names: Sequence[str],
        names: Mapping[str, Sequence[str]],
        on_rows: Callable[[int], None],
    ) -> None:
        """Go on behind `records`.

        Args:
            packer: What begins slices.
            journal: The dataset's: checkpoints go there.
            records: What is safe; it is kept up to date.
            shard_bytes: What a shard takes.
            split_names: The name of each split's place; it grows.
            names: Names of open label columns, which grow.
            on_rows: Called with how many records were written or refused.
        """
        self.records = records
        self._packer = packer
        self._journal = journal
        self._shard_bytes = shard_bytes
        self._split_names = split_names
        self._names = names
        self._known = {name: len(names[name]) for name in names}
        self._counts: Mapping[str, int] = self._known
        self._on_rows = on_rows
        self._numbers = {split: records.next_number(split) for split in records.splits}
        self._open: dict[int, OpenSlice] = {}  # by the place of its split
        self._used: dict[int, int] = {}
        self._stop = records.stop
        self._missing = 0

    def take(self, made: Made) -> None:
        """Write the rows of a piece. Raises StorageError."""
        refused, missing = list(made.refused), list(made.missing)
        self._counts = made.names
        for rows in made.rows:
            start = 0
            while start < rows.batch.num_rows:
                stop = self._fitting(rows, start)
                if stop < rows.batch.num_rows:
                    at = int(rows.numbers[stop])
                    refused = self._refuse(refused, at)
                    self._missing += sum(number < at for number in missing)
                    missing = [number for number in missing if number >= at]
                    self._write(rows, start, stop)
                    self._end(at)
                else:
                    self._write(rows, start, stop)
                start = stop
        self._refuse(refused, made.stop)
        self._missing += len(missing)
        self._stop = made.stop
        self._on_rows(sum(rows.batch.num_rows for rows in made.rows) + len(made.refused))

    def finish(self) -> None:
        """End the open slices, with the last checkpoint."""
        if self._stop > self.records.stop:
            self._end(self._stop)

    def abort(self) -> None:
        """Remove what isn't published."""
        for one in self._open.values():
            one.abort()

    def _fitting(self, rows: MadeRows, start: int) -> int:
        """Return the first row from `start` on that no longer fits; the number of rows if all do."""
        if rows.splits is None:
            return start + self._fit(0, rows.sizes[start:])
        stop: int = rows.batch.num_rows
        for split in np.unique(rows.splits[start:]).tolist():
            within = start + np.flatnonzero(rows.splits[start:] == split)
            fit = self._fit(split, rows.sizes[within])
            if fit < len(within):
                stop = min(stop, int(within[fit]))
        return stop

    def _fit(self, split: int, sizes: NDArray[np.int64]) -> int:
        used = self._used.get(split, 0)
        fit: int = np.searchsorted(used + np.cumsum(sizes), self._shard_bytes, side="right").item()
        return fit if used or fit else 1  # a row bigger than a shard gets one of its own

    def _write(self, rows: MadeRows, start: int, stop: int) -> None:
        if start == stop:
            return
        if rows.splits is None:
            sizes = rows.sizes[start:stop]
            self._slice(0).add(rows.batch.slice(start, stop - start), (), sizes)
            self._used[0] = self._used.get(0, 0) + int(sizes.sum())
            return
        of = rows.splits[start:stop]
        for split in dict.fromkeys(of.tolist()):
            within = start + np.flatnonzero(of == split)
            sizes = rows.sizes[within]
            self._slice(split).add(rows.batch.take(pa.array(within)), (), sizes)
            self._used[split] = self._used.get(split, 0) + int(sizes.sum())

    def _refuse(self, refused: list[Refused], stop: int) -> list[Refused]:
        """Note those before `stop`; return the others."""
        for one in refused:
            if one.number < stop:
                self._slice(one.split).reject(one.reject)
        return [one for one in refused if one.number >= stop]

    def _slice(self, split: int) -> OpenSlice:
        found = self._open.get(split)
        if found is None:
            name = self._split_names[split]
            found = self._open[split] = self._packer.begin(name, self._numbers.get(name, 0))
        return found

    def _end(self, stop: int) -> None:
        """Finish all open slices and write the checkpoint: every record before `stop` is in them."""
        first = self.records.stop
        slices = {}
        for split, one in self._open.items():
            name = self._split_names[split]
            slices[name] = self._numbers.get(name, 0)
            one.finish(slice_of(name, slices[name], first, stop))
            one.abort()
            self._numbers[name] = slices[name] + 1
        new = {name: tuple(names[self._known[name] : self._counts[name]]) for name, names in self._names.items()}
        checkpoint = Checkpoint(first=first, stop=stop, slices=slices, names=new, missing=self._missing)
        write_checkpoint(self._journal.store, self.records.checkpoints, checkpoint)
        self.records.add(checkpoint)
        self._known = dict(self._counts)
        self._open, self._used, self._missing, self._stop = {}, {}, 0, stop
