"""Mixes of a program: every chain runs on the picture as it is there, and what they make is added by drawn shares."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import image_steps_oracle as oracle
import numpy as np
import pytest
from PIL import Image
from scipy import stats
from variates_oracle import mix_shares

from toolkit._native.image import program as image

Op = tuple[Any, ...]
FLIP = ("hflip", {"p": 1.0, "id": 1})
TURN = ("vflip", {"p": 0.5, "id": 2})
TONE = ("color_jitter", {"brightness": (0.5, 1.5), "contrast": (0.5, 1.5), "saturation": None, "hue": None, "id": 3})
SMALL = ("center_crop", {"height": 8, "width": 9, "halves": "even"})
GRAY = ("grayscale", {"channels": 1, "p": 1.0})


def mix(alpha: float, *chains: list[Op], step_id: int = 9) -> Op:
    """Return a mix of chains."""
    return ("mix", {"alpha": alpha, "id": step_id}, list(chains))


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    """Return pixels that tell every place apart."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


CHAINS: list[list[Op]] = [
    [mix(1.0, [FLIP])],
    [mix(0.3, [], [FLIP], [TONE, TURN])],
    [SMALL, mix(1.0, [TONE, TONE], [("maybe", {"limits": [0.5], "id": 4}, [[FLIP]])]), FLIP],
    [TONE, mix(2.5, [TURN], step_id=11), mix(1.0, [TONE, FLIP], [TURN], step_id=12), TONE],
    [("one_of", {"limits": [0.5, 1.0], "id": 5}, [[mix(1.0, [TONE], [TURN])], [FLIP]]), SMALL],
]


@pytest.mark.parametrize("ops", CHAINS)
def test_a_mix_is_what_the_oracle_makes_of_it(ops: list[Op]) -> None:
    scratch, program = image.Scratch(), image.ImageProgram(ops)
    assert program.random
    for key in range(12):
        pixels = noise(20 + key, 31, key)
        made = program.apply(pixels, scratch, key)
        expected = np.asarray(oracle.apply_ops(Image.fromarray(pixels), ops, key))
        assert np.array_equal(made, expected), key


def test_every_set_of_loops_mixes_alike() -> None:
    ops, pixels = [SMALL, mix(0.7, [TONE], [FLIP, TONE], [TURN])], noise(40, 50)
    made = {}
    for level in ("generic", "avx2", "avx512"):
        try:
            image._set_simd_level(level)
        except ValueError:
            continue
        made[level] = [image.ImageProgram(ops).apply(pixels, image.Scratch(), key).tobytes() for key in range(20)]
    image._set_simd_level("")
    assert all(each == made["generic"] for each in made.values())


# Of key 7: of picture and chains with alpha 1, of three chains with alpha 1, of two with alpha 0.1.
GOLDEN = (
    [0.9122047560632085, 0.08779524393679154],
    [0.0510512528311644, 0.2291900229860701, 0.7197587241827655],
    [4.905660409524289e-07, 0.9999995094339591],
)


def test_shares_are_golden() -> None:
    (own, rest), each = mix_shares(7, 1.0, 3)
    assert np.allclose([own, rest], GOLDEN[0], rtol=1e-12)
    assert np.allclose(each, GOLDEN[1], rtol=1e-12)
    assert np.allclose(mix_shares(7, 0.1, 2)[1], GOLDEN[2], rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 1.0, 4.0])
def test_shares_have_the_distributions(alpha: float) -> None:
    drawn = [mix_shares(key, alpha, 3) for key in range(4000)]
    of_picture = np.array([own for (own, _), _ in drawn])
    of_chains = np.array([each for _, each in drawn])
    assert np.allclose(of_chains.sum(1), 1)
    assert stats.kstest(of_picture, stats.beta(alpha, alpha).cdf).pvalue > 0.01
    for i in range(3):
        assert stats.kstest(of_chains[:, i], stats.beta(alpha, 2 * alpha).cdf).pvalue > 0.01
    assert abs(stats.spearmanr(of_picture, of_chains[:, 0]).statistic) < 0.05


@pytest.mark.parametrize(
    ("op", "words"),
    [
        (mix(0.0, [FLIP]), "step 1 (mix): alpha must be 0.001 to 1000, not 0.0"),
        (mix(math.nan, [FLIP]), "step 1 (mix): alpha must be"),
        (mix(1.0), "step 1 (mix): there must be 1 to 16 chains, not 0"),
        (mix(1.0, *[[FLIP]] * 17), "step 1 (mix): there must be 1 to 16 chains, not 17"),
        (mix(1.0, [FLIP], [mix(1.0, [FLIP])]), "step 1 (mix), chain 2, step 1 (mix): a mix can't lie in another mix"),
        (mix(1.0, [("blur", {})]), "step 1 (mix), chain 1, step 1: no step is called 'blur'"),
        (mix(1.0, [SMALL]), "step 1 (mix): chain 1 changes the size or the channels"),
        (mix(1.0, [GRAY]), "step 1 (mix): chain 1 changes the size or the channels"),
        (("mix", {"alpha": 1.0}, [[FLIP]]), "step 1 (mix): its fields must be alpha, id, not alpha"),
        (("mix", {"alpha": 1.0, "id": 1}), "step 1 (mix): it must be (name, fields, chains)"),
        (("mix", {"alpha": 1.0, "id": 1}, 3), "step 1 (mix): chains must be a list, not 3"),
        (mix(1.0, *[[FLIP] * 4] * 13), "66 steps are more than 64"),
    ],
)
def test_bad_mixes_are_named(op: Op, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        image.ImageProgram([op])


def test_a_chain_that_changes_an_open_size_fails_as_a_picture() -> None:
    program = image.ImageProgram([mix(1.0, [("pad", {"top": 1, "left": 2, "bottom": 0, "right": 0, "fill": 0})])])
    with pytest.raises(image.ImageError, match="chain of a mix makes 9 x 7 pixels of 7 x 6"):
        program.apply(noise(6, 7), image.Scratch(), 1)


def test_a_scratch_asks_for_the_memory_of_a_mix() -> None:
    asked: list[int] = []
    scratch = image.Scratch()
    scratch.limit = scratch.nbytes
    refuse: Callable[[int], str | None] = lambda nbytes: asked.append(nbytes)  # noqa: E731
    scratch.room = refuse
    pixels = noise(200, 300)
    made = image.ImageProgram([mix(1.0, [FLIP, TONE])]).apply(pixels, scratch, 1)
    assert made.shape == pixels.shape
    assert asked
    assert scratch.nbytes >= 200 * 300 * 4 * 4
