"""Rows whose path is a URL, where --fetch-urls lets them be fetched: what of them is a key, and what they name.

What is larger than expected ends a piece of rows, since nobody knows the size of what isn't there yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit.format.arrays import bool_array, to_array
from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.fetch import Fetcher, FetchError
from toolkit.sources.tables.paths import FETCH, Files, paths_of
from toolkit.sources.urls import Url, read_url

__all__ = ["Fetched", "fetched_spans"]


@dataclass
class Fetched:
    """What came for a field of some rows, by their number, and why nothing came for others."""

    values: dict[int, bytes] = field(default_factory=dict)
    reasons: dict[int, str] = field(default_factory=dict)

    def put_into(self, payloads: pa.Array) -> pa.Array:
        """Return values of files (binary) with what was fetched in its place."""
        if not self.values:
            return payloads
        mask = np.zeros(len(payloads), np.bool_)
        rows = sorted(self.values)
        mask[rows] = True
        return pc.replace_with_mask(payloads, bool_array(mask), to_array([self.values[i] for i in rows], pa.binary()))


def fetched_spans(
    batch: pa.RecordBatch, files: Mapping[str, Files], fetcher: Fetcher
) -> Iterator[tuple[int, int, dict[str, Fetched]]]:
    """Yield (start, stop) of rows that come to a piece with what their URLs name, and that, by field.

    Fetches nothing where no row has a URL.
    """
    wanted = [(row, name) for name, of in files.items() for row in np.flatnonzero(of.codes == FETCH).tolist()]
    wanted.sort(key=lambda one: one[0])
    urls = _urls(batch, wanted)
    start = total = last = 0
    found = {name: Fetched() for name in files}
    for (row, name), url, got in zip(wanted, urls, fetcher.fetch_all(urls), strict=True):
        if total > PIECE_BYTES and row > last:
            yield start, row, found
            start, total, found = row, 0, {name: Fetched() for name in files}
        last = row
        if isinstance(got, FetchError):
            found[name].reasons[row - start] = f"{url.shown}: {got}"
        else:
            found[name].values[row - start] = got
            total += len(got)
    yield start, batch.num_rows, found


def _urls(batch: pa.RecordBatch, wanted: list[tuple[int, str]]) -> list[Url]:
    texts = {name: paths_of(batch.column(name)) for name in {name for _, name in wanted}}
    return [read_url((texts[name][row] or b"").decode().strip()) for row, name in wanted]
