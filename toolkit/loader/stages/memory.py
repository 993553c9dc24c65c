"""What a worker keeps to read and decode samples: fetched bytes, and the decoders' scratch."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from toolkit._native.image.program import Scratch
from toolkit._native.shards.fetch import FetchBuffer
from toolkit.loader.engine.memory import WorkerMemory
from toolkit.memory.budget import OverBudgetError

__all__ = ["SampleMemory"]

_UNLIMITED = (1 << 63) - 1


class SampleMemory(WorkerMemory):
    """One thread's memory for samples. Attributes besides WorkerMemory's:

    Attributes:
        fetched, scratch: The memory.
    """

    fetched: FetchBuffer
    scratch: Scratch

    @property
    def nbytes(self) -> int:
        """Bytes that both have grown to."""
        return self.fetched.nbytes + self.scratch.nbytes

    def renew(self) -> None:
        """Let go of both, and begin with none."""
        self.fetched, self.scratch = FetchBuffer(), Scratch()
        asks = _Asks(weakref.ref(self))  # the memory is gone with its last user, not with the next collection
        self.fetched.room, self.scratch.room = asks.to_fetch, asks.to_decode

    def bound(self, limited: bool) -> None:
        """Let the scratch ask from its size on; or never, where nothing is limited."""
        self.scratch.limit = self.scratch.nbytes if limited else _UNLIMITED


@dataclass(frozen=True, slots=True)
class _Asks:
    """What fetched bytes and scratch ask before they grow."""

    memory: weakref.ref[SampleMemory]

    def to_fetch(self, nbytes: int) -> None:
        memory = self.memory()
        if memory is not None:
            memory.need(nbytes + memory.scratch.nbytes)

    def to_decode(self, nbytes: int) -> str | None:
        memory = self.memory()
        try:
            if memory is not None:
                memory.need(memory.fetched.nbytes + nbytes)
        except OverBudgetError as error:
            if memory is None or memory.places > 1 or not memory.was_empty:
                raise  # fewer at once, and empty memory, take less
            return str(error)  # the picture's own fault: it is refused, and the others go on
        return None
