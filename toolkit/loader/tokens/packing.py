"""Whole documents packed into rows: fixed groups of consecutive documents, each packed by itself.

What a row holds depends on the lengths of its group's documents and nothing else, so any row of any epoch is found
without the others. The order permutes groups, then the rows in each.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit._native.order.permute import permute
from toolkit._native.tokens.fit import fit_rows
from toolkit.loader.outputs.spec import RowRange
from toolkit.loader.tokens.options import Fit
from toolkit.loader.tokens.run import OpenRun
from toolkit.loader.tokens.schedule import Step
from toolkit.loader.tokens.stretches import Stretches

__all__ = ["PackedDocuments"]

_KEPT_GROUPS = 32


@dataclass(frozen=True, slots=True)
class _Group:
    """The pieces of a group's rows, row by row: token of the run, length, place in the row. `first`: of each row."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    places: NDArray[np.int64]
    first: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Epoch:
    """An epoch's groups in their order, and the row at which each begins, and all end."""

    number: int
    groups: NDArray[np.int64]
    first: NDArray[np.int64]


class PackedDocuments:
    """A split's documents in rows of `seq_len`. Safe from any thread.

    Attributes:
        rows: Rows of an epoch.
        padding_share: Which part of them is padding.
        block: 0: stretches are of the run itself.
    """

    def __init__(
        self,
        run: OpenRun,
        documents: int,
        seq_len: int,
        fit: Fit,
        group_documents: int,
        keys: Callable[..., int] | None,
    ) -> None:
        """Read every document's length, and pack. `keys` gives the key of (epoch,) and (epoch, group); None: no order.

        Raises:
            CorruptShardError: A length can't be read.
        """
        self.block = 0
        self._run = run
        self._documents = documents
        self._seq_len = seq_len
        self._fit = fit
        self._each = group_documents
        self._keys = keys
        self._lock = threading.Lock()
        self._kept: OrderedDict[int, _Group] = OrderedDict()
        groups = -(-documents // group_documents)
        self._rows = np.array([len(self._make(number).first) - 1 for number in range(groups)], np.int64)
        self.rows = int(self._rows.sum())
        self.padding_share = 1 - run.tokens / (self.rows * seq_len) if self.rows else 0.0
        self._epoch = _Epoch(-1, np.empty(0, np.int64), np.empty(0, np.int64))

    def key(self, epoch: int) -> int:
        """Return 0: stretches are of the run itself."""
        return 0

    def stretches(self, steps: Sequence[Step], rows: Sequence[RowRange]) -> Stretches:
        """Return the pieces of these rows of each step."""
        first = steps[0]
        wanted = np.concatenate([np.arange(low, high) for low, high in rows])
        number = np.arange(len(steps))[:, None]
        at = np.where(wanted < first.units, first.place.position + number * first.units + wanted, -1).reshape(-1)
        outs = np.flatnonzero(at >= 0)
        epoch = self._order(first.place.epoch)
        placed = np.searchsorted(epoch.first, at[outs], side="right") - 1
        parts: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]] = []
        for place in np.unique(placed).tolist():
            mine = outs[placed == place]
            number_of = int(epoch.groups[place])
            inner = self._inner(first.place.epoch, number_of, at[mine] - epoch.first[place])
            parts.append(_pieces(self._group(number_of), inner, mine * self._seq_len))
        if not parts:
            return Stretches(*(np.empty(0, np.int64) for _ in range(3)))
        starts, counts, places = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Stretches(starts, counts, places)

    def _order(self, epoch: int) -> _Epoch:
        kept = self._epoch
        if kept.number == epoch:
            return kept
        groups = np.arange(len(self._rows), dtype=np.int64)
        if self._keys is not None and len(groups):
            order = np.empty_like(groups)
            permute(len(groups), self._keys(epoch), groups, order)
            groups = order
        first = np.concatenate(([0], np.cumsum(self._rows[groups])))
        kept = self._epoch = _Epoch(epoch, groups, first)
        return kept  # not what the attribute holds by now: another thread may be in another epoch

    def _inner(self, epoch: int, group: int, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        if self._keys is None:
            return rows
        order = np.empty_like(rows)
        permute(int(self._rows[group]), self._keys(epoch, group), np.ascontiguousarray(rows), order)
        return order

    def _group(self, number: int) -> _Group:
        with self._lock:
            known = self._kept.get(number)
            if known is not None:
                self._kept.move_to_end(number)
                return known
        made = self._make(number)
        with self._lock:
            self._kept[number] = made
            while len(self._kept) > _KEPT_GROUPS:
                self._kept.popitem(last=False)
        return made

    def _make(self, number: int) -> _Group:
        """Pack a group: long documents are cut at seq_len, the longest pieces placed first."""
        first = number * self._each
        begin, ends = self._run.document_ends(first, min(self._each, self._documents - first))
        begins = np.concatenate(([begin], ends[:-1]))
        length = self._seq_len
        counts = -(-(ends - begins) // length)
        document = np.repeat(np.arange(len(ends)), counts)
        number_in = np.arange(len(document)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = begins[document] + number_in * length
        lengths = np.minimum(ends[document] - starts, length)
        by_length = np.argsort(-lengths, kind="stable")
        rows = np.empty(len(lengths), np.int64)
        places = np.empty(len(lengths), np.int64)
        total = fit_rows(np.ascontiguousarray(lengths[by_length]), length, self._fit is Fit.BEST, rows, places)
        by_row = np.argsort(rows, kind="stable")
        taken = by_length[by_row]
        row_first = np.searchsorted(rows[by_row], np.arange(total + 1))
        return _Group(starts[taken], lengths[taken], places[by_row], row_first.astype(np.int64))


def _pieces(
    group: _Group, rows: NDArray[np.int64], outs: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return starts, lengths and places in the output of the pieces of `rows`, whose first tokens go to `outs`."""
    counts = group.first[rows + 1] - group.first[rows]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    taken = np.repeat(group.first[rows], counts) + within
    return group.starts[taken], group.lengths[taken], np.repeat(outs, counts) + group.places[taken]
