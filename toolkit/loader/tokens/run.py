"""The tokens of a split as one run, read through checked maps: opens shards as they are met, and names what fails."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toolkit._native.shards.body import READ_RANGE
from toolkit._native.tokens.gather import TokenShard
from toolkit._native.tokens.run import TokenRun
from toolkit.errors import CorruptShardError, UsageError
from toolkit.escapes import listed
from toolkit.format.layout import FixedLayout, ListLayout, column_layouts
from toolkit.format.reader import ShardReader, read_failure
from toolkit.format.schema import Column, Kind, TokenEncoding
from toolkit.format.tables import parse_tokenizer_table
from toolkit.sources.tokenizer import Tokenizer, parse_tokenizer

if TYPE_CHECKING:
    from toolkit.loader.dataset.dataset import Dataset

__all__ = ["OpenRun"]

_OPEN_SHARDS = 4096  # maps, as in toolkit.loader.dataset.fetch
_IDENTITY_SECONDS = 0.2  # a stat of each shard that a batch meets would take longer than the batch


class OpenRun:
    """Reads stretches of a split's tokens. Owns the open shards it has met; safe from any thread.

    Attributes:
        column: The tokens column.
        encoding: What its ids mean.
        tokens: Tokens of the split.
        width: Bytes of a stored token.
    """

    def __init__(self, dataset: Dataset) -> None:
        """Find the tokens column of a whole split; reads the shard tables.

        Raises:
            UsageError: There is none; or the dataset is a view, or joined ones.
            CorruptTableError: A shard table is missing or damaged.
        """
        if len(dataset.pins) > 1:
            raise UsageError(
                f"a token stream reads one split, and these are {len(dataset.pins)} joined datasets: stream each of "
                "them, or mix them with toolkit.mix_tokens"
            )
        if dataset.is_view:
            raise UsageError("a token stream reads a whole split, and this is a view of it: open the split itself")
        self.column = _tokens_column(dataset)
        self.encoding: TokenEncoding = self.column.tokens or TokenEncoding(vocabulary=1 << 32)
        self._table = dataset.read_table
        self._index = dataset.index
        self._fetcher = dataset.fetcher
        layout = column_layouts(dataset.schema)[self.column.name]
        if not isinstance(layout, ListLayout) or not isinstance(layout.child, FixedLayout) or layout.offsets is None:
            raise UsageError(f"column {self.column.name!r} is {layout.type}, not lists of ids: it is no tokens column")
        self._ids, self._ends, self.width = layout.child.data, layout.offsets, layout.child.width
        shard_tokens = self._index.shard_tokens()
        self._run = TokenRun(shard_tokens, self.width)
        self.tokens = self._run.tokens
        self._shard_first = np.concatenate(([0], np.cumsum(shard_tokens)))
        self._readers: dict[int, ShardReader] = {}
        self._checked = 0.0
        self._lock = threading.Lock()

    def tokenizer(self) -> Tokenizer | None:
        """Return the dataset's own tokenizer; None without one that can be used, see parse_tokenizer().

        Raises:
            UsageError: The package `tokenizers` is missing.
            SourceError: The file is no tokenizer.
        """
        digest = self.encoding.tokenizer_table
        file = None if digest is None else parse_tokenizer_table(self._table(digest), digest)
        return parse_tokenizer(self.encoding, file)

    def gather(
        self,
        starts: NDArray[np.int64],
        counts: NDArray[np.int64],
        places: NDArray[np.int64],
        tokens: NDArray[Any],
        row_tokens: int,
        *,
        block: int = 0,
        key: int = 0,
        targets: NDArray[Any] | None = None,
        segments: NDArray[np.int32] | None = None,
        positions: NDArray[np.int32] | None = None,
        mask_junctions: bool = False,
    ) -> None:
        """Copy stretches into flat arrays; see toolkit._native.tokens.run.TokenRun.gather.

        Raises:
            CorruptShardError: A shard that is met is missing or damaged.
        """
        while True:
            missing, failure = self._run.gather(
                starts,
                counts,
                places,
                tokens.view(np.uint8),
                tokens.itemsize,
                row_tokens,
                block=block,
                key=key,
                targets=None if targets is None else targets.view(np.uint8),
                segments=segments,
                positions=positions,
                mask_junctions=mask_junctions,
            )
            if failure is not None:
                raise self._corrupt(*failure)
            if missing:
                self._attach(missing)
            elif not self._reopened():
                return

    def document_ends(self, first: int, count: int) -> tuple[int, NDArray[np.int64]]:
        """Return the token of the run where document `first` begins, and where it and the next count - 1 end.

        Raises:
            CorruptShardError: As gather.
        """
        last = first + count - 1
        ends: list[NDArray[np.int64]] = []
        begin = -1
        for batch in range(self._index.batch_of(first), self._index.batch_of(last) + 1):
            info = self._index.batch(batch)
            if not info.rows:  # it may have no offsets
                continue
            body = self._open(info.shard).body(batch)
            start, nbytes = body.buffer(self._ends)
            low, high = max(first - info.start, 0), min(last + 1 - info.start, body.rows)
            offsets = np.empty(high - low + 1, np.int64)
            status, chunk = READ_RANGE, -1
            if (high + 1) * 8 <= nbytes:
                status, chunk = body.read(start + low * 8, offsets.view(np.uint8))
            if not status and not _are_ends(offsets, low, high == body.rows, body.buffer(self._ids)[1] // self.width):
                status = READ_RANGE
            if status:
                raise self._corrupt(status, info.shard, info.number, chunk)
            offsets += info.token_start
            begin = int(offsets[0]) if begin < 0 else begin
            ends.append(offsets[1:])
        return begin, np.concatenate(ends)

    def _attach(self, shards: list[int]) -> None:
        if self._run.open_shards and self._run.open_shards + len(shards) > _OPEN_SHARDS:
            with self._lock:
                self._run.close_shards()
                self._readers.clear()
            return  # what is missing now is asked for anew
        for shard in shards:
            reader = self._open(shard)
            bodies = [reader.body(batch) for batch in self._index.shard(shard).batches]
            try:
                self._run.attach(shard, TokenShard(bodies, self._ids, self._ends, self.width))
            except ValueError as error:
                raise self._fault(shard, str(error)) from error

    def _open(self, shard: int) -> ShardReader:
        """Return an open shard, anew where its file may have changed. Raises CorruptShardError."""
        reader = self._fetcher.open_shard(shard)
        with self._lock:
            if len(self._readers) >= 2 * _OPEN_SHARDS:
                self._readers.clear()  # what is attached holds its maps itself
            self._readers[shard] = reader
        return reader

    def _reopened(self) -> bool:
        """Look whether files of shards that were read changed, a few times a second; if any did, attach it anew.

        Then what was read may be what they changed to, and has to be read again.

        Raises:
            CorruptShardError: One was rewritten in place.
        """
        now = time.monotonic()
        if now - self._checked < _IDENTITY_SECONDS:
            return False
        with self._lock:
            self._checked = now
            touched = [(shard, self._readers.get(shard)) for shard in self._run.take_touched()]
        changed = [shard for shard, reader in touched if reader is None or reader.identity.changed()]
        self._attach(changed)
        return bool(changed)

    def _corrupt(self, status: int, shard: int, batch: int, chunk: int) -> CorruptShardError:
        return self._fault(shard, f"record batch {batch}: {read_failure(status, chunk)}")

    def _fault(self, shard: int, what: str) -> CorruptShardError:
        path = self._index.shard(shard).path
        return CorruptShardError(
            f"shard {path}, column {self.column.name}: {what}. "
            "Run `toolkit verify --full`, then copy the shard from a good copy or pack again",
            shard=path,
            column=self.column.name,
        )


def _are_ends(offsets: NDArray[np.int64], first: int, last: bool, tokens: int) -> bool:
    """Tell whether these can be the offsets of a record batch of so many tokens, from row `first` on."""
    inside = offsets[0] >= 0 and offsets[-1] <= tokens and bool((offsets[1:] >= offsets[:-1]).all())
    return inside and (first > 0 or offsets[0] == 0) and (not last or offsets[-1] == tokens)


def _tokens_column(dataset: Dataset) -> Column:
    found = next((column for column in dataset.columns if column.kind is Kind.TOKENS), None)
    if found is None:
        names = listed(f"{column.name} ({column.kind.value})" for column in dataset.columns)
        raise UsageError(f"the dataset has no tokens column; it has {names}. Pack texts with --tokenizer")
    return found
