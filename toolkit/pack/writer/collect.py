"""Collect records into pieces: each is kept safe from its owner, numbered, and refused at once where it can be told."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolkit.errors import UsageError, did_you_mean
from toolkit.pack.writer.allowance import Allowance, Refused
from toolkit.pack.writer.labels import Labels
from toolkit.pack.writer.values import Values
from toolkit.sources.base import PIECE_BYTES
from toolkit.sources.contents import UnfitError
from toolkit.sources.names import is_utf8, printable
from toolkit.sources.options import Missing
from toolkit.sources.splits import check_name

__all__ = ["Collector", "Piece"]

_MOST_ROWS = 1 << 14  # of a piece: records of a few bytes take much more as Python has them


@dataclass(frozen=True, slots=True)
class Piece:
    """Some records, in order.

    Attributes:
        records: Column -> value, of each.
        keys: Their keys.
        numbers: Their numbers, from 0 in the whole of the writer.
        splits: The place of each one's split in the list of splits; None: all have the first.
        labels: The ids of each label column.
        refused: Records that come between or before these and are left out, and rows of these that are.
        missing: The numbers of records that were passed over because they lack a column.
        stop: The number of the first record that is behind.
        names: How many names each open label column has so far.
    """

    records: Sequence[Mapping[str, Any]]
    keys: Sequence[str]
    numbers: Sequence[int]
    splits: Sequence[int] | None
    labels: Mapping[str, Sequence[int | None]]
    refused: Sequence[Refused]
    missing: Sequence[int]
    stop: int
    names: Mapping[str, int]


class Collector:
    """Takes records one by one and hands on pieces. For one thread at a time.

    Attributes:
        number: The number of the next record.
    """

    def __init__(
        self,
        values: Mapping[str, Values | Labels],
        *,
        split_names: list[str],
        first: int,
        key_of: Callable[[int], str],
        missing: Missing,
        allowance: Allowance,
        hand_on: Callable[[Piece], None],
    ) -> None:
        """Begin with record `first`.

        Args:
            values: How the values of each column are kept.
            split_names: The split of records that name none, alone; others are added to it.
            first: The number of the first record.
            key_of: Makes the key of a record that has none, of its number.
            missing: What becomes of a record that lacks a column.
            allowance: Counts what is refused.
            hand_on: Takes the pieces.
        """
        self.number = first
        self._split_names = split_names
        self._values = values
        self._labels = {name: one for name, one in values.items() if isinstance(one, Labels)}
        self._names = values.keys()
        self._plain = {name: one.plain for name, one in values.items()}
        self._key_of = key_of
        self._missing = missing
        self._allowance = allowance
        self._hand_on = hand_on
        self._split_numbers = {name: number for number, name in enumerate(self._split_names)}
        self._stop = first
        self._begin()

    def add(self, record: dict[str, Any], key: Any, split: str | None) -> None:
        """Take a record; it is the collector's from now on.

        Raises:
            RejectsError: It is refused, and no more may be.
            UsageError: No split can have that name.
        """
        number = self.number
        self.number = number + 1
        if key is None:
            key = self._key_of(number)
        elif type(key) is not str:
            key = self._checked_key(number, key, split)
            if key is None:
                return
        plain = self._plain
        nbytes = 0
        if record.keys() != self._names and not self._is_completed(number, key, split, record):
            return
        for name, value in record.items():
            kind = type(value)
            if kind in plain[name]:
                if kind is bytes or kind is str:
                    nbytes += len(value)
            elif value is None:
                if self._missing is not Missing.NULL:
                    self._lacks(number, key, split, name)
                    return
            else:
                try:
                    record[name] = kept = self._values[name].keep(value)
                except UnfitError as fault:
                    self._refuse(number, key, split, f"column {name!r}: {fault}")
                    return
                nbytes += _bytes_of(kept)
        if split is not None and self._split_numbers.get(split) != 0:
            self._note_split(split)
        elif self._splits is not None:
            self._splits.append(0)
        self._records.append(record)
        self._keys.append(key)
        self._numbers.append(number)
        self._nbytes += nbytes
        if self._nbytes >= PIECE_BYTES or len(self._records) >= _MOST_ROWS:
            self.flush()

    def flush(self) -> None:
        """Hand on what there is."""
        if self._stop == self.number:
            return
        self._stop = self.number
        records, keys, numbers, splits, refused = self._records, self._keys, self._numbers, self._splits, self._refused
        missing = self._passed_over
        labels = {}
        for name, one in self._labels.items():
            labels[name], faults = one.ids([record[name] for record in records])
            for row, why in faults.items():
                at = 0 if splits is None else splits[row]
                refused.append(self._allowance.refuse(numbers[row], keys[row], at, f"column {name!r}: {why}"))
        names = {name: len(one.names) for name, one in self._labels.items() if one.is_open}
        self._begin()
        self._hand_on(Piece(records, keys, numbers, splits, labels, refused, missing, self.number, names))

    def _begin(self) -> None:
        self._records: list[dict[str, Any]] = []
        self._keys: list[str] = []
        self._numbers: list[int] = []
        self._splits: list[int] | None = None
        self._refused: list[Refused] = []
        self._passed_over: list[int] = []
        self._nbytes = 0
        self._stop = self.number

    def _is_completed(self, number: int, key: str, split: str | None, record: dict[str, Any]) -> bool:
        """Put None for columns that a record lacks; refuse one that has too many."""
        unknown = [name for name in record if name not in self._names]
        if unknown:
            hint = did_you_mean(str(unknown[0]), self._names)
            told = f"{unknown[0]!r} is none of the columns {', '.join(self._names)}.{hint}"
            self._refuse(number, key, split, told)
            return False
        record.update((name, None) for name in self._names if name not in record)
        return True

    def _checked_key(self, number: int, key: object, split: str | None) -> str | None:
        if isinstance(key, str):
            return str(key)
        if isinstance(key, int | np.integer) and not isinstance(key, bool | np.timedelta64):
            return str(int(key))
        what = f"its key is of type {type(key).__name__}: keys are text, or whole numbers"
        self._refuse(number, self._key_of(number), split, what)
        return None

    def _lacks(self, number: int, key: str, split: str | None, name: str) -> None:
        if self._missing is Missing.SKIP:
            self._passed_over.append(number)
            self._note_size()
        else:
            self._refuse(number, key, split, f"column {name!r}: there is no value")

    def _refuse(self, number: int, key: str, split: str | None, reason: str) -> None:
        at = 0 if split is None else self._split_number(split)
        self._refused.append(self._allowance.refuse(number, key, at, reason))
        self._note_size()

    def _note_size(self) -> None:
        if self.number - self._stop >= _MOST_ROWS:
            self.flush()

    def _note_split(self, split: str) -> None:
        place = self._split_number(split)
        if self._splits is None:
            self._splits = [0] * len(self._records)
        self._splits.append(place)

    def _split_number(self, split: str) -> int:
        place = self._split_numbers.get(split)
        if place is None:
            if not isinstance(split, str) or not is_utf8(split):
                raise UsageError(f"record {self.number - 1}: {printable(str(split))!r} can't name a split")
            check_name(split)
            place = self._split_numbers[split] = len(self._split_names)
            self._split_names.append(split)
        return place


def _bytes_of(kept: Any) -> int:
    if isinstance(kept, bytes | str):
        return len(kept)
    if isinstance(kept, tuple):
        return len(kept[0])
    return int(getattr(kept, "nbytes", 8))
