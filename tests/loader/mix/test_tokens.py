"""Mixes: each row from the source that the plan says, weights met exactly, every token once or over again."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import token_oracle as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

import toolkit
from toolkit.errors import UsageError
from toolkit.loader.mix.plan import CYCLE_ROWS, MixPlan

SIZES = {"news": 9_000, "books": 30_000, "code": 1_234}
WEIGHTS = {"news": 2, "books": 1, "code": 0.5}
WEIGHT = st.sampled_from([0.01, 0.3, 1.0, 7.0])


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


def walked(rows: Sequence[int], weights: Sequence[float], count: int) -> list[int]:
    """Return how many rows each source gave, checked row by row."""
    plan = MixPlan(rows, weights, 3, repeat=False)
    sources, numbers = plan.sources(0, count)
    seen = [0] * len(rows)
    for source, number in zip(sources.tolist(), numbers.tolist(), strict=True):
        assert number == seen[source] < rows[source]
        seen[source] += 1
    return seen


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 6000), WEIGHT), min_size=1, max_size=4), st.integers(0, 10**6))
def test_every_row_of_every_source_comes_once_and_in_order(sources: list[tuple[int, float]], cut: int) -> None:
    rows, weights = [one for one, _ in sources], [one for _, one in sources]
    total = sum(rows)
    assert walked(rows, weights, total) == rows
    plan = MixPlan(rows, weights, 3, repeat=False)
    cut %= total
    whole, part = plan.sources(0, total), plan.sources(cut, total - cut)
    for a, b in zip(whole, part, strict=True):
        np.testing.assert_array_equal(a[cut:], b)
    np.testing.assert_array_equal(plan.given(cut), np.bincount(whole[0][:cut], minlength=len(rows)))


def test_weights_are_met_exactly_in_every_cycle_and_renormalised_when_a_source_ends() -> None:
    plan = MixPlan([10**6, 10**6, 100], [2, 1, 1], 0, repeat=False)
    sources, _ = plan.sources(0, 3 * CYCLE_ROWS)
    end = int(np.flatnonzero(sources == 2)[-1]) + 1
    assert (sources == 2).sum() == 100
    assert 300 < end < 500
    for cycle in range(2):
        part = sources[end + cycle * CYCLE_ROWS : end + (cycle + 1) * CYCLE_ROWS]
        assert abs(int((part == 0).sum()) - CYCLE_ROWS * 2 / 3) < 1
    endless = MixPlan([5, 5], [3, 1], 0, repeat=True)
    first, numbers = endless.sources(10 * CYCLE_ROWS, CYCLE_ROWS)
    assert Counter(first.tolist()) == {0: CYCLE_ROWS * 3 // 4, 1: CYCLE_ROWS // 4}
    assert numbers.min() == 10 * CYCLE_ROWS // 4
    np.testing.assert_array_equal(endless.given(10**12), np.array([75, 25]) * 10**10)


@pytest.mark.parametrize(
    ("weights", "quotas"),
    [
        ([1.5e308, 0.5e308], [3072, 1024]),  # their sum is beyond float64
        ([5e-324, 5e-324], [2048, 2048]),
        ([4095, 1], [4095, 1]),
        ([1.0] * 4096, [1] * 4096),
        ([1 / 3] * 3, [1366, 1365, 1365]),
        ([0.1] * 10 + [0.2] * 15, [102] * 10 + [205] * 10 + [205] * 5),
    ],
)
def test_a_cycle_has_each_source_s_share_whatever_the_weights_size(weights: list[float], quotas: list[int]) -> None:
    plan = MixPlan([10**6] * len(weights), weights, 0, repeat=True)
    given = plan.given(CYCLE_ROWS)
    assert given.sum() == CYCLE_ROWS
    assert np.abs(given - np.array(quotas)).max() <= 1
    total = sum(map(Fraction, weights))
    shares = [float(Fraction(weight) / total * CYCLE_ROWS) for weight in weights]
    assert np.abs(given - np.array(shares)).max() < 1
    np.testing.assert_array_equal(plan.given(10**6 * CYCLE_ROWS), given * 10**6)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0] * 4097, r"weight 1\.0 is 1 row in 4097 of this mix of 4097 sources.*at least 1 row in 4096"),
        ([1.0, 1e-4], r"weight 0\.0001 is 1 row in 10001 of this mix"),
        ([1e308, 1e-308], r"weight 1e-308 is 1 row in \S+ of this mix"),
        ([1.0] * 4000 + [0.5, 1000.0], r"weight 0\.5 is 1 row in 10001 of this mix of 4002"),
    ],
)
def test_a_share_that_a_cycle_can_not_give_is_refused_with_the_number(weights: list[float], said: str) -> None:
    for repeat in (True, False):
        with pytest.raises(UsageError, match=said):
            MixPlan([10] * len(weights), weights, 0, repeat=repeat)


def test_many_sources_end_one_after_the_other() -> None:
    rows = list(range(1, 400))
    plan = MixPlan(rows, [1.0] * len(rows), 1, repeat=False)
    np.testing.assert_array_equal(plan.given(plan.rows), rows)
    sources, numbers = plan.sources(0, plan.rows)
    for source in (0, 1, 57, 398):
        np.testing.assert_array_equal(numbers[sources == source], np.arange(rows[source]))


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
    for change in ({"weights": {**WEIGHTS, "news": 1}}, {"seed": 1}, {"seq_len": 50}, {"exhausted": "repeat"}):
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
        ({"exhausted": "stop"}, "exhausted must be one of"),
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
