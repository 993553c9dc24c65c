"""How a token stream cuts, orders and delivers: options checked once, when made."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toolkit.errors import UsageError
from toolkit.loader.engine.front import check_hold_timeout, checked_max_bytes
from toolkit.loader.tokens.schedule import Phase

__all__ = ["Exhausted", "Fit", "Shuffle", "StreamOptions", "Tail"]

_LEAST_BLOCK = 16
_DTYPES = ("int32", "int64", "uint16", "uint32")


class Shuffle(enum.Enum):
    """How an epoch's order comes about: blocks permuted, or the order that tokens are stored in."""

    BLOCK = "block"
    NONE = "none"


class Tail(enum.Enum):
    """What becomes of the tokens that fill no whole step at the end of an epoch."""

    PAD = "pad"
    DROP = "drop"


class Fit(enum.Enum):
    """Which row a whole document goes to: the fullest that has room, or the first."""

    BEST = "best"
    FIRST = "first"


class Exhausted(enum.Enum):
    """What a mix does when a source has given its last row: goes on without it, or begins it anew."""

    DROP = "drop"
    REPEAT = "repeat"


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Options of a TokenStream; see there."""

    seq_len: int | None
    batch_size: int | None
    global_batch_size: int | None
    completed_phases: Sequence[Sequence[int]]
    phases: Sequence[Sequence[int]]
    start_step: int | None
    total_steps: int | None
    epochs: int | None
    until_epoch: int | None
    steps: int | None
    shuffle: Shuffle
    seed: int
    block_size: int | None
    tail: Tail
    pad_id: int | None
    targets: bool
    mask_documents: bool
    documents: bool
    fit: Fit | None
    group_documents: int
    dtype: np.dtype[Any]
    rank: int
    world_size: int
    threads: int
    prefetch: int
    output: str
    max_bytes: int | str | None
    hold_timeout: float

    def __post_init__(self) -> None:
        for name, least in (
            *(("seq_len", 1), ("batch_size", 1), ("global_batch_size", 1), ("total_steps", 0), ("epochs", 1)),
            *(("until_epoch", 1), ("steps", 1)),
            *(("start_step", 0), ("block_size", _LEAST_BLOCK), ("group_documents", 1), ("rank", 0), ("world_size", 1)),
            *(("threads", 0), ("prefetch", 1), ("pad_id", 0)),
        ):
            value = getattr(self, name)
            if value is not None and not _is_int(value, least):
                raise UsageError(f"{name} must be an int of at least {least}, got {value!r}")
        if not isinstance(self.seed, int):
            raise UsageError(f"seed must be an int, got {self.seed!r}")
        if self.steps is not None and self.total_steps is not None:
            raise UsageError(
                "steps= counts from the very first step, total_steps= from start_step on: give one of them"
            )
        if self.rank >= self.world_size:
            raise UsageError(f"rank {self.rank} of a world of {self.world_size}: ranks count from 0")
        if self.dtype.name not in _DTYPES:
            raise UsageError(f"dtype must be one of {', '.join(_DTYPES)}, got {self.dtype}")
        if not self.dtype.isnative:
            raise UsageError(f"dtype must be in this machine's byte order, got {self.dtype.str!r}: {self.dtype.name!r}")
        if (self.targets or self.mask_documents) and self.dtype.kind != "i":
            raise UsageError(f"targets mark what is no target with -100, which {self.dtype} hasn't: dtype='int32'")
        if self.mask_documents and not self.targets:
            raise UsageError("mask_documents masks targets: say targets=True, or leave it out")
        check_hold_timeout(self.hold_timeout)
        _ = self.most_bytes
        self._check_batch()

    @property
    def most_bytes(self) -> int | None:
        """`max_bytes`, as a number."""
        return checked_max_bytes(self.max_bytes)

    @property
    def all_phases(self) -> tuple[Phase, ...]:
        """The whole schedule: phases that are over, phases, and what holds behind them. Rows are of all ranks."""
        each = 1 if self.global_batch_size is not None else self.world_size
        listed = [Phase(steps, rows * each, seq_len) for steps, rows, seq_len in (*self.completed_phases, *self.phases)]
        if self.seq_len is None:
            return tuple(listed)
        rows = self.global_batch_size or (self.batch_size or 0) * self.world_size
        return (*listed, Phase(None, rows, self.seq_len))

    @property
    def first_step(self) -> int:
        """The step to begin at."""
        if self.start_step is not None:
            return self.start_step
        return sum(steps for steps, _, _ in self.completed_phases)

    @property
    def last_step(self) -> int | None:
        """The step before which the run ends; None: no number ends it."""
        return self.steps if self.total_steps is None else self.first_step + self.total_steps

    @property
    def longest(self) -> int:
        """The largest seq_len of all phases."""
        return max(phase.seq_len for phase in self.all_phases)

    def _check_batch(self) -> None:
        if self.batch_size is not None and self.global_batch_size is not None:
            raise UsageError("batch_size is per rank and global_batch_size of all ranks together: give one of them")
        for place, one in enumerate((*self.completed_phases, *self.phases)):
            if len(one) != 3 or not all(_is_int(value, 1) for value in one):
                raise UsageError(f"phase {place} must be (steps, batch_size, seq_len), ints of at least 1, got {one!r}")
        given = self.batch_size if self.batch_size is not None else self.global_batch_size
        if (self.seq_len is None) != (given is None) or (self.seq_len is None and not self.phases):
            raise UsageError("give seq_len and batch_size (or global_batch_size), or phases that say both")
        for phase in self.all_phases:
            if phase.rows % self.world_size:
                raise UsageError(f"a global batch of {phase.rows} rows can't be cut for {self.world_size} ranks")
        if self.fit is not None and len({phase.seq_len for phase in self.all_phases}) > 1:
            raise UsageError("documents are packed for one seq_len: all phases need the same with pack=")


def _is_int(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
