from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from toolkit._native.order.hashes import hash_numbers, hash_values

SEEDS = st.integers(0, 2**64 - 1)


@given(values=st.lists(st.binary(max_size=100), max_size=20), seed=SEEDS, wide=st.booleans())
def test_values_are_hashed_as_xxhash_does(values: list[bytes], seed: int, wide: bool) -> None:
    offsets = np.cumsum([0, *map(len, values)]).astype(np.int64 if wide else np.int32)
    out = np.empty(len(values), np.uint64)
    hash_values(offsets, np.frombuffer(b"".join(values), np.uint8), seed, out)
    assert out.tolist() == [xxhash.xxh64_intdigest(value, seed) for value in values]


@given(values=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20), seed=SEEDS)
def test_numbers_are_hashed_by_their_eight_bytes(values: list[int], seed: int) -> None:
    out = np.empty(len(values), np.uint64)
    hash_numbers(np.array(values, np.int64), seed, out)
    assert out.tolist() == [xxhash.xxh64_intdigest(np.int64(value).tobytes(), seed) for value in values]


@pytest.mark.parametrize("offsets", [[0], [0, 1, 2], [0, 4], [-1, 0], [2, 1]], ids=str)
def test_offsets_that_lead_elsewhere_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="offsets"):
        hash_values(np.array(offsets, np.int32), np.zeros(3, np.uint8), 0, np.empty(1, np.uint64))
    with pytest.raises(ValueError, match="places"):
        hash_numbers(np.zeros(2, np.int64), 0, np.empty(1, np.uint64))
