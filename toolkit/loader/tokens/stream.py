"""A stream of windows over a split's tokens: exactly as planned or an error, resumable at any token."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from toolkit.errors import NotFoundError, UsageError
from toolkit.escapes import short
from toolkit.loader.dataset.views import short_pins
from toolkit.loader.engine.stats import LoaderStats
from toolkit.loader.tokens.filler import Columns, StreamFiller
from toolkit.loader.tokens.options import Shuffle, StreamOptions
from toolkit.loader.tokens.packing import PackedDocuments
from toolkit.loader.tokens.run import OpenRun
from toolkit.loader.tokens.schedule import Schedule
from toolkit.loader.tokens.steps import StepStream
from toolkit.loader.tokens.stretches import WindowOrder
from toolkit.pipelines.randomness import fold_all
from toolkit.sources.tokenizer import BYTES, load_tokenizer

if TYPE_CHECKING:
    from toolkit.loader.dataset.dataset import Dataset

__all__ = ["TokenStream", "check_fit"]

_ORDER_VERSION = 1


class TokenStream(StepStream):
    """Iterates over batches of windows; made by Dataset.tokens(). Position is counted in tokens: none comes twice.

    An iteration goes on where the last one stood, up to the end of an epoch that is a multiple of `epochs`: after the
    end the next one gives the next `epochs` epochs, shuffled anew. A `with` block, or close(), ends the threads.

    Attributes:
        dataset, options: What it was made of.
    """

    def __init__(self, dataset: Dataset, options: StreamOptions) -> None:
        """Make a stream of a split with a tokens column; nothing but lengths of documents (with pack=) is read yet.

        Raises:
            UsageError: An option doesn't fit the dataset.
            CorruptShardError: With pack=: a length can't be read.
        """
        given = options.given
        self.options = options
        self.dataset = dataset = dataset if given["verify"] is None else dataset.verified(given["verify"])
        self._tokens = OpenRun(dataset)
        check_fit(options, self._tokens)
        keys = partial(fold_all, _ORDER_VERSION, given["seed"])
        self._packed: PackedDocuments | None = None
        if options.fit is not None:
            shuffled = keys if options.shuffle is Shuffle.BLOCK else None
            self._packed = PackedDocuments(
                self._tokens, len(dataset), options.longest, options.fit, given["group_documents"], shuffled
            )
        schedule = Schedule(
            units=self._packed.rows if self._packed else self._tokens.tokens,
            phases=options.phases,
            pad=given["remainder"] == "pad",
            unit_tokens=options.longest if self._packed else 1,
        )
        _check_phases(schedule, self._tokens.tokens)
        if options.placement.ranges is not None:
            for phase in options.phases:
                options.placement.ranges((phase.rows, phase.seq_len))  # an error now and not in the middle
        filler = StreamFiller(
            Columns.of(options, self._tokens),
            options.placement.ranges,
            options.rank,
            options.world_size,
            LoaderStats(),
            self._tokens,
            self._packed or WindowOrder(options.block, keys),
        )
        super().__init__(schedule, filler, options)

    @property
    def padding_share(self) -> float:
        """Which part of an epoch's rows is padding, with pack=: between 0 and 1; without, 0."""
        return self._packed.padding_share if self._packed else 0.0

    def steps_per_epoch(self, seq_len: int | None = None, batch_size: int | None = None) -> int:
        """Return the steps of a whole epoch, for the stream's last form or for another seq_len and batch_size."""
        last = self._schedule.phases[-1]
        each = 1 if self.options.given["global_batch_size"] is not None else self.options.world_size
        rows = last.rows if batch_size is None else batch_size * each
        length = last.seq_len if seq_len is None else seq_len
        if min(rows, length) < 1:
            raise UsageError(f"seq_len and batch_size must be at least 1, got {short(seq_len)} and {short(batch_size)}")
        return self._schedule.steps_per_epoch(type(last)(None, rows, length))

    def _datasets_text(self) -> str:
        return f"{self.dataset.split}, pin {short_pins(self.dataset.pins)}"

    def _identity(self) -> dict[str, object]:
        options, given = self.options, self.options.given
        return {
            "order": _ORDER_VERSION,
            "pin": self.dataset.pin,
            "split": self.dataset.split,
            "column": self._tokens.column.name,
            "shuffle": given["shuffle"],
            "seed": given["seed"] if options.shuffle is Shuffle.BLOCK else None,
            "block_size": options.block,
            "pack": None if given["pack"] is None else [given["pack"], options.longest, given["group_documents"]],
        }


def _check_phases(schedule: Schedule, tokens: int) -> None:
    for phase in schedule.phases:
        if not schedule.steps_per_epoch(phase):
            raise UsageError(
                f"a step of {phase.rows} rows of {phase.seq_len} tokens is more than the {tokens} tokens there are: "
                "nothing is left with remainder='drop'. Take fewer, or remainder='pad'"
            )


def check_fit(options: StreamOptions, run: OpenRun) -> None:
    """Raise UsageError when the options don't fit the dataset."""
    encoding, pad_id, tokenizer = run.encoding, options.given["pad_id"], options.given["tokenizer"]
    if not run.tokens:
        raise UsageError(f"the split has no tokens: column {run.column.name!r} holds empty documents only")
    if encoding.vocabulary - 1 > np.iinfo(options.dtype).max:
        raise UsageError(f"ids up to {encoding.vocabulary - 1} don't fit {options.dtype}: take a wider dtype")
    if pad_id is not None and pad_id > np.iinfo(options.dtype).max:
        raise UsageError(f"pad_id {pad_id} doesn't fit {options.dtype}")
    if options.longest > run.tokens and options.fit is None:
        raise UsageError(f"seq_len {options.longest} is more than the {run.tokens} tokens there are")
    if tokenizer is not None:
        try:
            given = load_tokenizer(tokenizer).encoding.tokenizer
        except NotFoundError as error:
            raise NotFoundError(f"tokenizer: {error}") from error
        if given != encoding.tokenizer:
            raise UsageError(
                f"the dataset was packed with {_named(encoding.tokenizer)}, and {os.fspath(tokenizer)!r} is "
                f"{_named(given)}: its ids mean other things. Pack again with it, or use the dataset's own"
            )


def _named(tokenizer: str | None) -> str:
    if tokenizer is None:
        return "ready ids and no tokenizer"
    return "bytes" if tokenizer == BYTES else f"a tokenizer of sha256 {tokenizer[:12]}…"
