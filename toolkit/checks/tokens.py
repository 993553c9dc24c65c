"""What the tokens of a dataset are, in figures: documents, lengths, and the first ones decoded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toolkit.errors import UsageError
from toolkit.format.pin import Version
from toolkit.format.schema import KEY, Kind
from toolkit.loader.api import Dataset
from toolkit.loader.api import open as open_dataset
from toolkit.loader.tokens.run import OpenRun

__all__ = ["DocumentCount", "FirstDocument", "TokenFacts", "token_facts"]

_READ_DOCUMENTS = 1 << 16
_SHOWN_TOKENS = 64


@dataclass(frozen=True, kw_only=True)
class DocumentCount:
    """How many documents have `least` to `most` tokens, and how many tokens these have together."""

    least: int
    most: int
    documents: int
    tokens: int


@dataclass(frozen=True, kw_only=True)
class FirstDocument:
    """A document: its tokens, and its beginning as text, or as ids when there is no tokenizer to decode it."""

    split: str
    row: int
    key: str
    tokens: int
    text: str


@dataclass(frozen=True, kw_only=True)
class TokenFacts:
    """A tokens column over the chosen splits.

    Attributes:
        tokenizer: sha256 of its file, "bytes", or None for ready ids.
        histogram: By powers of two; empty documents first.
    """

    vocabulary: int
    eos: int | None
    tokenizer: str | None
    tokens: int
    documents: int
    longest: int
    histogram: tuple[DocumentCount, ...]
    first: tuple[FirstDocument, ...]


def token_facts(version: Version, splits: Sequence[str], *, first: int) -> dict[str, TokenFacts]:
    """Return the facts of the tokens column by its name, if there is one.

    Reads the length of every document, and the first `first` of each split.

    Raises:
        CorruptTableError, FormatError: As toolkit.open.
        CorruptShardError: A value that was read isn't what was packed.
    """
    name = next((column.name for column in version.manifest.columns if column.kind is Kind.TOKENS), None)
    if name is None:
        return {}
    pinned = f"{version.root}@sha256:{version.pin}"
    return {name: _facts([open_dataset(pinned, split=one, columns=[name]) for one in splits], first)}


def _facts(datasets: list[Dataset], first: int) -> TokenFacts:
    counts = np.zeros(65, np.int64)
    totals = np.zeros(65, np.int64)
    longest = 0
    shown: list[FirstDocument] = []
    runs = [OpenRun(dataset) for dataset in datasets]
    for dataset, run in zip(datasets, runs, strict=True):
        for start in range(0, len(dataset), _READ_DOCUMENTS):
            begin, ends = run.document_ends(start, min(_READ_DOCUMENTS, len(dataset) - start))
            lengths = np.diff(ends, prepend=begin)
            longest = max(longest, int(lengths.max()))
            # 0, 1, 2 to 3, 4 to 7: the exponent of the power of two above, which frexp gives exactly below 2**53.
            buckets = np.frexp(lengths.astype(np.float64))[1]
            counts += np.bincount(buckets, minlength=65)
            totals += np.bincount(buckets, weights=lengths, minlength=65).astype(np.int64)
        shown += [_first(dataset, run, row) for row in range(min(first, len(dataset)))]
    encoding = runs[0].encoding
    return TokenFacts(
        vocabulary=encoding.vocabulary,
        eos=encoding.eos,
        tokenizer=encoding.tokenizer,
        tokens=sum(run.tokens for run in runs),
        documents=sum(map(len, datasets)),
        longest=longest,
        histogram=tuple(
            DocumentCount(
                least=1 << i - 1 if i else 0, most=(1 << i) - 1, documents=int(counts[i]), tokens=int(totals[i])
            )
            for i in np.flatnonzero(counts).tolist()
        ),
        first=tuple(shown),
    )


def _first(dataset: Dataset, run: OpenRun, row: int) -> FirstDocument:
    start, (end,) = run.document_ends(row, 1)
    count = min(_SHOWN_TOKENS, int(end) - start)
    ids = np.empty(count, np.uint32)
    starts, counts, places = (np.array([value], np.int64) for value in (start, count, 0))
    if count:
        run.gather(starts, counts, places, ids, count)
    return FirstDocument(
        split=dataset.split,
        row=row,
        key=str(dataset[row][KEY]),
        tokens=int(end) - start,
        text=_decoded(run, ids.tolist()),
    )


def _decoded(run: OpenRun, ids: list[int]) -> str:
    try:
        tokenizer = run.tokenizer()
    except UsageError:  # the package isn't installed
        tokenizer = None
    return " ".join(map(str, ids)) if tokenizer is None else tokenizer.decode(ids)
