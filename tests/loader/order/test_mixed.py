"""The order of a mix is what its plan and its sources' own orders say, one row at a time."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit._native.order.mixed import permute_sources
from toolkit.loader.order.mix import Exhausted, MixPlan
from toolkit.loader.order.mixed import MixedOrder, Source
from toolkit.loader.order.order import Order, Shuffle, seed_key

SOURCES = st.lists(st.tuples(st.integers(1, 3000), st.integers(1, 50), st.integers(0, 2**70)), min_size=1, max_size=6)


def expected(sources: list[Source], plan: MixPlan, epoch: int | None, first: int, count: int) -> list[int]:
    """Return the rows of positions of the plan: `epoch` is that of every source, or None where they begin anew."""
    rows = []
    for source, number in zip(*(one.tolist() for one in plan.sources(first, count)), strict=True):
        order = sources[source].order
        begun, place = divmod(number, order.samples)
        own = begun if epoch is None else epoch
        rows.append(sources[source].first + int(order.rows(own, np.array([place], np.int64))[0]))
    return rows


@settings(max_examples=30, deadline=None)
@given(SOURCES, st.sampled_from(list(Shuffle)), st.sampled_from(list(Exhausted)), st.integers(0, 3), st.data())
def test_rows_are_those_of_each_source_s_own_order(
    given_sources: list[tuple[int, int, int]],
    shuffle: Shuffle,
    exhausted: Exhausted,
    epoch: int,
    data: st.DataObject,
) -> None:
    sizes, weights, seeds = map(list, zip(*given_sources, strict=True))
    firsts = np.cumsum([7, *sizes])[:-1].tolist()
    sources = [
        Source(Order(size, shuffle, seed), first) for size, seed, first in zip(sizes, seeds, firsts, strict=True)
    ]
    plan = MixPlan(sizes, weights, 5, exhausted)
    repeats = exhausted is Exhausted.REPEAT
    samples = data.draw(st.integers(1, 10_000)) if repeats else plan.rows
    order = MixedOrder(sources, plan, "mix", samples if repeats else None)
    assert order.samples == samples
    first = data.draw(st.integers(0, samples - 1))
    count = data.draw(st.integers(0, min(40, samples - first)))
    positions = np.arange(first, first + count, dtype=np.int64)
    wanted = expected(sources, plan, None if repeats else epoch, first + epoch * samples * repeats, count)
    assert order.rows(epoch, positions).tolist() == wanted
    assert pickle.loads(pickle.dumps(order)).rows(epoch, positions[::-1]).tolist() == wanted[::-1]


def test_positions_of_many_stretches() -> None:
    sources = [Source(Order(9000, Shuffle.FULL, 1), 0), Source(Order(4000, Shuffle.FULL, 2), 9000)]
    order = MixedOrder(sources, MixPlan([9000, 4000], [2, 1], 0, Exhausted.CONTINUE), "mix")
    rows = order.rows(0, np.arange(13_000, dtype=np.int64))
    assert np.sort(rows).tolist() == list(range(13_000))
    some = np.array([12_999, 0, 5000, 4095, 4096], np.int64)
    np.testing.assert_array_equal(order.rows(0, some), rows[some])


def native(epoch: int, sources: list[int], numbers: list[int], size: int = 10, places: int | None = None) -> list[int]:
    out = np.empty(len(numbers) if places is None else places, np.int64)
    arrays = np.array([size, size], np.int64), np.array([seed_key(3), seed_key(4)], np.uint64)
    firsts = np.array([0, size], np.int64)
    permute_sources(*arrays, firsts, epoch, np.array(sources, np.int64), np.array(numbers, np.int64), out)
    return out.tolist()


def test_numbers_may_go_back_to_an_epoch_before() -> None:
    there = native(-1, [0, 0, 1, 0], [3, 13, 3, 3])
    orders = [Order(10, Shuffle.FULL, 3), Order(10, Shuffle.FULL, 4)]
    three = np.array([3], np.int64)
    assert there == [
        int(orders[0].rows(0, three)[0]),
        int(orders[0].rows(1, three)[0]),
        10 + int(orders[1].rows(0, three)[0]),
        there[0],
    ]
    assert native(-1, [], []) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sources": [2]}, "source 2 lies outside"),
        ({"sources": [-1]}, "source -1 lies outside"),
        ({"numbers": [-1]}, "number -1"),
        ({"epoch": -2}, "epoch -2"),
        ({"size": 0}, "1 to 2.*62 are possible"),
        ({"places": 2}, "2 places"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        native(**({"epoch": 0, "sources": [0], "numbers": [0]} | change))  # type: ignore[arg-type]
