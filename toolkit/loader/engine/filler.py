"""What the engine needs to know of what it delivers: a Filler says how large a batch is, and fills it part by part."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar

from toolkit.errors import ToolkitError
from toolkit.loader.engine.memory import MakeRoom, WorkerMemory
from toolkit.memory.budget import Budget
from toolkit.memory.pool import Lend

__all__ = ["Content", "Filler", "LendNamed", "Planned", "PlannedT", "fill_now"]

# Returns what lends the blocks of one column: a batch may have one of each name.
LendNamed = Callable[[str], Lend]


class Planned(Protocol):
    """A batch before it is filled. Its text says how large it is: "a batch of 32 samples"."""

    @property
    def epoch(self) -> int:
        """Its epoch."""

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last of its positions in the epoch's order."""

    @property
    def places(self) -> int:
        """How many there are to fill, those of padding included."""


PlannedT = TypeVar("PlannedT", bound=Planned)
Content = TypeVar("Content")
Memory = TypeVar("Memory", bound=WorkerMemory)


class Filler(ABC, Generic[PlannedT, Content, Memory]):
    """Makes the contents of planned batches. Stateless between batches; used by every worker at once.

    A batch is sized and allocated by the consumer's thread, begun by the first worker that comes to it, filled in
    parts by several, and finished by the one that fills its last part.

    Attributes:
        has_other: Whether batches hold memory that lies in no block: finish() says how much.
        skippable: Errors of a single place that is left out, and the others delivered.
    """

    has_other = False
    skippable: tuple[type[ToolkitError], ...] = ()

    @abstractmethod
    def block_bytes(self, planned: PlannedT) -> int:
        """Return the size of the blocks that allocate() will lend."""

    def late_bytes(self, planned: PlannedT) -> int:
        """Return the size of the blocks that begin() will lend; asked for where memory is limited."""
        return 0

    def cut(self, planned: PlannedT, most_bytes: int) -> Sequence[PlannedT]:
        """Return smaller batches, of `most_bytes` each if that can be, in place of a larger one; most can't be cut."""
        return [planned]

    @abstractmethod
    def allocate(self, planned: PlannedT, lend: LendNamed) -> Content:
        """Return a batch's content, with memory that still has to be filled. Raises what `lend` raises."""

    @abstractmethod
    def parts(self, planned: PlannedT, threads: int) -> Sequence[tuple[int, int]]:
        """Return the ranges of places that workers are to fill, together all that are not padding; at least one.

        An engine that is short of memory halves them.
        """

    @abstractmethod
    def memory(self, budget: Budget | None = None, make_room: MakeRoom | None = None) -> Memory:
        """Return a worker's memory."""

    def begin(self, content: Content) -> None:  # few need it
        """Get ready for a batch's parts, and empty its padding. Called before them, by one worker, until it returns."""

    @abstractmethod
    def fill(self, content: Content, start: int, stop: int, memory: Memory) -> None:
        """Fill the places from `start` to `stop`, at least one. What fails fails the batch, unless it is skippable."""

    def blank(self, content: Content, start: int, stop: int) -> None:  # only for what is skippable
        """Empty the places from `start` to `stop`: memory is lent with what was in it before."""

    def finish(self, content: Content, memory: Memory) -> int:
        """Make what the consumer gets, now that all is filled; return the bytes of it that lie in no block."""
        return 0

    @abstractmethod
    def place(self, planned: PlannedT, at: int) -> object:
        """Return what errors call a place."""


def fill_now(filler: Filler[PlannedT, Content, Memory], planned: PlannedT, lend: LendNamed, memory: Memory) -> Content:
    """Return a batch's content, made in this thread."""
    content = filler.allocate(planned, lend)
    filler.begin(content)
    if planned.places:
        filler.fill(content, 0, planned.places, memory)
    filler.finish(content, memory)
    return content
