"""What a token stream must deliver, said again in plain Python and numpy; and small datasets to stream."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import toolkit
from toolkit._native.order.permute import permute
from toolkit.format.shard import ShardWriter
from toolkit.pack.tokens import pack_tokens
from toolkit.pipelines.randomness import fold_all

VOCABULARY = 60_000
EOS = 59_999
BATCH_BODY_BYTES = 8 * 1024

Ids = NDArray[np.int64]


@dataclass(frozen=True)
class Packed:
    """A dataset, and the documents that it must hold."""

    path: Path
    docs: list[Ids]

    @property
    def run(self) -> Ids:
        return np.concatenate(self.docs)

    @property
    def ends(self) -> Ids:
        """Ends of the documents that aren't empty."""
        return np.cumsum([len(doc) for doc in self.docs if len(doc)])

    @property
    def starts(self) -> Ids:
        return np.concatenate(([0], self.ends[:-1]))

    def open(self) -> toolkit.Dataset:
        return toolkit.open(self.path)


def documents(count: int, longest: int, seed: int = 0) -> list[Ids]:
    """Return documents of 0 to `longest` ids; about one in eight is empty."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, longest + 1, count) * (rng.random(count) > 0.125)
    return [rng.integers(0, EOS, int(length)) for length in lengths]


def write(dataset: Path, docs: Sequence[Ids], **options: Any) -> list[Ids]:
    """Pack `docs` into small shards and record batches; return them as they are stored, with their ends of text."""
    options = {"vocabulary": VOCABULARY, "eos": EOS, "shard_size": 64 * 1024, **options}
    small = functools.partial(ShardWriter, batch_body_bytes=BATCH_BODY_BYTES)
    with mock.patch("toolkit.pack.slices.ShardWriter", small):
        pack_tokens(docs, dataset, **options)
    eos = options["eos"]
    return [np.append(doc, eos) if len(doc) and eos is not False else doc for doc in docs]


def order(total: int, block: int, seed: int, epoch: int) -> Ids:
    """Return which token of the run is at each position of an epoch; block 0 is the stored order."""
    whole = total // block if block else 0
    if not whole:
        return np.arange(total)
    blocks = np.empty(whole, np.int64)
    permute(whole, fold_all(1, seed, epoch), np.arange(whole), blocks)
    head = (blocks[:, None] * block + np.arange(block)).reshape(-1)
    return np.concatenate((head, np.arange(whole * block, total)))


def steps(
    total: int, phases: Sequence[tuple[int | None, int, int]], *, pad: bool, epochs: int
) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield (epoch, position, units, rows, seq_len) of each step, one after the other."""
    epoch = position = 0
    for count, rows, seq_len in phases:
        width = rows * seq_len
        done = 0
        while count is None or done < count:
            left = total - position
            if left < width and not (pad and left):
                epoch, position = epoch + 1, 0
                left = total
            if epoch >= epochs:
                return
            yield epoch, position, min(width, left), rows, seq_len
            position += min(width, left)
            done += 1


def marks(starts: Ids, ends: Ids, at: Ids) -> tuple[Ids, Ids]:
    """Return segments and positions of one row whose tokens are tokens `at` of the run; -1 is padding.

    `starts` and `ends` are those of the documents that aren't empty.
    """
    document = np.searchsorted(starts, at, side="right")
    segments, positions = np.zeros(len(at), np.int64), np.zeros(len(at), np.int64)
    number = position = 0
    for i, token in enumerate(at.tolist()):
        if token < 0:
            continue
        follows = i > 0 and at[i - 1] + 1 == token and document[i - 1] == document[i]
        number, position = (number, position + 1) if follows else (number + 1, 0)
        segments[i], positions[i] = number, position
    return segments, positions
