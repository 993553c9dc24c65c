"""Tables of policies hold what torchvision's and timm's do, entry by entry.

tests/golden/make_policies.py wrote what those hold.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from policy_golden import GOLDEN, SPACES, plain

from toolkit.pipelines.image.policies.operations import Sampling, Warping, at_bin, magnitudes
from toolkit.pipelines.image.policies.tables import (
    AUG_MIX,
    AUG_MIX_MORE,
    AUTO_AUGMENT,
    LEARNED,
    TIMM_DECREASING,
    TIMM_INCREASING,
    Bits,
    Even,
    Learned,
)

SIDE = 224


@pytest.mark.parametrize("which", GOLDEN["spaces"])
def test_every_magnitude_is_torchvisions(which: str) -> None:
    name, bins = which.split("/")
    assert [plain(word) for word in GOLDEN["spaces"][which]] == list(SPACES[name])
    for word, (values, signed) in GOLDEN["spaces"][which].items():
        scale = SPACES[name][plain(word)]
        if scale is None:
            assert (values, signed) == (0.0, False)
            continue
        ours = np.array(magnitudes(scale, int(bins)))
        if isinstance(scale, Bits):
            assert (ours.tolist(), signed) == (values, False)
            continue
        assert scale.signed == signed
        if scale.of_side:  # in float64 here
            assert np.allclose(ours * SIDE, values, rtol=1e-6)
        else:
            assert ours.tolist() == values, word


@pytest.mark.parametrize("which", GOLDEN["moved"])
def test_shares_of_a_side_are_torchvisions_whole_pixels(which: str) -> None:
    name, width = which.split("/")
    bins = GOLDEN["moved"][which]
    for number, pixels in enumerate(bins):
        (step,) = at_bin("translate_x", SPACES[name]["translate_x"], number, len(bins), Warping(Sampling.NEAREST, 0))
        low, high = step.magnitude  # type: ignore[attr-defined]
        assert low == high
        assert math.trunc(low * int(width)) == pixels


@pytest.mark.parametrize("policy", Learned)
def test_learned_pairs_are_torchvisions(policy: Learned) -> None:
    pairs = [[[plain(word), p, number or 0] for word, p, number in pair] for pair in GOLDEN["learned"][policy.value]]
    assert [[list(use) for use in pair] for pair in LEARNED[policy]] == pairs
    assert all(
        AUTO_AUGMENT[word] is not None
        for pair in GOLDEN["learned"][policy.value]
        for word, _, number in [(plain(word), p, number) for word, p, number in pair]
        if number is not None
    )


def test_timms_lists() -> None:
    assert [plain(word) for word in GOLDEN["timm"]["timm"]] == list(TIMM_INCREASING)
    assert [plain(word) for word in GOLDEN["timm"]["timm-decreasing"]] == list(TIMM_DECREASING)


def test_aug_mix_can_leave_out_four() -> None:
    assert set(AUG_MIX_MORE) - set(AUG_MIX) == {"brightness", "color", "contrast", "sharpness"}
    assert list(AUG_MIX_MORE)[: len(AUG_MIX)] == list(AUG_MIX)


def test_bins_end_where_the_table_says() -> None:
    for space in SPACES.values():
        for scale in space.values():
            if isinstance(scale, Even):
                made = magnitudes(scale, 7)
                assert np.allclose((made[0], made[-1]), (scale.first, scale.last))
            elif scale is not None:
                assert magnitudes(scale, 7)[0] == scale.most
                assert magnitudes(scale, 7)[-1] == scale.least
