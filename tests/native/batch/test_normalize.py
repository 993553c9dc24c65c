"""Values normalised channel by channel equal numpy's, bit for bit, whatever the dtype and the order of axes."""

from __future__ import annotations

import numpy as np
import pytest
from encoded_numbers import decoded, encoded, raw, samples
from hypothesis import given
from hypothesis import strategies as st

from toolkit._native.batch.normalize import FLOATS, MAX_CHANNELS, normalize_floats, normalize_pixels

SIZES = st.one_of(st.integers(1, 40), st.sampled_from([1023, 1024, 1025, 2500]))


def per_value(of: np.ndarray, inner: int, count: int) -> np.ndarray:
    """What stands for each value's channel."""
    return np.resize(np.repeat(of, inner), count)


@pytest.mark.parametrize("name", FLOATS)
@given(channels=st.integers(1, MAX_CHANNELS), inner=SIZES, turns=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_floats_are_numpys(name: str, channels: int, inner: int, turns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = channels * inner * turns
    values, there = samples(name, (3, count), seed), rng.integers(0, 2, 3).astype(np.uint8)
    mean, std = rng.standard_normal(channels), rng.random(channels) + 0.1
    real = decoded(values, name)
    shifted = (real - per_value(mean, inner, count).astype(real.dtype)) / per_value(std, inner, count).astype(
        real.dtype
    )
    wanted = np.where(there[:, None] == 1, encoded(shifted, name), values)
    normalize_floats(raw(values), name, there, inner, mean, std)
    np.testing.assert_array_equal(raw(values), raw(wanted))


@given(channels=st.integers(1, MAX_CHANNELS), inner=SIZES, turns=st.integers(1, 5), seed=st.integers(0, 2**32))
def test_pixels_are_numpys(channels: int, inner: int, turns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = channels * inner * turns
    pixels, there = rng.integers(0, 256, (3, count), np.uint8), rng.integers(0, 2, 3).astype(np.uint8)
    scale, bias = rng.random((2, channels), np.float32)
    out = np.full((3, count), -7, np.float32)
    shifted = pixels.astype(np.float32) * per_value(scale, inner, count) + per_value(bias, inner, count)
    normalize_pixels(pixels.reshape(-1), out.reshape(-1), there, inner, scale, bias)
    np.testing.assert_array_equal(out, np.where(there[:, None] == 1, shifted, np.float32(-7)))


def test_what_can_not_be() -> None:
    there, one = np.ones(2, np.uint8), np.ones(3)
    with pytest.raises(ValueError, match="int8 isn't normalised"):
        normalize_floats(np.zeros(24, np.uint8), "int8", there, 1, one, one)
    with pytest.raises(ValueError, match="25 can't be dealt out to 8"):
        normalize_floats(np.zeros(25, np.uint8), "float32", there, 1, one, one)
    with pytest.raises(ValueError, match="4 values are no runs of 1 of 3 channels"):
        normalize_floats(np.zeros(32, np.uint8), "float32", there, 1, one, one)
    with pytest.raises(ValueError, match="3 values are no runs of 0"):
        normalize_floats(np.zeros(24, np.uint8), "float32", there, 0, one, one)
    with pytest.raises(ValueError, match="5 and 5 values are not one a channel"):
        normalize_floats(np.zeros(40, np.uint8), "float32", there, 1, np.ones(5), np.ones(5))
    scale = np.ones(1, np.float32)
    with pytest.raises(ValueError, match="4 pixels don't fit 3 values"):
        normalize_pixels(np.zeros(4, np.uint8), np.zeros(3, np.float32), there, 1, scale, scale)
    normalize_floats(np.zeros(0, np.uint8), "float32", np.ones(0, np.uint8), 1, one, one)
