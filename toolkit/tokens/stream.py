"""A stream of windows over a split's tokens: exactly as planned or an error, resumable at any token."""

from __future__ import annotations

import importlib
import itertools
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import DTypeLike

from toolkit.errors import LoaderError, UsageError
from toolkit.loader.device import Output, converter
from toolkit.loader.order import order_key
from toolkit.memory.pool import BlockPool
from toolkit.sources.text_tokenizer import BYTES, load_tokenizer
from toolkit.tokens.batch import TokenBatch
from toolkit.tokens.fill import Columns, Filled, Filler, RowRange, StreamOrder, WindowOrder
from toolkit.tokens.options import Fit, Shuffle, StreamOptions, Tail, member
from toolkit.tokens.packing import PackedDocuments
from toolkit.tokens.run import OpenRun
from toolkit.tokens.schedule import Place, Schedule, Step

if TYPE_CHECKING:
    from toolkit.loader.dataset import Dataset

__all__ = ["TokenStream"]

_ORDER_VERSION = 1
_STATE_VERSION = 1
_ENDLESS = 1 << 62


class TokenStream:
    """Iterates over batches of windows. Position is counted in tokens, so nothing comes twice and nothing is lost.

    An iteration goes on where the last one stood, up to the end of an epoch that is a multiple of `epochs`: after the
    end the next one gives the next `epochs` epochs, shuffled anew. A `with` block, or close(), ends the threads.
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        seq_len: int | None = None,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        phases: Sequence[Sequence[int]] = (),
        completed_phases: Sequence[Sequence[int]] = (),
        start_step: int | None = None,
        total_steps: int | None = None,
        epochs: int | None = 1,
        shuffle: str = "none",
        seed: int = 0,
        block_size: int | None = None,
        tail: str = "pad",
        pad_id: int | None = None,
        targets: bool = False,
        mask_documents: bool = False,
        documents: bool = False,
        pack: str | None = None,
        group_documents: int = 1024,
        dtype: DTypeLike = "int32",
        rank: int = 0,
        world_size: int = 1,
        threads: int = 1,
        prefetch: int = 2,
        output: str = "numpy",
        sharding: Any = None,
        tokenizer: str | os.PathLike[str] | None = None,
        column: str | None = None,
    ) -> None:
        """Make a stream; nothing but lengths of documents (with pack=) is read yet.

        Args:
            dataset: A split with a tokens column.
            seq_len: Tokens of a row, once `phases` are over.
            batch_size: Rows of a batch on each rank, once `phases` are over.
            global_batch_size: The same of all ranks together; then phases give it too.
            phases: (steps, batch_size, seq_len) that come first.
            completed_phases: The same, before `phases`; start_step is behind them if not given.
            start_step: The step to begin at, counted from the very first.
            total_steps: Steps to deliver at the most, from start_step on.
            epochs: Epochs that each iter() gives; None is without end.
            shuffle: "block" permutes blocks of tokens anew each epoch; "none" keeps the stored order.
            seed: Of the order.
            block_size: Tokens of a block; the largest seq_len if not given, so that each row is one stretch of text.
            tail: What is left at the end of an epoch: "pad" a step with it, or "drop" it.
            pad_id: The id that pads; the end-of-text id or 0 if not given.
            targets: Give the token that follows each in the dataset; -100 behind the last.
            mask_documents: Make the target -100 where a document ends.
            documents: Give segments and positions.
            pack: "best" or "first" packs whole documents into rows instead of cutting windows: into the fullest row
                that has room, or the first. Longer ones are cut at seq_len. Always gives segments and positions.
            group_documents: Consecutive documents that are packed, and shuffled, together.
            dtype: int32, int64, uint16 or uint32.
            rank, world_size: This rank's rows of each global batch.
            threads: Threads that fill batches; 0 fills them in the consumer's.
            prefetch: Fills of 1 MiB (or one batch) that are made ahead.
            output: "numpy", "torch" or "jax".
            sharding: A jax NamedSharding of (rows, seq_len): JAX arrays placed by it, each process reading its rows.
            tokenizer: The tokenizer.json (or "bytes") that ids must be of.
            column: The tokens column, when there are several.

        Raises:
            UsageError: An option can't be, or doesn't fit the dataset.
            CorruptShardError: With pack=: a length can't be read.
        """
        placement: Any = None
        if sharding is not None:
            if (rank, world_size) != (0, 1):
                raise UsageError("a sharding says which rows each process reads: leave rank and world_size out")
            converter(Output.JAX)
            module = importlib.import_module("toolkit.tokens.jax_placement")
            placement, world_size, output = module.Placement(sharding), module.process_count(), "jax"
        self.options = StreamOptions(
            seq_len=seq_len,
            batch_size=batch_size,
            global_batch_size=global_batch_size,
            completed_phases=completed_phases,
            phases=phases,
            start_step=start_step,
            total_steps=total_steps,
            epochs=epochs,
            shuffle=member(Shuffle, "shuffle", shuffle),
            seed=seed,
            block_size=block_size,
            tail=member(Tail, "tail", tail),
            pad_id=pad_id,
            targets=targets,
            mask_documents=mask_documents or (targets and pack is not None),
            documents=documents or pack is not None,
            fit=None if pack is None else member(Fit, "pack", pack),
            group_documents=group_documents,
            dtype=np.dtype(dtype),
            rank=rank,
            world_size=world_size,
            threads=threads,
            prefetch=prefetch,
            output=member(Output, "output", output),
        )
        self.dataset = dataset
        self._run = OpenRun(dataset, column)
        options = self.options
        _check_fit(options, self._run, tokenizer)
        keys = partial(order_key, _ORDER_VERSION, options.seed)
        self._block = options.block_size or options.longest if options.shuffle is Shuffle.BLOCK else 0
        self._packed: PackedDocuments | None = None
        if options.fit is not None:
            shuffled = keys if options.shuffle is Shuffle.BLOCK else None
            self._packed = PackedDocuments(
                self._run, len(dataset), options.longest, options.fit, options.group_documents, shuffled
            )
        self._schedule = Schedule(
            units=self._packed.rows if self._packed else self._run.tokens,
            phases=options.all_phases,
            pad=options.tail is Tail.PAD,
            unit_tokens=options.longest if self._packed else 1,
        )
        self._check_phases()
        self._ranges: Callable[[tuple[int, int]], Sequence[RowRange]] | None = None
        convert = converter(options.output)
        self._convert: Callable[[Any, tuple[int, int]], Any] = lambda array, shape: convert(array)
        if placement is not None:
            self._ranges, self._convert = placement.ranges, placement.place
            for phase in options.all_phases:
                placement.ranges((phase.rows, phase.seq_len))
        self._order: StreamOrder = self._packed or WindowOrder(self._block, keys)
        self._pad_id = options.pad_id if options.pad_id is not None else self._run.encoding.eos or 0
        # Made ahead, in the consumer's hand, and the one before that JAX or a slow `del` still holds.
        self._pool = BlockPool(keep=options.prefetch + 2)
        self._place = self._schedule.advance(Place(), options.first_step)
        self._begin = self._place.step
        self._closed = False
        self._iteration = 0
        self._workers: Callable[[], object] | None = None
        self._pid = os.getpid()

    def __len__(self) -> int:
        """Steps that the next iter() gives. Raises UsageError for a stream without end."""
        count = self._count(self._until())
        if count >= _ENDLESS:
            raise UsageError("a stream with epochs=None has no length: give total_steps")
        return count

    def __iter__(self) -> Iterator[TokenBatch]:
        """Go on from where the stream stands. An iteration that is still running ends."""
        if self._closed:
            raise LoaderError("this stream is closed: make a new one with ds.tokens(...)")
        if os.getpid() != self._pid:
            raise LoaderError("this stream was made before a fork: open a new one in the child process")
        self._end()
        self._iteration += 1
        return _Iteration(self._deliver(self._iteration, self._count(self._until())))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def place(self) -> Place:
        """Where the consumer stands: behind the last batch it received."""
        return self._place

    @property
    def padding_share(self) -> float:
        """Which part of an epoch's rows is padding, with pack=: between 0 and 1; without, 0."""
        return self._packed.padding_share if self._packed else 0.0

    def steps_per_epoch(self, seq_len: int | None = None, batch_size: int | None = None) -> int:
        """Return the steps of a whole epoch, for the stream's last form or for another seq_len and batch_size."""
        last = self._schedule.phases[-1]
        each = 1 if self.options.global_batch_size is not None else self.options.world_size
        rows = last.rows if batch_size is None else batch_size * each
        length = last.seq_len if seq_len is None else seq_len
        if min(rows, length) < 1:
            raise UsageError(f"seq_len and batch_size must be at least 1, got {seq_len!r} and {batch_size!r}")
        return self._schedule.steps_per_epoch(type(last)(None, rows, length))

    def state_dict(self) -> dict[str, object]:
        """Return where the consumer stands, as JSON values; the same on every rank at a step."""
        return {
            **self._identity(),
            "step": self._place.step,
            "epoch": self._place.epoch,
            "position": self._place.position,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` stood; batch size, seq_len, phases and ranks may be others now.

        Raises:
            UsageError: It is the state of other data, or of another order.
        """
        mine = self._identity()
        for name, value in mine.items():
            if state.get(name) != value:
                raise UsageError(
                    f"the state has {name} {state.get(name)!r}, and this stream {value!r}: it would go on elsewhere. "
                    "Open the dataset by its pin, with the options of then"
                )
        try:
            place = Place(int(state["step"]), int(state["epoch"]), int(state["position"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"the state is none of a token stream: {error}") from error
        if min(place.step, place.epoch, place.position) < 0 or place.position > self._schedule.units:
            raise UsageError(f"the state's place {place} lies outside of epochs of {self._schedule.units}")
        self._end()
        self._iteration += 1
        self._place = place
        self._begin = place.step if self.options.start_step is None else min(self._begin, place.step)

    def close(self) -> None:
        """End a running iteration and its threads. May be called more than once."""
        self._closed = True
        self._end()

    def _end(self) -> None:
        if self._workers is not None:
            self._workers()
            self._workers = None

    def _identity(self) -> dict[str, object]:
        options = self.options
        return {
            "version": _STATE_VERSION,
            "order": _ORDER_VERSION,
            "pin": self.dataset.pin,
            "split": self.dataset.split,
            "column": self._run.column.name,
            "shuffle": options.shuffle.value,
            "seed": options.seed if options.shuffle is Shuffle.BLOCK else None,
            "block_size": self._block,
            "pack": None if options.fit is None else [options.fit.value, options.longest, options.group_documents],
        }

    def _check_phases(self) -> None:
        for phase in self._schedule.phases:
            if not self._schedule.steps_per_epoch(phase):
                raise UsageError(
                    f"a step of {phase.rows} rows of {phase.seq_len} tokens is more than the {self._run.tokens} tokens "
                    "there are: nothing is left with tail='drop'. Take fewer, or tail='pad'"
                )

    def _until(self) -> int:
        """Return the epoch before which the next iteration ends."""
        epochs = self.options.epochs
        if epochs is None:
            return _ENDLESS
        until = (self._place.epoch // epochs + 1) * epochs
        return until if self._schedule.remaining(self._place, until) else until + epochs

    def _count(self, until: int) -> int:
        count = self._schedule.remaining(self._place, until)
        if self.options.total_steps is not None:
            count = min(count, max(0, self._begin + self.options.total_steps - self._place.step))
        return count

    def _deliver(self, iteration: int, count: int) -> Iterator[TokenBatch]:
        work = _works(self._schedule.steps(self._place, count), self._filler())
        delivered = 0
        try:
            for filled in self._filled(work):
                for i in range(filled.good):
                    if iteration != self._iteration or self._closed:
                        break
                    delivered += 1
                    yield self._batch(filled, i)
                if filled.error is not None:
                    raise filled.error
                if iteration != self._iteration or self._closed:
                    break
                del filled  # the consumer alone decides how long a batch lives
        finally:
            if iteration == self._iteration:
                self._end()
        if delivered != count:
            raise LoaderError(
                f"the iteration ended after {delivered} of {count} steps, because the stream was closed or another "
                "iteration over it began: use one stream for each loop that runs at the same time"
            )

    def _filler(self) -> Filler:
        options = self.options
        columns = Columns(options.dtype, options.targets, options.documents, options.mask_documents, self._pad_id)
        return Filler(self._run, self._order, columns, self._ranges, options.rank, options.world_size, self._pool)

    def _filled(self, work: Iterator[partial[Filled]]) -> Iterator[Filled]:
        """Yield what is filled, in order: made by threads ahead, or in this one."""
        options = self.options
        if not options.threads:
            yield from (one() for one in work)
            return
        pool = ThreadPoolExecutor(options.threads, thread_name_prefix="toolkit-tokens")
        self._workers = weakref.finalize(self, pool.shutdown, wait=True, cancel_futures=True)
        ahead: deque[Future[Filled]] = deque()
        while True:
            for one in itertools.islice(work, options.prefetch + 1 - len(ahead)):
                ahead.append(pool.submit(one))
            if not ahead:
                return
            yield ahead.popleft().result()

    def _batch(self, filled: Filled, i: int) -> TokenBatch:
        step = filled.steps[i]
        place = step.place
        shape = (step.phase.rows, step.phase.seq_len)
        arrays = {name: self._convert(array[i], shape) for name, array in filled.arrays.items()}
        self._place = Place(place.step + 1, place.epoch, place.position + step.units)
        return TokenBatch(arrays, place, partial(self._mask, step))

    def _mask(self, step: Step) -> Any:
        """Return which places of this process' rows hold tokens of the epoch."""
        filler = self._filler()
        ranges = filler.rows_of(step)
        length = step.phase.seq_len
        there = np.concatenate([np.arange(low * length, high * length) for low, high in ranges]) < step.units
        if self._packed is not None:
            there[:] = False
            found = self._packed.stretches([step], ranges)
            for place, count in zip(found.places.tolist(), found.counts.tolist(), strict=True):
                there[place : place + count] = True
        return self._convert(there.reshape(-1, length), (step.phase.rows, length))


class _Iteration(Iterator[TokenBatch]):
    """An iteration that stays broken once it broke: a generator would end quietly, and the epoch would be short."""

    def __init__(self, batches: Iterator[TokenBatch]) -> None:
        self._batches = batches
        self._broken: str | None = None

    def __next__(self) -> TokenBatch:
        if self._broken is not None:
            raise LoaderError(f"this iteration ended with an error, its epoch is not complete: {self._broken}")
        try:
            return next(self._batches)
        except StopIteration:
            raise
        except BaseException as error:
            self._broken = str(error) or type(error).__name__
            raise


def _works(steps: Iterator[Step], filler: Filler) -> Iterator[partial[Filled]]:
    """Yield what to fill in one go: steps of one form that follow each other in an epoch, while they are small."""
    group: list[Step] = []
    for step in steps:
        if group and not (
            step.phase is group[0].phase
            and step.place.epoch == group[0].place.epoch
            and step.units == group[0].units
            and len(group) < filler.steps_at_once(step)
        ):
            yield partial(filler.fill, group)
            group = []
        group.append(step)
    if group:
        yield partial(filler.fill, group)


def _check_fit(options: StreamOptions, run: OpenRun, tokenizer: str | os.PathLike[str] | None) -> None:
    """Raise UsageError when the options don't fit the dataset."""
    encoding = run.encoding
    if not run.tokens:
        raise UsageError(f"the split has no tokens: column {run.column.name!r} holds empty documents only")
    if encoding.vocabulary - 1 > np.iinfo(options.dtype).max:
        raise UsageError(f"ids up to {encoding.vocabulary - 1} don't fit {options.dtype}: take a wider dtype")
    if options.pad_id is not None and options.pad_id > np.iinfo(options.dtype).max:
        raise UsageError(f"pad_id {options.pad_id} doesn't fit {options.dtype}")
    if options.longest > run.tokens and options.fit is None:
        raise UsageError(f"seq_len {options.longest} is more than the {run.tokens} tokens there are")
    if tokenizer is not None:
        given = load_tokenizer(tokenizer).encoding.tokenizer
        if given != encoding.tokenizer:
            raise UsageError(
                f"the dataset was packed with {_named(encoding.tokenizer)}, and {os.fspath(tokenizer)!r} is "
                f"{_named(given)}: its ids mean other things. Pack again with it, or use the dataset's own"
            )


def _named(tokenizer: str | None) -> str:
    if tokenizer is None:
        return "ready ids and no tokenizer"
    return "bytes" if tokenizer == BYTES else f"a tokenizer of sha256 {tokenizer[:12]}…"
