from __future__ import annotations

import tracemalloc
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit._native.order.permute import permute
from toolkit.loader.order.order import BLOCK_SAMPLES, ORDER_VERSION, WINDOW_SAMPLES, Order, Shuffle, order_key

GOLDEN_10 = [8, 7, 0, 3, 2, 6, 4, 9, 5, 1]
GOLDEN_FAR = [84893897907, 552135159183, 124191732784]
GOLDEN_BLOCK_1000 = [661, 61, 245, 940, 817, 457, 46, 735, 688, 249, 187, 346]
GOLDEN_BLOCK_FAR = [663508630787, 159252914254, 237659472117, 104883652834]

SHUFFLES = st.sampled_from([Shuffle.FULL, Shuffle.BLOCK])


def rows(samples: int, seed: int, epoch: int, shuffle: Shuffle = Shuffle.FULL) -> list[int]:
    return Order(samples, shuffle, seed).rows(epoch, np.arange(samples, dtype=np.int64)).tolist()


def block_oracle(samples: int, seed: int, epoch: int) -> list[int]:
    """The block order with everything written out: the blocks in a list, and its windows permuted."""

    def permuted(values: list[int], *parts: int) -> list[int]:
        places = np.empty(len(values), np.int64)
        if values:
            permute(len(values), order_key(seed, epoch, *parts), np.arange(len(values), dtype=np.int64), places)
        return [values[place] for place in places]

    whole, short = divmod(samples, BLOCK_SAMPLES)
    blocks = [list(range(b * BLOCK_SAMPLES, (b + 1) * BLOCK_SAMPLES)) for b in permuted(list(range(whole)), 1)]
    if short:
        blocks.insert(permuted(list(range(whole + 1)), 2)[0], list(range(whole * BLOCK_SAMPLES, samples)))
    flat = [row for block in blocks for row in block]
    windows = [flat[start : start + WINDOW_SAMPLES] for start in range(0, samples, WINDOW_SAMPLES)]
    return [row for number, window in enumerate(windows) for row in permuted(window, 3, number)]


@settings(deadline=None)
@given(st.integers(1, 3000), st.integers(-(2**70), 2**70), st.integers(0, 2**40), SHUFFLES)
def test_every_epoch_is_a_permutation(samples: int, seed: int, epoch: int, shuffle: Shuffle) -> None:
    assert sorted(rows(samples, seed, epoch, shuffle)) == list(range(samples))


@settings(max_examples=12, deadline=None)
@given(
    st.one_of(
        st.integers(1, 600),
        st.integers(WINDOW_SAMPLES - 300, WINDOW_SAMPLES + 300),
        st.sampled_from([256, 512, 2 * WINDOW_SAMPLES, 2 * WINDOW_SAMPLES + 1]),
    ),
    st.integers(0, 100),
)
def test_the_block_order_is_the_written_out_one(samples: int, seed: int) -> None:
    assert rows(samples, seed, 1, Shuffle.BLOCK) == block_oracle(samples, seed, 1)


def test_none_keeps_the_stored_order() -> None:
    assert rows(100, 3, 5, Shuffle.NONE) == list(range(100))


def test_the_first_order_version_never_changes() -> None:
    # Golden: a change here silently reorders everybody's training. Make a new order version instead.
    assert ORDER_VERSION == 1
    assert (BLOCK_SAMPLES, WINDOW_SAMPLES) == (256, 16384)
    assert rows(10, 0, 0) == GOLDEN_10
    assert rows(1000, 0, 0, Shuffle.BLOCK)[:12] == GOLDEN_BLOCK_1000
    far = Order(10**12, Shuffle.FULL, 7).rows(3, np.array([0, 1, 10**12 - 1], np.int64))
    assert far.tolist() == GOLDEN_FAR
    odd = 10**12 + 100  # with a short block
    far = Order(odd, Shuffle.BLOCK, 7).rows(3, np.array([0, 1, 2**39, odd - 1], np.int64))
    assert far.tolist() == GOLDEN_BLOCK_FAR


