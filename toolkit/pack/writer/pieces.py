"""Make a piece of records into rows as they are stored: arrays, shaped media, derived columns, and each row's size."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from toolkit.format.arrays import numbers, to_array
from toolkit.format.schema import KEY
from toolkit.format.sizes import row_bytes
from toolkit.pack.derive import Deriver
from toolkit.pack.shape import Shaper
from toolkit.pack.writer.allowance import Allowance, Refused, record_name
from toolkit.pack.writer.collect import Piece
from toolkit.pack.writer.declared import Declared
from toolkit.pack.writer.values import Values
from toolkit.sources.base import Rows
from toolkit.sources.names import is_utf8

__all__ = ["Made", "MadeRows", "PieceMaker"]

_NUMBER = "\0number"  # beside the columns, until the rows are shaped: no column has such a name


@dataclass(frozen=True, slots=True)
class MadeRows:
    """Rows as they are stored, in order: their numbers (int64), the places of their splits, and their sizes (int64)."""

    batch: pa.RecordBatch
    numbers: NDArray[np.int64]
    splits: NDArray[np.int64] | None
    sizes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Made:
    """What a piece came to; `refused` in the order of their numbers."""

    rows: Sequence[MadeRows]
    refused: Sequence[Refused]
    missing: Sequence[int]
    stop: int
    names: Mapping[str, int]


class PieceMaker:
    """Makes pieces into rows, on any number of threads."""

    def __init__(
        self,
        columns: Sequence[Declared],
        values: Mapping[str, Values],
        shaper: Shaper,
        deriver: Deriver,
        allowance: Allowance,
    ) -> None:
        """`values` has every column but the label columns, whose ids are in the piece."""
        self._columns = columns
        self._values = values
        self._shaper = shaper
        self._deriver = deriver
        self._allowance = allowance

    def make(self, piece: Piece) -> Made:
        """Return the rows of a piece. Raises RejectsError."""
        refused = list(piece.refused)
        left_out = {one.number for one in refused}

        def refuse(row: int, reason: str) -> None:
            if piece.numbers[row] not in left_out:
                left_out.add(piece.numbers[row])
                split = 0 if piece.splits is None else piece.splits[row]
                refused.append(self._allowance.refuse(piece.numbers[row], piece.keys[row], split, reason))

        arrays = [_keys(piece.keys, refuse)]
        for declared in self._columns:
            name = declared.name
            if name in piece.labels:
                arrays.append(to_array(piece.labels[name], pa.int64()))
                continue
            array, faults = self._values[name].array([record[name] for record in piece.records])
            arrays.append(array)
            for row, why in faults.items():
                refuse(row, f"column {name!r}: {why}")
        arrays.append(to_array(piece.numbers, pa.int64()))
        batch = pa.RecordBatch.from_arrays(arrays, names=[KEY, *(one.name for one in self._columns), _NUMBER])
        if left_out:
            kept = [row for row, number in enumerate(piece.numbers) if number not in left_out]
            batch = batch.take(pa.array(kept, pa.int64()))
        rows = self._shaped(batch, piece, refused)
        refused.sort(key=lambda one: one.number)
        return Made(rows, refused, piece.missing, piece.stop, piece.names)

    def _shaped(self, batch: pa.RecordBatch, piece: Piece, refused: list[Refused]) -> list[MadeRows]:
        splits = None if piece.splits is None else np.array(piece.splits, np.int64)
        of_piece = None if splits is None else np.array(piece.numbers, np.int64)
        rows_of_keys: dict[str, list[int]] = {}

        def place(key: str) -> str:
            if not rows_of_keys:
                for row, one in enumerate(piece.keys):
                    rows_of_keys.setdefault(one, []).append(row)
            return record_name(piece.numbers[rows_of_keys[key][0]])

        made = []
        for rows in self._shaper.shaped(Rows(batch, (), 0), place):
            for reject in rows.rejects:
                row = rows_of_keys[reject.key].pop(0)  # of several with one key, those that fail come in order
                number, split = piece.numbers[row], 0 if piece.splits is None else piece.splits[row]
                refused.append(self._allowance.count(Refused(number, split, reject)))
            if rows.batch.num_rows:
                of_rows = numbers(rows.batch.column(rows.batch.num_columns - 1))
                stored = self._deriver.added(rows.batch.drop_columns([_NUMBER]))
                at = None if splits is None or of_piece is None else splits[np.searchsorted(of_piece, of_rows)]
                made.append(MadeRows(stored, of_rows, at, row_bytes(stored)))
        return made


def _keys(keys: Sequence[str], refuse: Callable[[int, str], None]) -> pa.Array:
    try:
        array = to_array(keys, pa.string())
        if all(keys):
            return array
    except UnicodeError:
        pass
    fit = []
    for row, key in enumerate(keys):
        if not key:
            refuse(row, "its key is empty")
        elif not is_utf8(key):
            refuse(row, "its key is not valid UTF-8")
        fit.append(key if is_utf8(key) else "")
    return to_array(fit, pa.string())
