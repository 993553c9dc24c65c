"""What a stopped writer goes on from: after how many records all of them are in slices of the journal.

A checkpoint is written when the open slice of each split was finished, and behind their entries: it alone says that
they count. It lies in the journal, and goes with it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from toolkit.errors import NotFoundError
from toolkit.format.pin import JOURNAL
from toolkit.pack.journal import Journal, SliceResult
from toolkit.sources.base import Slice
from toolkit.storage.store import WritableStore

__all__ = [
    "COMPLETE",
    "Checkpoint",
    "Records",
    "has_checkpoint",
    "read_checkpoints",
    "read_whole",
    "slice_of",
    "write_checkpoint",
]

COMPLETE = f"{JOURNAL}/complete"
"""There when a part has all its records."""


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """Records `first` to `stop`: the slices they are in, and what is known besides.

    Attributes:
        slices: Split -> number of its slice, in the order of the splits' first records.
        names: Label column -> the names of classes that are new since the last checkpoint.
        missing: How many records were passed over because they lack a column.
    """

    first: int
    stop: int
    slices: dict[str, int]
    names: dict[str, tuple[str, ...]]
    missing: int


@dataclass
class Records:
    """What all checkpoints say together."""

    checkpoints: int = 0
    stop: int = 0
    slices: list[Slice] = field(default_factory=list)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)
    missing: int = 0

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits, in the order of their first records."""
        return tuple(dict.fromkeys(part.split for part in self.slices))

    def next_number(self, split: str) -> int:
        """Return the number of the next slice of a split."""
        return sum(part.split == split for part in self.slices)

    def add(self, checkpoint: Checkpoint) -> None:
        """Go on by one."""
        self.checkpoints += 1
        self.stop = checkpoint.stop
        self.missing += checkpoint.missing
        for split, number in checkpoint.slices.items():
            self.slices.append(slice_of(split, number, checkpoint.first, checkpoint.stop))
        for column, names in checkpoint.names.items():
            self.names[column] = (*self.names.get(column, ()), *names)


_CHECKPOINT = msgspec.json.Decoder(Checkpoint)  # made within the import: see toolkit.format.manifest


def slice_of(split: str, number: int, first: int, stop: int) -> Slice:
    """Return the slice that holds the records from `first` to `stop` of a split."""
    return Slice(split, number, None, 0, ("records", first, stop), f"records {first} to {stop - 1}")


def write_checkpoint(store: WritableStore, number: int, checkpoint: Checkpoint) -> None:
    """Write a checkpoint, durably. The entries of its slices are there."""
    store.write(_name(number), msgspec.json.encode(checkpoint))


def read_checkpoints(journal: Journal, finished: Mapping[tuple[str, int], SliceResult]) -> Records:
    """Return what a stopped writer had made safe, and remove what it hadn't; `finished` are the journal's slices."""
    found = Records()
    while True:
        try:
            data = journal.store.read(_name(found.checkpoints))
        except NotFoundError:
            break
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            one = _CHECKPOINT.decode(data)
            if one.first == found.stop and all((split, number) in finished for split, number in one.slices.items()):
                found.add(one)
                continue
        break
    journal.store.delete(_behind(journal.store, found.checkpoints))
    return found


def read_whole(journal: Journal) -> Iterator[Checkpoint]:
    """Yield the checkpoints of a part that is complete. Raises MsgspecError, UnicodeDecodeError: one is damaged."""
    number = 0
    while journal.store.info(_name(number)) is not None:
        yield _CHECKPOINT.decode(journal.store.read(_name(number)))
        number += 1


def has_checkpoint(journal: Journal) -> bool:
    """Tell whether a stopped writer made any record safe."""
    return journal.store.info(_name(0)) is not None


def _behind(store: WritableStore, number: int) -> Sequence[str]:
    first = _name(number)
    names = [f"{JOURNAL}/{one.name}" for one in store.entries(JOURNAL) if not one.is_folder]
    return [name for name in names if name.startswith(f"{JOURNAL}/records-") and name >= first]


def _name(number: int) -> str:
    return f"{JOURNAL}/records-{number:09d}"
