"""The native permutation equals a pure-Python Feistel network, and is a permutation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit._native.order.permute import permute

MASK = 2**64 - 1
KEYS = st.integers(0, MASK)


def mix(x: int) -> int:
    """The finaliser of splitmix64."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


def oracle(n: int, key: int, x: int) -> int:
    """Twelve alternating Feistel rounds on the least power of two, 4 or more, that holds n; again until below n."""
    bits = max(2, (n - 1).bit_length())
    low_bits = bits // 2
    high_bits = bits - low_bits
    keys = [mix(key + (i + 1) * 0x9E3779B97F4A7C15 & MASK) for i in range(12)]
    while True:
        high, low = x >> low_bits, x & (1 << low_bits) - 1
        for i in range(0, 12, 2):
            high ^= mix(low ^ keys[i]) & (1 << high_bits) - 1
            low ^= mix(high ^ keys[i + 1]) & (1 << low_bits) - 1
        x = high << low_bits | low
        if x < n:
            return x


def permuted(n: int, key: int, positions: np.ndarray) -> np.ndarray:
    out = np.full(len(positions), -1, np.int64)
    permute(n, key, positions, out)
    return out


@given(st.integers(1, 2**62), KEYS, st.data())
def test_it_equals_the_oracle(n: int, key: int, data: st.DataObject) -> None:
    positions = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=8)), np.int64)
    assert permuted(n, key, positions).tolist() == [oracle(n, key, int(x)) for x in positions]


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 100, 1023, 1024, 1025, 65_537])
@pytest.mark.parametrize("key", [0, 1, MASK])
def test_every_position_occurs_once(n: int, key: int) -> None:
    got = permuted(n, key, np.arange(n, dtype=np.int64))
    assert np.array_equal(np.sort(got), np.arange(n))
    if n <= 1025:
        assert got.tolist() == [oracle(n, key, x) for x in range(n)]


def test_the_largest() -> None:
    n = 2**62
    positions = np.array([0, 1, n // 2, n - 1], np.int64)
    got = permuted(n, 7, positions)
    assert got.tolist() == [oracle(n, 7, int(x)) for x in positions]
    assert len(set(got.tolist())) == 4


def test_frozen_values() -> None:
    """Orders are part of what a seed means: they do not change."""
    assert permuted(10, 0, np.arange(10, dtype=np.int64)).tolist() == [0, 3, 4, 5, 7, 8, 9, 6, 2, 1]


def test_it_looks_random() -> None:
    """Displacements and neighbours are as of a random order: no bucket of 64 is five sigma away."""
    n = 64_000
    got = permuted(n, 12345, np.arange(n, dtype=np.int64))
    for values in ((got - np.arange(n)) % n, np.diff(got) % n):
        counts = np.bincount(values * 64 // n, minlength=64)
        assert np.abs(counts - n / 64).max() < 5 * np.sqrt(n / 64)


def test_other_keys_give_other_orders() -> None:
    orders = {tuple(permuted(50, key, np.arange(50, dtype=np.int64))) for key in range(200)}
    assert len(orders) == 200


def test_no_positions() -> None:
    assert permuted(5, 0, np.empty(0, np.int64)).tolist() == []


@pytest.mark.parametrize("n", [0, -1, 2**62 + 1])
def test_sizes_that_are_refused(n: int) -> None:
    with pytest.raises(ValueError, match="are possible"):
        permuted(n, 0, np.empty(0, np.int64))


@pytest.mark.parametrize("position", [-1, 5, 2**62])
def test_positions_that_are_refused(position: int) -> None:
    with pytest.raises(ValueError, match="lies outside"):
        permuted(5, 0, np.array([0, position], np.int64))


def test_an_output_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="places for"):
        permute(5, 0, np.zeros(2, np.int64), np.zeros(3, np.int64))


@pytest.mark.parametrize("key", [-1, 2**64])
def test_keys_that_are_refused(key: int) -> None:
    with pytest.raises(OverflowError):
        permuted(5, key, np.zeros(1, np.int64))
