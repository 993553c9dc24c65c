"""How a token stream or a mix cuts, orders and delivers: what follows from its options together."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from toolkit.errors import UsageError
from toolkit.loader.options.fronts import MIX, STREAM, check_options
from toolkit.loader.options.keywords import MixKeywords, StreamKeywords, WindowKeywords
from toolkit.loader.options.shared import (
    adapter,
    check_batch_size,
    check_no_ranks,
    most_bytes,
    output_spec,
    thread_count,
)
from toolkit.loader.order.mix import Exhausted
from toolkit.loader.order.ranks import find_ranks
from toolkit.loader.outputs.spec import OutputSpec, RowPlacement
from toolkit.loader.tokens.schedule import Phase

__all__ = ["Fit", "Shuffle", "StreamOptions", "mix_options", "stream_options"]


class Shuffle(enum.Enum):
    """How an epoch's order comes about: blocks permuted, or the order that tokens are stored in."""

    BLOCK = "block"
    NONE = "none"


class Fit(enum.Enum):
    """Which row a whole document goes to: the fullest that has room, or the first."""

    BEST = "best"
    FIRST = "first"


@dataclass(frozen=True, eq=False)
class StreamOptions:
    """Options of a stream, checked when they are made; a mix has those that it doesn't take at their one value.

    Attributes:
        given: Each of them, those that were left out at their defaults.
        spec: The output.
        placement: How rows become its arrays.
        rank, world_size: This process's rows of each global batch.
    """

    given: StreamKeywords
    spec: OutputSpec
    placement: RowPlacement
    rank: int
    world_size: int

    def __post_init__(self) -> None:
        given = self.given
        if given["steps"] is not None and given["total_steps"] is not None:
            raise UsageError(
                "steps= counts from the very first step, total_steps= from start_step on: give one of them"
            )
        if (given["targets"] or given["mask_documents"]) and self.dtype.kind != "i":
            raise UsageError(f"targets mark what is no target with -100, which {self.dtype} hasn't: dtype='int32'")
        if given["mask_documents"] and not given["targets"]:
            raise UsageError("mask_documents masks targets: say targets=True, or leave it out")
        check_batch_size(given)
        size = given["batch_size"] if given["batch_size"] is not None else given["global_batch_size"]
        if (given["seq_len"] is None) != (size is None) or (size is None and not given["phases"]):
            raise UsageError("give seq_len and batch_size (or global_batch_size), or phases that say both")
        for phase in self.phases:
            if phase.rows % self.world_size:
                raise UsageError(f"a global batch of {phase.rows} rows can't be cut for {self.world_size} ranks")
        if self.fit is not None and len({phase.seq_len for phase in self.phases}) > 1:
            raise UsageError("documents are packed for one seq_len: all phases need the same with pack=")

    @property
    def most_bytes(self) -> int | None:
        """`max_bytes`, as a number."""
        return most_bytes(self.given)

    @property
    def thread_count(self) -> int:
        """`threads`, as a number."""
        return thread_count(self.given)

    @property
    def adapter(self) -> Callable[[Any], Any] | None:
        """`output`, where it is a function."""
        return adapter(self.given["output"])

    @property
    def shuffle(self) -> Shuffle:
        """How an epoch's order comes about."""
        return Shuffle(self.given["shuffle"])

    @property
    def fit(self) -> Fit | None:
        """Which row a whole document goes to; None: windows are cut."""
        return None if self.given["pack"] is None else Fit(self.given["pack"])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of tokens."""
        return np.dtype(self.given["dtype"])

    @property
    def masks_documents(self) -> bool:
        """Whether a document's end has no target: what follows it in a packed row isn't what follows it."""
        return self.given["mask_documents"] or (self.given["targets"] and self.fit is not None)

    @property
    def gives_documents(self) -> bool:
        """Whether batches have segments and positions."""
        return self.given["documents"] or self.fit is not None

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The whole schedule: phases that are over, phases, and what holds behind them. Rows are of all ranks."""
        given = self.given
        each = 1 if given["global_batch_size"] is not None else self.world_size
        first = (*given["completed_phases"], *given["phases"])
        listed = [Phase(steps, rows * each, seq_len) for steps, rows, seq_len in first]
        if given["seq_len"] is None:
            return tuple(listed)
        rows = given["global_batch_size"] or (given["batch_size"] or 0) * self.world_size
        return (*listed, Phase(None, rows, given["seq_len"]))

    @property
    def first_step(self) -> int:
        """The step to begin at."""
        if self.given["start_step"] is not None:
            return self.given["start_step"]
        return sum(steps for steps, _, _ in self.given["completed_phases"])

    @property
    def last_step(self) -> int | None:
        """The step before which the run ends; None: no number ends it."""
        most = self.given["total_steps"]
        return self.given["steps"] if most is None else self.first_step + most

    @property
    def longest(self) -> int:
        """The largest seq_len of all phases."""
        return max(phase.seq_len for phase in self.phases)

    @property
    def block(self) -> int:
        """Tokens of a block that is permuted; 0: none are."""
        return (self.given["block_size"] or self.longest) if self.shuffle is Shuffle.BLOCK else 0


def stream_options(given: StreamKeywords) -> StreamOptions:
    """Return the options of a stream. Raises UsageError: they can't be."""
    return _placed(check_options(STREAM, given))


def mix_options(given: MixKeywords) -> tuple[StreamOptions, Exhausted]:
    """Return the options of a mix, and what it does where a source ends. Raises UsageError: they can't be."""
    checked = check_options(MIX, given)
    if checked["seq_len"] is None:
        raise UsageError("give seq_len and batch_size (or global_batch_size)")
    windows: WindowKeywords = checked
    options: StreamKeywords = {
        **windows,
        "epochs": 1,
        "phases": (),
        "completed_phases": (),
        "remainder": "pad",
        "pack": None,
        "group_documents": 1,
    }
    return _placed(options), Exhausted(checked["exhausted"])


def _placed(given: StreamKeywords) -> StreamOptions:
    """Find out which rows this process has: its launcher says it, or the sharding."""
    sharding = given["sharding"]
    spec = output_spec(given["output"], sharding=sharding)
    if sharding is None:
        rank, world_size = find_ranks(given["rank"], given["world_size"])
    else:
        check_no_ranks(given)
        rank, world_size = 0, 1
    placement = spec.rows(sharding)
    return StreamOptions(given, spec, placement, rank, placement.processes or world_size)
