"""Whole documents in rows: each once, whole where it fits, and the padding that is reported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import token_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st
from token_oracle import Packed

import toolkit
from toolkit._native.tokens.fit import fit_rows
from toolkit.loader.tokens.batch import TokenBatch
from toolkit.loader.tokens.packing import PackedDocuments


def fitted(lengths: list[int], capacity: int, best: bool) -> tuple[list[int], list[int]]:
    """First fit and best fit in a few lines."""
    used: list[int] = []
    rows, places = [], []
    for length in lengths:
        open_rows = [row for row in range(len(used)) if capacity - used[row] >= length and length < capacity]
        chosen = (
            (max(open_rows, key=lambda row: (used[row], -row)) if best else open_rows[0]) if open_rows else len(used)
        )
        used += [0] * (chosen == len(used))
        rows.append(chosen)
        places.append(used[chosen])
        used[chosen] += length
    return rows, places


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 20), max_size=60), st.booleans())
def test_pieces_go_where_the_definition_says(lengths: list[int], best: bool) -> None:
    rows, places = np.empty(len(lengths), np.int64), np.empty(len(lengths), np.int64)
    count = fit_rows(np.array(lengths, np.int64), 20, best, rows, places)
    assert (rows.tolist(), places.tolist()) == fitted(lengths, 20, best)
    assert count == len(set(rows.tolist()))


def test_pieces_that_fit_no_row_are_refused() -> None:
    out = np.empty(1, np.int64)
    for length in (0, 21):
        with pytest.raises(ValueError, match="for rows of 20"):
            fit_rows(np.array([length], np.int64), 20, True, out, out.copy())


def texts(batches: list[TokenBatch]) -> Counter[bytes]:
    """Return the segments of all rows as texts, counted."""
    found: Counter[bytes] = Counter()
    for batch in batches:
        for tokens, segments in zip(batch["tokens"], batch["segments"], strict=True):
            for number in range(1, int(segments.max()) + 1):
                found[tokens[segments == number].astype(np.int64).tobytes()] += 1
    return found


@pytest.mark.parametrize("fit", ["best", "first"])
@pytest.mark.parametrize("shuffle", ["block", "none"])
@pytest.mark.parametrize(("seq_len", "group"), [(100, 64), (512, 1024), (512, 7)])
def test_every_document_comes_once_and_whole(packed: Packed, fit: str, shuffle: str, seq_len: int, group: int) -> None:
    options: dict[str, Any] = {"seq_len": seq_len, "pack": fit, "group_documents": group, "shuffle": shuffle}
    stream = packed.open().tokens(batch_size=6, targets=True, **options)
    batches = list(stream)
    pieces = Counter(
        doc[start : start + seq_len].tobytes() for doc in packed.docs for start in range(0, len(doc), seq_len)
    )
    assert texts(batches) == pieces
    rows = sum(int(batch.mask.any(axis=1).sum()) for batch in batches)
    assert stream.padding_share == pytest.approx(1 - len(packed.run) / (rows * seq_len))
    for batch in batches:
        there = batch["segments"] > 0
        np.testing.assert_array_equal(batch.mask, there)
        assert (batch["tokens"][~there] == oracle.EOS).all()
        assert (batch["targets"][~there] == -100).all()
        same = (batch["segments"][:, 1:] == batch["segments"][:, :-1]) & there[:, 1:]
        np.testing.assert_array_equal(batch["targets"][:, :-1][same], batch["tokens"][:, 1:][same])
        ends = there[:, :-1] & ~same
        if seq_len > 341:  # no document is cut: the last token of each has no target
            assert (batch["targets"][:, :-1][ends] == -100).all()
        np.testing.assert_array_equal(batch["positions"][:, 1:][same], batch["positions"][:, :-1][same] + 1)
    four = [list(packed.open().tokens(batch_size=3, rank=rank, world_size=2, **options)) for rank in range(2)]
    for i, batch in enumerate(batches):
        np.testing.assert_array_equal(np.concatenate([rank[i]["tokens"] for rank in four]), batch["tokens"])


def test_epochs_shuffle_groups_and_rows_and_states_resume(packed: Packed) -> None:
    options: dict[str, Any] = {"seq_len": 512, "pack": "best", "group_documents": 50, "shuffle": "block", "epochs": 2}
    batches = list(packed.open().tokens(batch_size=4, **options))
    each = len(batches) // 2
    assert texts(batches[:each]) == texts(batches[each:])
    assert (batches[0]["tokens"] != batches[each]["tokens"]).any()
    stream = packed.open().tokens(batch_size=4, **options)
    iterator = iter(stream)
    for _ in range(5):
        next(iterator)
    other = packed.open().tokens(batch_size=4, **options)
    other.load_state_dict(stream.state_dict())
    for got, wanted in zip(other, batches[5:], strict=True):
        np.testing.assert_array_equal(got["tokens"], wanted["tokens"])
    stream.close()


def test_phases_may_change_the_batch_size(packed: Packed) -> None:
    stream = packed.open().tokens(phases=[(3, 2, 512)], batch_size=5, seq_len=512, pack="first")
    whole = texts(list(packed.open().tokens(batch_size=8, seq_len=512, pack="first")))
    batches = list(stream)
    assert [len(batch["tokens"]) for batch in batches[:4]] == [2, 2, 2, 5]
    assert texts(batches) == whole


def test_documents_longer_than_a_shard_and_empty_ones(tmp_path: Path) -> None:
    docs = [np.arange(0), np.arange(50_000) % 1000, np.arange(0), np.arange(3), np.arange(0)]
    stored = oracle.write(tmp_path / "ds", docs)
    ds = toolkit.open(tmp_path / "ds")
    assert ds.index.shards > 1
    assert [len(ds[i]["tokens"]) for i in range(5)] == [0, 50_001, 0, 4, 0]
    rows = [batch["tokens"][batch.mask] for batch in ds.tokens(seq_len=4096, batch_size=2)]
    np.testing.assert_array_equal(np.concatenate(rows), np.concatenate(stored))
    packed = list(ds.tokens(seq_len=4096, batch_size=2, pack="best"))
    assert sum(int(batch.mask.sum()) for batch in packed) == 50_005


def test_threads_in_two_epochs_get_their_own(packed: Packed) -> None:
    """A thread gave back what another had noted in between, so rows would have come from another epoch's order."""

    class Between(PackedDocuments):
        """Lets a thread in epoch 0 come between what one in epoch 1 does: behind its note."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_epoch" and value.number == 1:
                assert self._order(0).number == 0

    made = packed.open().tokens(seq_len=64, batch_size=2, pack="best", shuffle="block", threads=0)._packed
    assert made is not None
    made.__class__ = Between
    assert [made._order(epoch).number for epoch in (0, 1, 0, 1)] == [0, 1, 0, 1]
