"""Blends and swaps in place equal numpy's, bit for bit, whatever the dtype, and what can't be is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from encoded_numbers import decoded, encoded, raw, samples
from hypothesis import given
from hypothesis import strategies as st

from toolkit._native.batch.mix import BLENDED, blend, swap_boxes


def blended(values: np.ndarray, name: str, pairs: np.ndarray, shares: np.ndarray) -> np.ndarray:
    out = values.copy()
    real = decoded(values, name)
    for (a, b), share in zip(pairs, shares, strict=True):
        keep, rest = real.dtype.type(share), real.dtype.type(np.float32(1) - share)
        for one, other in ((a, b), (b, a)):
            with np.errstate(all="ignore"):
                out[one] = encoded(real[one] * keep + real[other] * rest, name)
    return out


@pytest.mark.parametrize("name", BLENDED)
@given(size=st.integers(1, 130), count=st.integers(0, 5), seed=st.integers(0, 2**32))
def test_a_blend_is_numpys(name: str, size: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = samples(name, (11, size), seed)
    pairs = rng.permutation(11)[: 2 * count].reshape(-1, 2)
    shares = rng.random(count, np.float32) if seed % 3 else np.array([0, 1, 0.5, 1e-8, 0.25], np.float32)[:count]
    wanted = blended(values, name, pairs, shares)
    blend(raw(values), values[0].nbytes, name, pairs, shares)
    np.testing.assert_array_equal(raw(values), raw(wanted))


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_every_half_keeps_its_value(name: str) -> None:
    bits = np.arange(1 << 16, dtype=np.uint16)
    values = np.stack((bits, bits))
    blend(raw(values), values[0].nbytes, name, np.array([[0, 1]]), np.array([1], np.float32))
    wanted = decoded(bits if name == "bfloat16" else bits.view(np.float16), name)
    wanted[np.isinf(wanted)] = np.nan  # infinity times 0 of the other
    got = values[0] if name == "bfloat16" else values[0].view(np.float16)
    np.testing.assert_array_equal(decoded(got, name), wanted)


@given(
    planes=st.integers(1, 3),
    height=st.integers(1, 9),
    width=st.integers(1, 9),
    pixel=st.sampled_from([1, 3, 4, 6000]),
    seed=st.integers(0, 2**32),
)
def test_a_swap_is_numpys(planes: int, height: int, width: int, pixel: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 256, (6, planes, height, width, pixel), np.uint8)
    pairs = rng.permutation(6)[:4].reshape(-1, 2)
    rows, columns = np.sort(rng.integers(0, height + 1, (2, 2))), np.sort(rng.integers(0, width + 1, (2, 2)))
    wanted = values.copy()
    for (a, b), (top, bottom), (left, right) in zip(pairs, rows, columns, strict=True):
        box = (slice(None), slice(top, bottom), slice(left, right))
        wanted[a][box], wanted[b][box] = values[b][box], values[a][box]
    swap_boxes(raw(values), planes, height, width, pixel, pairs, np.concatenate((rows, columns), axis=1))
    np.testing.assert_array_equal(values, wanted)


VALUES = np.zeros(4 * 12, np.uint8)
PAIR, SHARE, BOX = np.array([[0, 1]]), np.array([0.5], np.float32), np.array([[0, 1, 0, 1]])


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: blend(VALUES, 12, "int8", PAIR, SHARE), "int8 can't be blended"),
        (lambda: blend(VALUES, 11, "uint8", PAIR, SHARE), "48 bytes are no samples of 11"),
        (lambda: blend(VALUES, 0, "uint8", PAIR, SHARE), "no samples of 0"),
        (lambda: blend(VALUES, 12, "float64", PAIR, SHARE), "12 bytes are no whole number of float64"),
        (lambda: blend(VALUES, 12, "uint8", np.array([[0, 4]]), SHARE), "pair 0 is not two of 4 samples"),
        (lambda: blend(VALUES, 12, "uint8", np.array([[2, 2]]), SHARE), "pair 0 is not two of 4 samples"),
        (lambda: blend(VALUES, 12, "uint8", np.array([[-1, 2]]), SHARE), "pair 0 is not two of 4 samples"),
        (lambda: blend(VALUES, 12, "uint8", np.array([[0, 1, 2]]), SHARE), "a pair is two samples"),
        (lambda: blend(VALUES, 12, "uint8", PAIR, SHARE[:0]), "0 shares for 1 pairs"),
        (lambda: swap_boxes(VALUES, 1, 3, 4, 1, PAIR, np.array([[0, 4, 0, 1]])), "box 0 doesn't lie in 3 x 4"),
        (lambda: swap_boxes(VALUES, 1, 3, 4, 1, PAIR, np.array([[2, 1, 0, 1]])), "box 0 doesn't lie in 3 x 4"),
        (lambda: swap_boxes(VALUES, 1, 3, 4, 1, PAIR, BOX[:, :3]), "as many boxes of four sides"),
        (lambda: swap_boxes(VALUES, 0, 3, 4, 1, PAIR, BOX), "no picture has 0 planes"),
        (lambda: swap_boxes(VALUES, 1 << 31, 1 << 31, 1 << 31, 1 << 31, PAIR, BOX), "too large"),
    ],
)
def test_what_can_not_be_is_refused(call: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call()


def test_nothing_is_nothing() -> None:
    none = np.zeros((0, 2), np.int64)
    blend(np.zeros(0, np.uint8), 12, "uint8", none, SHARE[:0])
    swap_boxes(np.zeros(0, np.uint8), 1, 3, 4, 1, none, np.zeros((0, 4), np.int64))
