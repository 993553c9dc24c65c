"""What a loader can be told, checked when it is made."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from numpy.typing import ArrayLike

from toolkit.errors import UsageError, did_you_mean
from toolkit.format.reader import Verify
from toolkit.loader.engine.front import check_hold_timeout, checked_max_bytes
from toolkit.loader.order.course import Bound
from toolkit.loader.order.cut import Cut, Remainder
from toolkit.loader.order.order import Shuffle
from toolkit.loader.order.ranks import find_ranks
from toolkit.loader.outputs.delivery import OutputAdapter
from toolkit.loader.outputs.registry import DEFAULT, named, placed
from toolkit.loader.outputs.spec import Mesh, OutputSpec
from toolkit.processors import processors

__all__ = ["LoaderOptions", "OnError", "member"]

_Member = TypeVar("_Member", bound=enum.Enum)
_LEAST = {"batch_size": 1, "global_batch_size": 1, "epoch_samples": 1, "epochs": 1, "until_epoch": 1, "steps": 1,
          "prefetch": 0, "threads": 1, "world_size": 1, "rank": 0, "max_skips": 0}  # fmt: skip


class OnError(enum.Enum):
    """What a sample that can't be read or decoded does: the loop raises, or goes on with its place masked."""

    RAISE = "raise"
    SKIP = "skip"


