"""A block of a mix is dealt as by a pure-Python scheduler, and no source is ever two rows from its share."""

from __future__ import annotations

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolkit._native.order.deal import deal
from toolkit.pipelines.randomness import fold

KEYS = st.integers(0, 2**64 - 1)
QUOTAS = st.lists(st.integers(0, 60), min_size=1, max_size=30)


def dealt(key: int, quotas: list[int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    sources, numbers = np.full(sum(quotas), -1, np.int32), np.full(sum(quotas), -1, np.int32)
    deal(key, np.array(quotas, np.int64), sources, numbers)
    return sources, numbers


def oracle(key: int, quotas: list[int]) -> list[int]:
    """At each row the source whose next row is due first, of those that may come already."""
    n = sum(quotas)
    coming: list[list[tuple[int, int, int]]] = [[] for _ in range(n)]
    for source, quota in enumerate(quotas):
        may = 0
        for k in range(quota):
            drawn = fold(fold(key, source), k)
            early, late, tie = drawn & 0xFFFFF, drawn >> 44, drawn >> 20 & 0xFFFFF
            if k:
                may = max(may, (k * n - (early * n >> 20)) // quota)
            due = min(n, (((k + 1 << 20) + late) * n // quota) >> 20)
            coming[may].append((due, tie, source))
    heap: list[tuple[int, int, int]] = []
    order = []
    for row in range(n):
        for one in coming[row]:
            heapq.heappush(heap, one)
        order.append(heapq.heappop(heap)[2])
    return order


@given(KEYS, QUOTAS)
def test_it_equals_the_pure_scheduler(key: int, quotas: list[int]) -> None:
    sources, numbers = dealt(key, quotas)
    assert sources.tolist() == oracle(key, quotas)
    seen = [0] * len(quotas)
    for source, number in zip(sources.tolist(), numbers.tolist(), strict=True):
        assert number == seen[source]
        seen[source] += 1
    assert seen == quotas


@given(KEYS, QUOTAS)
def test_no_source_is_two_rows_from_its_share(key: int, quotas: list[int]) -> None:
    sources, _ = dealt(key, quotas)
    n = len(sources)
    for source, quota in enumerate(quotas):
        given_rows = np.cumsum(sources == source)
        assert (np.abs(given_rows * n - quota * np.arange(1, n + 1)) <= 2 * n).all()


@pytest.mark.parametrize(
    "shares",
    [
        [0.7, *[0.0003] * 999],
        [1 / number for number in range(1, 1001)],
        [1.0] * 1000,
        [0.5, 0.3, *[0.001] * 200],
        [0.9997, 0.0003],
    ],
)
@pytest.mark.parametrize("key", [0, 1, 2**63])
def test_nor_with_a_thousand_sources_and_one_that_outweighs_them(shares: list[float], key: int) -> None:
    block = max(4096, 1 << int(np.ceil(np.log2(64 * sum(shares) / min(shares)))))
    quotas = [int(share / sum(shares) * block) for share in shares]
    quotas[0] += block - sum(quotas)
    sources, _ = dealt(key, quotas)
    rows = np.arange(1, block + 1)
    for source in {0, 1, 2, 7, len(shares) // 2, len(shares) - 1} & set(range(len(shares))):
        given_rows = np.cumsum(sources == source)
        assert np.abs(given_rows - quotas[source] / block * rows).max() <= 2


def test_keys_deal_otherwise_and_no_place_of_a_batch_is_a_source_s_own() -> None:
    quotas = [2048, 1024, 1024]
    first, second = dealt(1, quotas)[0], dealt(2, quotas)[0]
    assert (first != second).mean() > 0.2
    for place in range(8):
        found = np.bincount(first[place::8], minlength=3) / 512
        assert np.abs(found - [0.5, 0.25, 0.25]).max() < 0.15


def test_it_is_the_same_for_ever() -> None:
    sources, _ = dealt(12345, [5, 3, 1])
    assert sources.tolist() == [0, 0, 1, 1, 0, 0, 0, 1, 2]


@pytest.mark.parametrize(
    ("quotas", "rows", "said"),
    [
        ([3, 2], 4, "quotas of 5 rows for a block of 4"),
        ([-1, 2], 1, "a quota of -1 of 1 rows"),
        ([2**62, 2**62], 3, "a quota of 4611686018427387904 of 3 rows"),
        ([1], 2**20 + 1, "1048577 rows"),
    ],
)
def test_blocks_that_cannot_be(quotas: list[int], rows: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        deal(0, np.array(quotas, np.int64), np.empty(rows, np.int32), np.empty(rows, np.int32))
    with pytest.raises(ValueError, match="numbers must fit"):
        deal(0, np.ones(4, np.int64), np.empty(4, np.int32), np.empty(3, np.int32))


def test_blocks_of_nothing_and_of_one_source() -> None:
    assert dealt(0, [0])[0].tolist() == []
    assert dealt(0, [0, 7, 0])[0].tolist() == [1] * 7
