"""A mix's plan: each source's rows once and in order, weights met, and any row's source known without those before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import UsageError
from toolkit.loader.order.mix import BLOCK_ROWS, Exhausted, MixPlan

WEIGHT = st.sampled_from([0.01, 0.3, 1.0, 7.0])
SOURCES = st.lists(st.tuples(st.integers(1, 6000), WEIGHT), min_size=1, max_size=4)


def planned(rows: Sequence[int], weights: Sequence[float], exhausted: Exhausted = Exhausted.CONTINUE) -> MixPlan:
    return MixPlan(rows, weights, 3, exhausted)


@settings(max_examples=25)
@given(SOURCES, st.integers(0, 10**6))
def test_every_row_of_every_source_comes_once_and_in_order(sources: list[tuple[int, float]], cut: int) -> None:
    rows, weights = [one for one, _ in sources], [one for _, one in sources]
    plan = planned(rows, weights)
    assert plan.rows == sum(rows)
    dealt, numbers = plan.sources(0, plan.rows)
    for source, count in enumerate(rows):
        np.testing.assert_array_equal(numbers[dealt == source], np.arange(count))
    cut %= plan.rows
    for whole, part in zip((dealt, numbers), planned(rows, weights).sources(cut, plan.rows - cut), strict=True):
        np.testing.assert_array_equal(whole[cut:], part)
    np.testing.assert_array_equal(plan.given(cut), np.bincount(dealt[:cut], minlength=len(rows)))
    np.testing.assert_array_equal(plan.given(plan.rows), rows)


@settings(max_examples=25)
@given(SOURCES)
def test_one_that_stops_ends_with_the_first_last_row_of_a_source(sources: list[tuple[int, float]]) -> None:
    rows, weights = [one for one, _ in sources], [one for _, one in sources]
    plan, longer = planned(rows, weights, Exhausted.STOP), planned(rows, weights)
    dealt, numbers = longer.sources(0, longer.rows)
    ends = [int(np.flatnonzero((dealt == s) & (numbers == count - 1))[0]) + 1 for s, count in enumerate(rows)]
    assert plan.rows == min(ends)
    for mine, theirs in zip(plan.sources(0, plan.rows), (dealt, numbers), strict=True):
        np.testing.assert_array_equal(mine, theirs[: plan.rows])


@settings(max_examples=10)
@given(SOURCES, st.integers(0, 3))
def test_those_that_are_left_keep_their_shares_to_two_rows_each(sources: list[tuple[int, float]], seed: int) -> None:
    """Between two ends: what each has given against what another has, at the pace of their weights."""
    rows, weights = [one for one, _ in sources], [one for _, one in sources]
    plan = MixPlan(rows, weights, seed, Exhausted.CONTINUE)
    dealt, _ = plan.sources(0, plan.rows)
    done = np.stack([np.cumsum(dealt == source) for source in range(len(rows))])
    ends = np.sort([int(np.argmax(one == count)) for one, count in zip(done, rows, strict=True)])
    start = 0
    for end in ends.tolist():
        here = done[:, start : end + 1] - done[:, start : start + 1]
        alive = [s for s in range(len(rows)) if start == 0 or done[s, start] < rows[s]]
        total = sum(weights[s] for s in alive)
        for s in alive:
            share = weights[s] / total
            # Two rows of the plan, and what rounding the quotas of blocks that may be cut short comes to.
            slack = 4 + len(alive) + len(here[0]) / BLOCK_ROWS * 2
            assert np.abs(here[s] - share * np.arange(here.shape[1])).max() <= slack
        start = end


def test_weights_are_met_exactly_in_every_block_and_renormalised_when_a_source_ends() -> None:
    plan = planned([10**6, 10**6, 100], [2, 1, 1])
    sources, _ = plan.sources(0, 3 * BLOCK_ROWS)
    end = int(np.flatnonzero(sources == 2)[-1]) + 1
    assert (sources == 2).sum() == 100
    assert 390 < end < 410
    for start in (end, end + BLOCK_ROWS):
        part = sources[start : start + BLOCK_ROWS]
        assert abs(int((part == 0).sum()) - len(part) * 2 / 3) < 4
    endless = planned([5, 5], [3, 1], Exhausted.REPEAT)
    first, numbers = endless.sources(10 * BLOCK_ROWS, BLOCK_ROWS)
    assert Counter(first.tolist()) == {0: BLOCK_ROWS * 3 // 4, 1: BLOCK_ROWS // 4}
    assert numbers.min() == 10 * BLOCK_ROWS // 4
    np.testing.assert_array_equal(endless.given(10**12), np.array([75, 25]) * 10**10)


@pytest.mark.parametrize(
    ("weights", "block"),
    [
        ([1.5e308, 0.5e308], 4096),  # their sum is beyond float64
        ([5e-324, 5e-324], 4096),
        ([4095, 1], 1 << 18),
        ([1.0] * 4096, 1 << 18),
        ([1 / 3] * 3, 4096),
        ([0.1] * 10 + [0.2] * 15, 4096),
        ([0.7, *[0.0003] * 999], 1 << 18),
    ],
)
def test_a_block_has_each_source_s_share_whatever_the_weights_size(weights: list[float], block: int) -> None:
    plan = planned([10**6] * len(weights), weights, Exhausted.REPEAT)
    given = plan.given(block)
    assert given.sum() == block
    total = sum(map(Fraction, weights))
    shares = [float(Fraction(weight) / total * block) for weight in weights]
    assert np.abs(given - np.array(shares)).max() < 1
    np.testing.assert_array_equal(plan.given(10**6 * block), given * 10**6)


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ([1.0] * 16385, r"weight 1\.0 is 1 row in 16385 of this mix of 16385 sources, and the least is 1 in 16384"),
        ([1.0, 1e-5], r"weight 1e-05 is 1 row in 100001 of this mix"),
        ([1e308, 1e-308], r"weight 1e-308 is 1 row in \S+ of this mix"),
        ([1.0] * 4000 + [0.5, 10000.0], r"weight 0\.5 is 1 row in 28001 of this mix of 4002"),
        ([1.0, 0.0], "positive"),
        ([1.0, -1.0], "positive"),
        ([1.0, float("inf")], "positive"),
        ([1.0, float("nan")], "positive"),
    ],
)
def test_a_share_that_no_block_can_give_is_refused_with_the_number(weights: list[float], said: str) -> None:
    for exhausted in Exhausted:
        with pytest.raises(UsageError, match=said):
            planned([10] * len(weights), weights, exhausted)


def test_many_sources_end_one_after_the_other() -> None:
    rows = list(range(1, 400))
    plan = planned(rows, [1.0] * len(rows))
    np.testing.assert_array_equal(plan.given(plan.rows), rows)
    sources, numbers = plan.sources(0, plan.rows)
    for source in (0, 1, 57, 398):
        np.testing.assert_array_equal(numbers[sources == source], np.arange(rows[source]))


def test_sources_without_rows_are_passed_over() -> None:
    plan = planned([0, 5, 0], [1, 1, 1])
    assert plan.rows == 5
    assert plan.sources(0, 5)[0].tolist() == [1] * 5


def test_it_is_the_same_for_ever() -> None:
    sources, numbers = planned([10, 20, 5], [3, 2, 1]).sources(0, 35)
    assert "".join("abc"[source] for source in sources) == "abaabcababaacabbaabccbbbbcbbbbbbbbb"
    assert numbers[sources == 1].tolist() == list(range(20))