@dataclass(frozen=True, kw_only=True, eq=False)
class LoaderOptions:
    """How a loader orders, cuts and delivers, as it was asked for.

    Attributes:
        batch_size: Samples of a batch, on each rank.
        global_batch_size: Samples of a batch over all ranks, in place of batch_size; the ranks must divide it.
        shuffle: "full" permutes all samples anew each epoch; "block" permutes blocks of 256 neighbours, then samples
            within windows of 64 blocks, and reads from few places at a time; "none" keeps the stored order.
        weights: Draw with replacement: a number a sample of the dataset, or "balanced" for classes equally often.
        epoch_samples: Draws in an epoch; as many as there are samples when left out. Only with weights.
        seed: Of the order.
        epochs: Epochs that each iter() gives; None: all that are left up to until_epoch or steps.
        until_epoch: The epoch before which the whole run ends, over all iter() and restarts: a state that stands there
            delivers nothing. Without it and steps, each iter() goes on.
        steps: Batches of the whole run on each rank, counted in its state; whichever bound comes first ends it.
        prefetch: Batches in flight besides the one that is delivered next, at most; one as long as the threads are
            slower than the consumer.
        threads: Worker threads; "auto" is the number of processors this process may use.
        rank, world_size: This rank's slice of each global batch. Left out, the launcher says them: torchrun,
            jax.distributed or srun.
        remainder: "keep" delivers a shorter last batch (one rank only), "drop" leaves those samples out, "pad" fills
            it up with zeros: mask False, position and row -1.
        on_error: "raise", or "skip": a sample that is damaged or can't be decoded keeps its place with mask False and
            zeros (None in lists), and is logged and counted.
        max_skips: Samples that may be skipped on this rank in an epoch; one more raises.
        verify: "touch" or "always", as in toolkit.open(); left out, as the dataset was opened.
        output: "numpy", "torch" or "jax"; or a function that makes of a batch of numpy arrays what the loop is to get.
            It runs in the consumer's thread.
        device: With "torch", the device that tensors are to be on: "cuda" or "cuda:1" copy from page-locked memory
            while earlier work goes on. Left out, tensors share the memory that was filled.
        sharding: A jax NamedSharding of the batch axis for all columns, or a mapping of one for each: "jax" arrays of
            the global batch, of which each process reads what its devices hold. In place of rank and world_size.
        max_bytes: The most memory that this loader may own, batches that the consumer holds included: bytes, or text
            as in "512MiB". None: prefetch alone bounds it. Less than one batch is refused, with the number needed.
        hold_timeout: Seconds that the next batch waits for the consumer to let go of others before it raises.
    """

    batch_size: int | None
    global_batch_size: int | None
    shuffle: str
    weights: ArrayLike | None
    epoch_samples: int | None
    seed: int
    epochs: int | None
    until_epoch: int | None
    steps: int | None
    prefetch: int
    threads: int | str
    rank: int | None
    world_size: int | None
    remainder: str
    on_error: str
    max_skips: int
    verify: str | None
    output: str | OutputAdapter
    device: Any
    sharding: Any
    max_bytes: int | str | None
    hold_timeout: float

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value = getattr(self, name)
            optional = value is None and name not in ("prefetch", "threads", "max_skips")
            named = name == "threads" and isinstance(value, str)
            if not (optional or named) and (not isinstance(value, int) or isinstance(value, bool) or value < least):
                raise UsageError(f"{name} must be an int of at least {least}, got {value!r}")
        if not isinstance(self.seed, int):
            raise UsageError(f"seed must be an int, got {self.seed!r}")
        if (self.batch_size is None) == (self.global_batch_size is None):
            raise UsageError("say batch_size= (samples on each rank) or global_batch_size= (on all ranks): one of them")
        if self.epochs is None and not self.bound.is_whole:
            raise UsageError("epochs=None goes on to the end of the run: say until_epoch= or steps=")
        if self.weights is None and self.epoch_samples is not None:
            raise UsageError("epoch_samples= is the number of draws: it needs weights=")
        if self.weights is not None and self.shuffle_kind is not Shuffle.NONE:
            raise UsageError("weights= draws at random already: leave shuffle= out")
        check_hold_timeout(self.hold_timeout)
        _ = self.output_spec
        if self.sharding is not None:
            if self.rank is not None or self.world_size is not None:
                raise UsageError("a sharding says which samples each process reads: leave rank and world_size out")
            if member(Remainder, "remainder", self.remainder) is Remainder.KEEP:
                raise UsageError(
                    "remainder='keep' ends an epoch with a shorter batch, which a sharding can't cut: say "
                    "remainder='drop' or 'pad'"
                )
        if self.verify is not None:
            Verify.named(self.verify)
        _ = self.on_error_kind, self.thread_count, self.most_bytes

    @property
    def bound(self) -> Bound:
        """Where iterations, and the run, end."""
        return Bound(self.epochs, self.until_epoch, self.steps)

    @property
    def shuffle_kind(self) -> Shuffle:
        """`shuffle`, as a member."""
        return member(Shuffle, "shuffle", self.shuffle)

    @property
    def output_spec(self) -> OutputSpec:
        """What arrays come as; an adapter is given numpy's."""
        asked = named(DEFAULT if callable(self.output) else self.output)
        return placed(asked, self.output, device=self.device, sharding=self.sharding)

    @property
    def adapter(self) -> OutputAdapter | None:
        """`output`, where it is a function."""
        return self.output if callable(self.output) else None

    @property
    def on_error_kind(self) -> OnError:
        """`on_error`, as a member."""
        return member(OnError, "on_error", self.on_error)

    @property
    def most_bytes(self) -> int | None:
        """`max_bytes`, as a number."""
        return checked_max_bytes(self.max_bytes)

    @property
    def thread_count(self) -> int:
        """`threads`, as a number."""
        if self.threads == "auto":
            return processors()
        if isinstance(self.threads, str):
            if not self.threads.isdecimal() or int(self.threads) < 1:
                raise UsageError(f"threads must be a number or 'auto', got {self.threads!r}")
            return int(self.threads)
        return self.threads

    def cut(self, samples: int, mesh: Mesh | None = None) -> Cut:
        """Return how epochs of `samples` positions are cut; over processes as `mesh` says if given.

        Raises:
            UsageError: They can't be, or not equally.
        """
        rank, world_size = (mesh.rank, mesh.world_size) if mesh else find_ranks(self.rank, self.world_size)
        if rank >= world_size:
            raise UsageError(f"rank {rank} of a world of {world_size}: ranks count from 0")
        remainder = member(Remainder, "remainder", self.remainder)
        if world_size > 1 and remainder is Remainder.KEEP:
            raise UsageError(
                "remainder='keep' would give ranks unequal batches: with several ranks say remainder='drop' or 'pad'"
            )
        size, rest = (self.batch_size or 0, 0)
        if self.global_batch_size is not None:
            size, rest = divmod(self.global_batch_size, world_size)
        if rest:
            raise UsageError(
                f"global_batch_size={self.global_batch_size} can't be shared by {world_size} ranks equally"
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


def member(kind: type[_Member], name: str, value: object) -> _Member:
    """Return the member of an option's enum. Raises UsageError with the nearest name."""
    try:
        return kind(value)
    except ValueError:
        known = [one.value for one in kind]
        hint = did_you_mean(str(value), known)
        raise UsageError(f"{name} must be one of {', '.join(known)}, got {value!r}.{hint}") from None
