from __future__ import annotations

import numpy as np
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.pipelines.randomness import (
    RANDOM_VERSION,
    batch_key,
    draw,
    fold,
    fold_all,
    generator,
    sample_keys,
    step_id,
    step_keys,
)


def test_the_first_generator_version_never_changes() -> None:
    # Golden: a change here silently changes everybody's augmentations. Make a new generator version instead.
    assert RANDOM_VERSION == 1
    assert fold(0, 0) == 0xE220A8397B1DCDAF  # splitmix64's first output from state 0
    keys = sample_keys(7, 3, "", np.array([0, 1, 10**12], np.int64))
    assert keys.tolist() == [3005955901114666405, 6561063552512432351, 8286170615490786424]
    assert step_keys(keys, step_id("HFlip", 0)).tolist()[0] == 11310272297673488726
    assert draw(int(keys[0]), 0) == 0.5671665487871891
    assert int(generator(5).integers(1 << 63)) == 6767611927603349064
    assert batch_key(7, 3, 0, 64) == 5126986528410254575


@settings(deadline=None)
@given(st.integers(-(2**70), 2**70), st.integers(0, 2**40), st.text(max_size=5), st.lists(st.integers(0, 2**62)))
def test_arrays_of_keys_are_the_scalars(seed: int, epoch: int, group: str, positions: list[int]) -> None:
    keys = sample_keys(seed, epoch, group, np.array(positions, np.int64))
    text = xxhash.xxh3_64_intdigest(group.encode())
    assert keys.tolist() == [fold_all(RANDOM_VERSION, seed, epoch, text, position) for position in positions]
    step = step_id("RandomCrop", 2)
    assert step_keys(keys, step).tolist() == [fold(int(key), step) for key in keys]


@settings(deadline=None)
@given(st.integers(0, 2**64 - 1))
def test_draws_are_in_the_unit_interval(key: int) -> None:
    assert all(0 <= draw(key, number) < 1 for number in range(20))


def test_draws_are_even_and_steps_independent() -> None:
    keys = sample_keys(0, 0, "", np.arange(4000, dtype=np.int64))
    one, other = (np.array([draw(int(key), 0) for key in step_keys(keys, step_id("HFlip", n))]) for n in (0, 1))
    for draws in (one, other):
        counts = np.histogram(draws, 20, (0, 1))[0]
        assert ((counts - 200) ** 2 / 200).sum() < 19 + 5 * np.sqrt(38) + 5
    assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(4000)