@pytest.mark.parametrize("shuffle", [Shuffle.FULL, Shuffle.BLOCK])
def test_a_trillion_samples_take_no_memory(shuffle: Shuffle) -> None:
    order = Order(10**12 + 7, shuffle, 1)
    last = np.arange(10**12 + 7 - 256, 10**12 + 7, dtype=np.int64)
    tracemalloc.start()
    found = order.rows(10**6, last)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(set(found.tolist())) == 256
    assert found.min() >= 0
    assert found.max() < 10**12 + 7
    assert peak < 1 << 20


def test_seed_and_epoch_each_change_the_order() -> None:
    for shuffle in (Shuffle.FULL, Shuffle.BLOCK):
        base = rows(1000, 0, 0, shuffle)
        assert rows(1000, 1, 0, shuffle) != base
        assert rows(1000, 0, 1, shuffle) != base
        assert rows(1000, 0, 1, shuffle) != rows(1000, 1, 0, shuffle)


@pytest.mark.parametrize("shuffle", list(Shuffle))
def test_positions_may_be_asked_in_any_pieces(shuffle: Shuffle) -> None:
    order = Order(40_001, shuffle, 1)
    whole = order.rows(0, np.arange(40_001, dtype=np.int64))
    some = np.array([5, 40_000, 0, 5, 16_384, 16_383], np.int64)
    assert order.rows(0, some).tolist() == whole[some].tolist()
    assert order.rows(0, some[:0]).tolist() == []


def test_a_window_of_the_block_order_reads_few_blocks() -> None:
    order = Order(10**6, Shuffle.BLOCK, 0)
    for window in (0, 3, 60):
        positions = np.arange(window * WINDOW_SAMPLES, (window + 1) * WINDOW_SAMPLES, dtype=np.int64)
        assert len(set((order.rows(0, positions) // BLOCK_SAMPLES).tolist())) <= 66


def chi_square_is_plausible(counts: np.ndarray, expected: float) -> bool:
    """Within five standard deviations of a chi-square's mean, both ways: fixed seeds, so never flaky."""
    chi_square = float(((counts - expected) ** 2 / expected).sum())
    degrees = counts.size - 1
    return abs(chi_square - degrees) < 5 * np.sqrt(2 * degrees) + 5


@pytest.mark.parametrize("samples", [2, 3, 5, 16, 100])
@pytest.mark.parametrize("shuffle", [Shuffle.FULL, Shuffle.BLOCK])
def test_each_sample_comes_first_equally_often(samples: int, shuffle: Shuffle) -> None:
    epochs = 400 * samples
    first = [int(Order(samples, shuffle, 9).rows(e, np.zeros(1, np.int64))[0]) for e in range(epochs)]
    assert chi_square_is_plausible(np.bincount(first, minlength=samples), 400)


@pytest.mark.parametrize("shuffle", [Shuffle.FULL, Shuffle.BLOCK])
def test_every_permutation_of_four_is_equally_likely(shuffle: Shuffle) -> None:
    seen = Counter(tuple(rows(4, seed, 0, shuffle)) for seed in range(4800))
    assert len(seen) == 24
    assert chi_square_is_plausible(np.array(list(seen.values())), 200)


def test_blocks_come_at_every_place_equally_often() -> None:
    # 70 whole blocks and a short one: more than a window. Where each first sample goes, by window and by block.
    samples = 70 * BLOCK_SAMPLES + 100
    places = np.zeros((2, 71), np.int64)
    for seed in range(1500):
        order = Order(samples, Shuffle.BLOCK, seed).rows(0, np.array([0, samples - 1], np.int64))
        for i, row in enumerate(order // BLOCK_SAMPLES):
            places[i, row] += 1
    for counts in places:
        # The short block holds 100 samples of 256: it is hit less often.
        weight = np.append(np.full(70, 256.0), 100.0) / samples
        chi_square = float(((counts - 1500 * weight) ** 2 / (1500 * weight)).sum())
        assert abs(chi_square - 70) < 5 * np.sqrt(140)


def test_neighbours_do_not_stay_neighbours() -> None:
    pairs = sum(int((np.abs(np.diff(rows(2000, seed, 0))) == 1).sum()) for seed in range(50))
    assert abs(pairs - 50 * 2) < 5 * np.sqrt(100)  # two in a permutation of any size: 2 (n - 1) / n
