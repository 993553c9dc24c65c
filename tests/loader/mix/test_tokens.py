"""Mixes: each row from the source that the plan says, weights met exactly, every token once or over again."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import token_oracle as oracle

import toolkit
from toolkit.errors import UsageError

SIZES = {"news": 9_000, "books": 30_000, "code": 1_234}
WEIGHTS = {"news": 2, "books": 1, "code": 0.5}


@pytest.fixture(scope="session")
def paths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Three datasets whose ids tell the source: news from 0, books from 10,000, code from 50,000."""
    folder = tmp_path_factory.mktemp("mix")
    for name, first in (("news", 0), ("books", 10_000), ("code", 50_000)):
        ids = first + np.arange(SIZES[name])
        oracle.write(folder / name, np.array_split(ids, 20), eos=False)
    return {name: folder / name for name in SIZES}


@pytest.fixture
def datasets(paths: dict[str, Path]) -> dict[str, toolkit.Dataset]:
    return {name: toolkit.open(path) for name, path in paths.items()}


def mix(datasets: dict[str, toolkit.Dataset], **options: Any) -> toolkit.TokenMix:
    options = {"seq_len": 100, "batch_size": 8, "shuffle": "block", "weights": WEIGHTS, **options}
    return toolkit.mix_tokens(datasets, **options)


@pytest.mark.parametrize("world", [1, 2])
def test_a_mix_gives_every_token_of_every_source_once(datasets: dict[str, toolkit.Dataset], world: int) -> None:
    ranks = [list(mix(datasets, batch_size=8 // world, rank=r, world_size=world, targets=True)) for r in range(world)]
    tokens = np.concatenate([b["tokens"][b.mask] for at in zip(*ranks, strict=True) for b in at])
    expected = [ds["tokens"] for source in datasets.values() for ds in (source[i] for i in range(len(source)))]
    np.testing.assert_array_equal(np.sort(tokens), np.sort(np.concatenate(expected)))
    for at in zip(*ranks, strict=True):
        for batch in at:
            inside = batch["targets"] >= 0
            np.testing.assert_array_equal(batch["targets"][inside], batch["tokens"][inside] + 1)


def test_rows_come_from_the_sources_that_are_named(datasets: dict[str, toolkit.Dataset]) -> None:
    stream = mix(datasets, documents=True)
    seen: Counter[str] = Counter()
    for batch in stream:
        names = stream.sources(batch)
        for row, name in zip(batch["tokens"], names, strict=True):
            if name is not None:
                assert name == ("news" if row[0] < 10_000 else "books" if row[0] < 50_000 else "code")
                seen[name] += 1
        assert stream.counts() == {name: seen[name] for name in datasets}
    assert seen == {"news": 90, "books": 300, "code": 13}


def test_repeated_sources_are_shuffled_anew(datasets: dict[str, toolkit.Dataset]) -> None:
    stream = mix(datasets, exhausted="repeat", total_steps=40)
    rows = [row for batch in stream for row in batch["tokens"] if row[0] >= 50_000]
    assert len(rows) > 26
    epochs = [[int(row[0]) for row in rows[start : start + 13]] for start in (0, 13)]
    assert sorted(epochs[0]) == sorted(epochs[1])
    assert epochs[0] != epochs[1]
    with pytest.raises(UsageError, match="without end"):
        len(mix(datasets, exhausted="repeat"))


def test_a_mix_that_stops_ends_where_the_first_source_does(datasets: dict[str, toolkit.Dataset]) -> None:
    stream = mix(datasets, exhausted="stop", weights={"news": 1, "books": 3, "code": 0.1})
    rows = [row for batch in stream for row in batch["tokens"][batch.mask[:, 0]]]
    assert stream.counts()["news"] == 90
    assert rows[-1][0] < 10_000
    assert abs(stream.counts()["books"] - 270) <= 4
    assert len(rows) == sum(stream.counts().values()) == stream.stats()["samples"]


def test_a_state_resumes_with_another_batch_size_and_more_ranks(datasets: dict[str, toolkit.Dataset]) -> None:
    whole = [row for batch in mix(datasets) for row in batch["tokens"][batch.mask[:, 0]]]
    stream = mix(datasets)
    iterator = iter(stream)
    for _ in range(7):
        next(iterator)
    state = stream.state_dict()
    stream.close()
    ranks = []
    for rank in range(3):
        other = mix(datasets, batch_size=5, rank=rank, world_size=3)
        other.load_state_dict(state)
        ranks.append(list(other))
    rest = [row for at in zip(*ranks, strict=True) for b in at for row in b["tokens"][b.mask[:, 0]]]
    np.testing.assert_array_equal(np.stack(rest), np.stack(whole[56:]))
    for change in ({"weights": {**WEIGHTS, "news": 1}}, {"seed": 1}, {"seq_len": 50}, {"exhausted": "stop"}):
        with pytest.raises(UsageError, match="the state is of another run"):
            mix(datasets, **change).load_state_dict(state)


def test_a_state_of_sources_in_another_order_is_refused(datasets: dict[str, toolkit.Dataset]) -> None:
    """Rows are dealt by a source's number: in another order, other rows would follow, some of them twice."""
    stream = mix(datasets)
    next(iter(stream))
    state = json.loads(json.dumps(stream.state_dict(), sort_keys=True))
    stream.close()
    backwards = dict(reversed(datasets.items()))
    with pytest.raises(UsageError, match=r"another run: sources \[\['news'.* there, \[\['code'.* here\. Make"):
        mix(backwards).load_state_dict(state)
    again = mix(datasets, weights=dict(reversed(WEIGHTS.items())))  # the datasets' order is the one that counts
    again.load_state_dict(state)
    np.testing.assert_array_equal(next(iter(again))["tokens"], list(mix(datasets))[1]["tokens"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"weights": {**WEIGHTS, "code": "1"}}, "weight of 'code' must be a number, got '1'"),
        ({"weights": {**WEIGHTS, "code": True}}, "weight of 'code' must be a number, got True"),
        ({"weights": {**WEIGHTS, "code": 10**5000}}, "weight of 'code' is beyond float64"),
        ({"weights": {**WEIGHTS, "code": Fraction(10**400)}}, "weight of 'code' is beyond float64"),
        ({"weights": {"news": 1, "books": 1}}, "'code' has no weight"),
        ({"weights": {**WEIGHTS, "cod": 1}}, "Did you mean 'code'"),
        ({"weights": {**WEIGHTS, "code": 0}}, "positive"),
        ({"weights": {**WEIGHTS, "code": float("nan")}}, "positive"),
        ({"exhausted": "drop"}, "exhausted must be one of"),
        ({"seq_len": 5000}, "more than the 1234 tokens"),
    ],
)
def test_mixes_that_cannot_be(datasets: dict[str, toolkit.Dataset], options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        mix(datasets, **options)


def test_other_tokenizers_do_not_mix(datasets: dict[str, toolkit.Dataset], tmp_path: Path) -> None:
    toolkit.pack_tokens(["text " * 100], tmp_path / "bytes", tokenizer="bytes")
    with pytest.raises(UsageError, match="don't mix"):
        mix({**datasets, "bytes": toolkit.open(tmp_path / "bytes")}, weights={**WEIGHTS, "bytes": 1})
