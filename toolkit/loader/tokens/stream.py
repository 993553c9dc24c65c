"""A stream of windows over a split's tokens: exactly as planned or an error, resumable at any token."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from toolkit.errors import UsageError
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.options import member
from toolkit.loader.tokens.deliver import row_placement
from toolkit.loader.tokens.filler import Columns, TokenFiller
from toolkit.loader.tokens.options import Fit, Shuffle, StreamOptions, Tail
from toolkit.loader.tokens.packing import PackedDocuments
from toolkit.loader.tokens.run import OpenRun
from toolkit.loader.tokens.schedule import Schedule
from toolkit.loader.tokens.steps import STATE_VERSION, StepStream
from toolkit.loader.tokens.stretches import WindowOrder
from toolkit.pipelines.randomness import fold_all
from toolkit.sources.tokenizer import BYTES, load_tokenizer

if TYPE_CHECKING:
    from toolkit.loader.dataset.dataset import Dataset

__all__ = ["TokenStream", "check_fit"]

_ORDER_VERSION = 1


class TokenStream(StepStream):
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
        until_epoch: int | None = None,
        steps: int | None = None,
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
        max_bytes: int | str | None = None,
        hold_timeout: float = 60.0,
        tokenizer: str | os.PathLike[str] | None = None,
        column: str | None = None,
        verify: str | None = None,
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
            total_steps: Steps to deliver at the most, from start_step on. It bounds the whole run, as `steps` does.
            epochs: Epochs that each iter() gives; None is without end, but for the next two.
            until_epoch: The epoch before which the whole run ends, over all iter() and restarts: a state that stands
                there delivers nothing.
            steps: Steps of the whole run, counted from the very first; in place of total_steps.
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
            prefetch: Fills of 2 MiB (or one batch) that are made ahead.
            output: "numpy", "torch" or "jax".
            sharding: A jax NamedSharding of (rows, seq_len): JAX arrays placed by it, each process reading its rows.
            max_bytes: The most memory that this stream may own, batches that the consumer holds included: bytes, or
                text as in "512MiB". Less than one batch is refused, with the number needed.
            hold_timeout: Seconds that the next batch waits for the consumer to let go of others before it raises.
            tokenizer: The tokenizer.json (or "bytes") that ids must be of.
            column: The tokens column, when there are several.
            verify: "touch" or "always", as in toolkit.open(); left out, as the dataset was opened.

        Raises:
            UsageError: An option can't be, or doesn't fit the dataset.
            CorruptShardError: With pack=: a length can't be read.
        """
        output, placement, world_size = row_placement(output, sharding, rank, world_size)
        self.options = StreamOptions(
            seq_len=seq_len,
            batch_size=batch_size,
            global_batch_size=global_batch_size,
            completed_phases=completed_phases,
            phases=phases,
            start_step=start_step,
            total_steps=total_steps,
            epochs=epochs,
            until_epoch=until_epoch,
            steps=steps,
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
            output=output,
            max_bytes=max_bytes,
            hold_timeout=hold_timeout,
        )
        self.dataset = dataset = dataset if verify is None else dataset.verified(verify)
        self._tokens = OpenRun(dataset, column)
        options = self.options
        check_fit(options, self._tokens, tokenizer)
        keys = partial(fold_all, _ORDER_VERSION, options.seed)
        self._block = options.block_size or options.longest if options.shuffle is Shuffle.BLOCK else 0
        self._packed: PackedDocuments | None = None
        if options.fit is not None:
            shuffled = keys if options.shuffle is Shuffle.BLOCK else None
            self._packed = PackedDocuments(
                self._tokens, len(dataset), options.longest, options.fit, options.group_documents, shuffled
            )
        schedule = Schedule(
            units=self._packed.rows if self._packed else self._tokens.tokens,
            phases=options.all_phases,
            pad=options.tail is Tail.PAD,
            unit_tokens=options.longest if self._packed else 1,
        )
        _check_phases(schedule, self._tokens.tokens)
        if placement.ranges is not None:
            for phase in options.all_phases:
                placement.ranges((phase.rows, phase.seq_len))  # an error now and not in the middle
        columns = Columns(
            options.dtype,
            options.targets,
            options.documents,
            options.mask_documents,
            options.pad_id if options.pad_id is not None else self._tokens.encoding.eos or 0,
        )
        filler = TokenFiller(
            self._tokens,
            self._packed or WindowOrder(self._block, keys),
            columns,
            placement.ranges,
            options.rank,
            options.world_size,
            LoaderStats(),
        )
        super().__init__(schedule, filler, placement.place, options)

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

    def _identity(self) -> dict[str, object]:
        options = self.options
        return {
            "version": STATE_VERSION,
            "order": _ORDER_VERSION,
            "pin": self.dataset.pin,
            "split": self.dataset.split,
            "column": self._tokens.column.name,
            "shuffle": options.shuffle.value,
            "seed": options.seed if options.shuffle is Shuffle.BLOCK else None,
            "block_size": self._block,
            "pack": None if options.fit is None else [options.fit.value, options.longest, options.group_documents],
        }


def _check_phases(schedule: Schedule, tokens: int) -> None:
    for phase in schedule.phases:
        if not schedule.steps_per_epoch(phase):
            raise UsageError(
                f"a step of {phase.rows} rows of {phase.seq_len} tokens is more than the {tokens} tokens there are: "
                "nothing is left with tail='drop'. Take fewer, or tail='pad'"
            )


def check_fit(options: StreamOptions, run: OpenRun, tokenizer: str | os.PathLike[str] | None) -> None:
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
