"""The stage of a column of bytes that no slot reads: every batch's values in one block, copied there out of the map."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.body import READ_OK
from toolkit.loader.dataset.fetch import Fetcher
from toolkit.loader.dataset.located import Found, Located
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.stages.memory import SampleMemory
from toolkit.loader.stages.stage import ColumnStage, Part
from toolkit.memory.bytes_column import BytesColumn
from toolkit.memory.pool import Lend

__all__ = ["BytesStage"]

_EMPTY: NDArray[np.uint8] = np.empty(0, np.uint8)


class _Place:
    """A column whose values are found first, for the block to be as large as they are, and then copied in parts."""

    found: Found
    offsets: NDArray[np.int64]
    present: NDArray[np.bool_]

    def __init__(self, samples: int, lend: Lend) -> None:
        self.samples = samples
        self.lend = lend
        self.data = _EMPTY


class BytesStage(ColumnStage):
    """Bytes as they are stored: a BytesColumn a batch, whose block is lent once the lengths are known."""

    laid_out = True

    def __init__(self, column: str, leaf: str, fetcher: Fetcher, stats: LoaderStats) -> None:
        super().__init__(column, fetcher, stats)
        self._leaf = leaf

    def allocate(self, samples: int, lend: Lend) -> _Place:
        """Return a place without a block."""
        return _Place(samples, lend)

    def block_bytes(self, samples: int) -> None:
        """Return None: the size is known when the values were found."""

    def late_bytes(self, located: Located) -> int:
        """Return the size of the values' block."""
        return _rounded(int(self._fetcher.find(self._leaf, located).lengths.sum()))

    def lay_out(self, place: _Place, located: Located, where: NDArray[np.int64]) -> None:
        """Find the values and lend a block for them."""
        found = self._fetcher.find(self._leaf, located)
        place.found = found if len(where) == place.samples else found.spread(where, place.samples)
        place.offsets = np.zeros(place.samples + 1, np.int64)
        place.found.lengths.cumsum(out=place.offsets[1:])
        place.present = place.found.statuses == READ_OK
        total = int(place.offsets[-1])
        if total:
            place.data = place.lend(_rounded(total), late=True)[:total]

    def fill(self, place: _Place, part: Part, memory: SampleMemory) -> None:
        """Copy and check the part's values."""
        begun = time.perf_counter()
        self._fetcher.gather(self._leaf, part.located, place.found, part.places, place.offsets, place.data)
        nbytes = int(place.offsets[part.places.stop] - place.offsets[part.places.start])
        self._stats.add(fetch_seconds=time.perf_counter() - begun, fetched_bytes=nbytes)

    def blank(self, place: _Place, start: int, stop: int) -> None:
        """Let values be None; what was lent to them is zeroed."""
        place.present[start:stop] = False
        place.data[place.offsets[start] : place.offsets[stop]] = 0

    def finish(self, place: _Place) -> BytesColumn:
        """Return the column."""
        return BytesColumn.over(place.data, place.offsets, place.present)


def _rounded(nbytes: int) -> int:
    """Return a size that few blocks have, so that those that come back fit again: at most an eighth more."""
    step = max(4096, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step
