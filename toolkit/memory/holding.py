"""Who holds what: every batch of this process whose memory has not all come back."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from toolkit._native.memory.lease import Held, when_gone
from toolkit.memory.budget import Budget
from toolkit.memory.sizes import size_text

__all__ = ["HeldBatch", "Holding", "Token", "debug_batches", "held_batches", "held_text"]

_NAMED = 8  # batches that an error lists
_OTHER = "other values"  # lists, and arrays that a batch map made: they are counted until the batch itself is gone


@dataclass(frozen=True, slots=True)
class HeldBatch:
    """A batch that holds memory.

    Attributes:
        epoch: Its epoch.
        first, last: Positions of its first and last sample in the epoch's order.
        delivered: Whether the consumer has it, or had it and keeps some of its arrays; else it is in flight.
        columns: Bytes by column. "other values" are its lists.
    """

    epoch: int
    first: int
    last: int
    delivered: bool
    columns: dict[str, int]

    @property
    def nbytes(self) -> int:
        """Bytes of all its columns."""
        return sum(self.columns.values())

    def __str__(self) -> str:
        state = "delivered" if self.delivered else "in flight"
        names = ", ".join(name for name, nbytes in self.columns.items() if nbytes)
        return f"epoch {self.epoch}, positions {self.first}..{self.last}, {size_text(self.nbytes)}, {state}: {names}"


class Token:
    """Stands for a batch's life: its lists can't be watched, so they count until this is gone."""


class Holding(Held):
    """What one batch holds of a budget. Finalizers run the methods of its base: compiled, and without locks.

    Attributes:
        delivered: Whether the consumer has received it.
        taken_back: Whether it is made again later, because its memory was needed.
        budget: What it is charged to.
    """

    def __init__(self, budget: Budget, epoch: int, first: int, last: int, other: int) -> None:
        """Take over `other` bytes that are charged already; the caller keeps `token()` as long as they are needed."""
        self.epoch = epoch
        self.first = first
        self.last = last
        self.delivered = False
        self.taken_back = False
        self.other = other
        self.budget = budget
        self._stand_in(_holdings, next(_numbers), budget.puts)

    def token(self) -> Token:
        """Return what stands for the batch's life. To be asked for once."""
        token = Token()
        when_gone(token, self.end)
        return token

    def add_block(self, column: str, nbytes: int) -> None:
        """Note a block that the batch was lent."""
        self.blocks[column] = nbytes

    def set_other(self, nbytes: int) -> None:
        """Correct what was taken for lists to what they are."""
        if nbytes != self.other:
            self.budget.add(nbytes - self.other)
            self.other = nbytes

    @property
    def nbytes(self) -> int:
        """Bytes it holds now."""
        return sum(list(self.blocks.values())) + self.other

    def seen(self) -> HeldBatch:
        """Return what it holds now."""
        columns = dict(self.blocks) | ({_OTHER: self.other} if self.other else {})
        return HeldBatch(self.epoch, self.first, self.last, self.delivered, columns)


_numbers = itertools.count()
_holdings: dict[int, Holding] = {}


def debug_batches() -> list[HeldBatch]:
    """Return the batches of this process that hold memory, oldest first: delivered ones and those in flight.

    A delivered batch stays as long as anybody keeps one of its arrays, a view of one, or the batch. JAX lets go late.
    """
    return held_batches(None)


def held_batches(budget: Budget | None) -> list[HeldBatch]:
    """Return the batches that hold memory of one budget; of any when None."""
    holdings = [holding for _, holding in sorted(_holdings.copy().items())]
    seen = [holding.seen() for holding in holdings if budget is None or holding.budget is budget]
    return [held for held in seen if held.nbytes]


def held_text(held: list[HeldBatch]) -> str:
    """Return the first of them in words, for errors, and how many more there are."""
    more = f"; and {len(held) - _NAMED} more" if len(held) > _NAMED else ""
    return "; ".join(str(each) for each in held[:_NAMED]) + more
