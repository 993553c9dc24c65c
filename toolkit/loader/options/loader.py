"""How a loader orders, cuts and delivers: what follows from its options together."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from toolkit.errors import UsageError
from toolkit.loader.options.fronts import LOADER, MIXED, check_options
from toolkit.loader.options.keywords import LoaderKeywords, MixedKeywords
from toolkit.loader.options.shared import (
    adapter,
    check_batch_size,
    check_no_ranks,
    most_bytes,
    output_spec,
    thread_count,
)
from toolkit.loader.order.course import Bound
from toolkit.loader.order.cut import Cut, Remainder
from toolkit.loader.order.order import Shuffle
from toolkit.loader.order.ranks import find_ranks
from toolkit.loader.outputs.spec import Mesh, OutputSpec

__all__ = ["LoaderOptions", "MixedOptions", "OnError"]


class OnError(enum.Enum):
    """What a sample that can't be read or decoded does: the loop raises, or goes on with its place masked."""

    RAISE = "raise"
    SKIP = "skip"


@dataclass(frozen=True, eq=False)
class LoaderOptions:
    """A loader's options, checked when they are made.

    Attributes:
        given: Each of them, those that were left out at their defaults.
    """

    given: LoaderKeywords

    def __post_init__(self) -> None:
        given = self._checked()
        object.__setattr__(self, "given", given)
        check_batch_size(given)
        if given["batch_size"] is None and given["global_batch_size"] is None:
            raise UsageError("say batch_size= (samples on each rank) or global_batch_size= (on all ranks): one of them")
        if given["epochs"] is None and not self.bound.is_whole:
            raise UsageError("epochs=None goes on to the end of the run: say until_epoch= or steps=")
        _ = self.output_spec
        if given["sharding"] is not None:
            check_no_ranks(given)
            if self.remainder is Remainder.KEEP:
                raise UsageError(
                    "remainder='keep' ends an epoch with a shorter batch, which a sharding can't cut: say "
                    "remainder='drop' or 'pad'"
                )

    def _checked(self) -> LoaderKeywords:
        """Return all of them, checked by themselves and as far as they choose an order."""
        given = check_options(LOADER, self.given)
        if given["weights"] is None and given["epoch_samples"] is not None:
            raise UsageError("epoch_samples= is the number of draws: it needs weights=")
        if given["weights"] is not None and given["shuffle"] != Shuffle.NONE.value:
            raise UsageError("weights= draws at random already: leave shuffle= out")
        return given

    @property
    def bound(self) -> Bound:
        """Where iterations, and the run, end."""
        return Bound(self.given["epochs"], self.given["until_epoch"], self.given["steps"])

    @property
    def shuffle(self) -> Shuffle:
        """How an epoch's order comes about."""
        return Shuffle(self.given["shuffle"])

    @property
    def remainder(self) -> Remainder:
        """What becomes of samples that fill no whole batch."""
        return Remainder(self.given["remainder"])

    @property
    def on_error(self) -> OnError:
        """What a bad sample does."""
        return OnError(self.given["on_error"])

    @property
    def output_spec(self) -> OutputSpec:
        """What arrays come as; an adapter is given numpy's."""
        given = self.given
        return output_spec(given["output"], device=given["device"], sharding=given["sharding"])

    @property
    def adapter(self) -> Callable[[Any], Any] | None:
        """`output`, where it is a function."""
        return adapter(self.given["output"])

    @property
    def most_bytes(self) -> int | None:
        """`max_bytes`, as a number."""
        return most_bytes(self.given)

    @property
    def thread_count(self) -> int:
        """`threads`, as a number."""
        return thread_count(self.given)

    def cut(self, samples: int, mesh: Mesh | None = None) -> Cut:
        """Return how epochs of `samples` positions are cut; over processes as `mesh` says if given.

        Raises:
            UsageError: They can't be, or not equally.
        """
        given, remainder = self.given, self.remainder
        rank, world_size = (mesh.rank, mesh.world_size) if mesh else find_ranks(given["rank"], given["world_size"])
        if world_size > 1 and remainder is Remainder.KEEP:
            raise UsageError(
                "remainder='keep' would give ranks unequal batches: with several ranks say remainder='drop' or 'pad'"
            )
        size, rest = (given["batch_size"] or 0, 0)
        if given["global_batch_size"] is not None:
            size, rest = divmod(given["global_batch_size"], world_size)
        if rest:
            raise UsageError(
                f"global_batch_size={given['global_batch_size']} can't be shared by {world_size} ranks equally"
            )
        ranges: Sequence[tuple[int, int]] | None = mesh.ranges(size * world_size) if mesh else None
        cut = Cut(
            samples=samples, batch_size=size, rank=rank, world_size=world_size, remainder=remainder, ranges=ranges
        )
        if samples and not cut.batches():
            raise UsageError(
                f"remainder='drop' leaves nothing of {samples} samples in batches of {size} on each of {world_size} "
                "ranks: take smaller batches"
            )
        return cut


class MixedOptions(LoaderOptions):
    """The options of a mix's loader: a LoaderOptions without weights, and with samples of an epoch."""

    def _checked(self) -> LoaderKeywords:
        return cast("LoaderKeywords", check_options(MIXED, cast("MixedKeywords", self.given)))
