"""Policies: what they draw, by which distributions, and what becomes of a picture; and what they refuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from image_slots import compiled
from PIL import Image
from policy_oracle import Leaf, apply_policy, drawn_chains, drawn_leaves, key_of, magnitude_of
from policy_picture import policy_picture
from scipy import stats
from tone_oracle import to_gray
from variates_oracle import draw, mix_shares

import toolkit
from toolkit import chain, slot
from toolkit._native.image.program import Scratch
from toolkit.errors import PipelineError
from toolkit.pipelines.image.policies.aug_mix import AugMix
from toolkit.pipelines.state import State, ValueKind

KEYS = 4000
POLICIES = [
    chain().rand_augment(),
    chain().rand_augment(3, 30, filter="bilinear", fill=(1, 20, 200)),
    chain().rand_augment(2, 4, num_magnitude_bins=10, p=0.7, filter="random"),
    chain().rand_augment(2, 9, ops="timm", magnitude_std=0.5),
    chain().rand_augment(4, 6.5, ops="timm-decreasing", magnitude_std=3.0, p=1.0, filter="nearest", fill=9),
    chain().rand_augment(1, 10, ops="timm", filter="bicubic"),
    chain().auto_augment(),
    chain().auto_augment("cifar10", filter="bicubic", fill=128),
    chain().auto_augment("svhn"),
    chain().trivial_augment_wide(),
    chain().trivial_augment_wide(7, filter="bilinear", fill=(9, 8, 7)),
    chain().aug_mix(),
    chain().aug_mix(10, 2, 2, 0.4, filter="nearest", fill=255),
    chain().aug_mix(1, 5, all_ops=False),
]


def policy_of(made: toolkit.Chain) -> Any:
    return made.steps[0]


@pytest.mark.parametrize("made", POLICIES, ids=repr)
def test_a_policy_is_what_pil_makes_of_its_draws(made: toolkit.Chain) -> None:
    program, scratch = compiled(*made.steps), Scratch()
    assert program.random
    for key in range(60):
        image = policy_picture(61 + key % 3, 47)
        got = program.apply(np.asarray(image), scratch, key)
        check(made, got, apply_policy(image, policy_of(made), key))


def check(made: toolkit.Chain, got: np.ndarray, wanted: Image.Image) -> None:
    """Check a picture: a bilinear value may be one level off, and what comes behind may then carry it further."""
    off = np.abs(got.astype(np.int16) - np.asarray(wanted).reshape(got.shape))
    if policy_of(made).warping.sampling.value == "nearest":
        assert off.max() == 0
    else:
        assert (off <= 1).mean() > 0.98
        assert off.mean() < 0.2


@pytest.mark.parametrize("made", [POLICIES[i] for i in (0, 2, 4, 6, 9, 11)], ids=repr)
def test_gray_pictures_pass_too(made: toolkit.Chain) -> None:
    program = compiled(*made.steps, mode="L")
    for key in range(40):
        image = to_gray(policy_picture(61, 40 + key))
        got = program.apply(np.asarray(image)[:, :, None].copy(), Scratch(), key)
        check(made, got, apply_policy(image, policy_of(made), key))


def test_three_augment_takes_one_of_three() -> None:
    made = chain().three_augment()
    image = policy_picture()
    program = compiled(*made.steps)
    found: Counter[str] = Counter()
    for key in range(KEYS):
        ((step, _),) = drawn_leaves(made.steps, key)
        found[type(step).__name__] += 1
        if key < 60 and type(step).__name__ != "GaussianBlur":
            got = program.apply(np.asarray(image), Scratch(), key)
            assert np.array_equal(got, np.asarray(apply_policy(image, policy_of(made), key)))
    assert set(found) == {"Grayscale", "Solarize", "GaussianBlur"}
    assert is_even(found)


# --- distributions ---------------------------------------------------------------------------------------------------


def is_even(found: Counter[Any], weights: dict[Any, float] | None = None) -> bool:
    """Whether counts are as likely as those of a fair draw."""
    names = sorted(found, key=str)
    shares = None if weights is None else np.array([weights[name] for name in names])
    wanted = None if shares is None else shares / shares.sum() * sum(found.values())
    return bool(stats.chisquare([found[name] for name in names], wanted).pvalue > 0.005)


def kind(leaf: Leaf) -> str:
    return type(leaf[0]).__name__


def test_rand_augment_draws_each_operation_alike_and_either_sign() -> None:
    made = chain().rand_augment(2, 9)
    runs = [drawn_leaves(made.steps, key) for key in range(KEYS)]
    found = Counter(kind(leaf) for run in runs for leaf in run)
    found["Identity"] = 2 * KEYS - found.total()
    assert len(found) == 14
    assert is_even(found)
    pairs = Counter((kind(run[0]), kind(run[1])) for run in runs if len(run) == 2)
    assert len(pairs) == 13 * 13
    assert is_even(pairs)
    turns = Counter(magnitude_of(leaf) for run in runs for leaf in run if kind(leaf) == "Rotate")
    assert sorted(turns) == [-9.0, 9.0]
    assert is_even(turns)
    factors = Counter(magnitude_of(leaf) for run in runs for leaf in run if kind(leaf) == "Sharpness")
    assert np.allclose(sorted(factors), [0.73, 1.27])
    assert is_even(factors)


def test_timms_levels_are_normal_and_half_of_the_operations_run() -> None:
    made = chain().rand_augment(2, 5, ops="timm", magnitude_std=0.5)
    runs = [drawn_leaves(made.steps, key) for key in range(3 * KEYS)]
    assert stats.binomtest(sum(map(len, runs)), 6 * KEYS, 0.5).pvalue > 0.01
    found = Counter(kind(leaf) for run in runs for leaf in run)
    assert len(found) == 15
    assert is_even(found)
    turns = np.array([magnitude_of(leaf) for run in runs for leaf in run if kind(leaf) == "Rotate"])
    assert stats.kstest(np.abs(turns) / 3, stats.norm(5, 0.5).cdf).pvalue > 0.01
    assert stats.binomtest(int((turns > 0).sum()), len(turns)).pvalue > 0.01
    filters = Counter(leaf[0].filter.value for run in runs for leaf in run if kind(leaf) == "ShearX")  # type: ignore[attr-defined]
    assert set(filters) == {"bilinear", "bicubic"}
    assert is_even(filters)
    thresholds = Counter(magnitude_of(leaf) for run in runs for leaf in run if kind(leaf) == "Posterize")
    assert set(thresholds) <= {1.0, 2.0, 3.0}  # of levels around 5: 4 - int(0.4 * level)


def test_auto_augment_draws_pairs_alike_and_each_by_its_probability() -> None:
    made = chain().auto_augment("svhn")
    policy = policy_of(made)
    (branch,) = policy.ways[0]
    ways = Counter(
        next(i for i, limit in enumerate(branch.limits_of_ways) if u < limit)
        for u in (first_draw(key, "AutoAugment#0/OneOf#0") for key in range(KEYS))
    )
    assert len(ways) == 25
    assert is_even(ways)
    wanted = sum(step.p for way in branch.ways for step in way) / 25
    runs = sum(len(drawn_leaves(made.steps, key)) for key in range(KEYS))
    assert abs(runs / KEYS - wanted) < 0.03


def first_draw(key: int, name: str) -> float:
    return draw(key_of(key, name), 0)


def test_trivial_augment_draws_every_bin_alike() -> None:
    made = chain().trivial_augment_wide()
    leaves = [leaf for key in range(3 * KEYS) for leaf in drawn_leaves(made.steps, key)]
    found = Counter(map(kind, leaves))
    found["Identity"] = 3 * KEYS - len(leaves)
    assert len(found) == 14
    assert is_even(found)
    turns = Counter(round(abs(magnitude_of(leaf)) / 4.5) for leaf in leaves if kind(leaf) == "Rotate")
    assert sorted(turns) == list(range(31))
    assert is_even(turns)
    bits = Counter(int(magnitude_of(leaf)) for leaf in leaves if kind(leaf) == "Posterize")
    assert is_even(bits, {8: 3, 7: 5, 6: 5, 5: 5, 4: 5, 3: 5, 2: 3})


def test_aug_mix_draws_depths_operations_and_shares() -> None:
    made = chain().aug_mix(alpha=0.5)
    runs = [drawn_chains(policy_of(made), key) for key in range(KEYS)]
    for place in range(3):
        assert is_even(Counter(len(run[place]) for run in runs))
    assert {len(each) for run in runs for each in run} == {1, 2, 3}
    found = Counter(kind(leaf) for run in runs for each in run for leaf in each)
    assert len(found) == 13
    assert is_even(found)
    thresholds = Counter(
        magnitude_of(leaf) for run in runs for each in run for leaf in each if kind(leaf) == "Solarize"
    )
    assert len(thresholds) == 3
    assert is_even(thresholds)
    shares = [mix_shares(key_of(key, "AugMix#0"), 0.5, 3) for key in range(KEYS)]
    assert stats.kstest([own for (own, _), _ in shares], stats.beta(0.5, 0.5).cdf).pvalue > 0.01
    assert stats.kstest([each[2] for _, each in shares], stats.beta(0.5, 1.0).cdf).pvalue > 0.01


# Of POLICIES, in their order.
GOLDEN = [
    (
        "posterize 7 | shear_y 0.09 contrast 0.73 | saturation 0.73 | sharpness 1.27 translate_y -0.136 | "
        "shear_x 0.09 posterize 7"
    ),
    (
        "posterize 4 rotate -30 | shear_y 0.3 contrast 0.1 shear_x -0.3 | saturation 0.1 autocontrast 0 | "
        "sharpness 1.9 translate_y -0.4532 saturation 1.9 | shear_x 0.3 posterize 4 posterize 4"
    ),
    ("posterize 6 |  | saturation 0.6 |  | posterize 6"),
    (" | brightness 1.838 |  | solarize 6 | sharpness 0.1575"),
    (
        "autocontrast 0 shear_x 0.1142 solarize 172 translate_x -0.4154 | invert 0 brightness 0.4289 "
        "equalize 0 invert 0 | autocontrast 0 contrast 1.022 translate_x 0.1417 translate_x 0.2885 | "
        "sharpness 0.1 solarize 238 contrast 0.976 equalize 0 | equalize 0 sharpness 1.221 shear_x -0.2431 "
        "saturation 1.44"
    ),
    (" |  |  |  |"),
    ("saturation 1 equalize 0 | rotate 26.67 | equalize 0 | rotate -26.67 saturation 1 | equalize 0 equalize 0"),
    (
        "brightness 0.7 saturation 1 |  | autocontrast 0 | saturation 1.7 translate_x 0.4028 | translate_y "
        "0.4532 autocontrast 0"
    ),
    (
        "shear_x -0.2 invert 0 | shear_x 0.1333 autocontrast 0 | translate_x 0.1511 | shear_x -0.1333 | "
        "shear_x 0.06667 invert 0"
    ),
    ("translate_x 28.8 | translate_y 6.4 |  |  | contrast 0.901"),
    ("translate_x -32 | translate_y -5.333 |  |  | contrast 1"),
    (
        "translate_x 0.03704 sharpness 1.1 shear_y -0.03333 brightness 1 contrast 1 shear_x 0.03333 | "
        "translate_x 0.03704 brightness 0.8 brightness 0.8 contrast 1 | shear_x -0.03333 shear_y -0.03333 "
        "rotate -3.333 autocontrast 0 equalize 0 posterize 4 translate_x 0 | sharpness 1 posterize 3 shear_y "
        "-0.03333 translate_y -0.07407 equalize 0 posterize 4 | brightness 1 sharpness 1 solarize 255 "
        "autocontrast 0 solarize 198.3 rotate -6.667 shear_x 0.03333 solarize 255"
    ),
    (
        "translate_x 0.1111 equalize 0 shear_y -0.1333 saturation 1 | translate_x 0.1852 posterize 4 "
        "brightness 0.1 translate_y 0.3333 | shear_x -0.1667 autocontrast 0 rotate -13.33 shear_y -0.03333 | "
        "sharpness 1.2 shear_x 0.2333 translate_y 0.2593 shear_y 0.2333 | brightness 0.7 autocontrast 0 "
        "autocontrast 0 autocontrast 0"
    ),
    (
        "shear_y -0 equalize 0 shear_y -0 solarize 255 autocontrast 0 shear_x -0 solarize 255 autocontrast 0 "
        "autocontrast 0 | shear_y 0 solarize 255 solarize 255 equalize 0 translate_y 0 autocontrast 0 "
        "autocontrast 0 autocontrast 0 posterize 4 | shear_x -0 shear_y -0 translate_y -0 posterize 4 "
        "solarize 255 translate_y 0 shear_y -0 equalize 0 autocontrast 0 translate_y -0 autocontrast 0 "
        "posterize 4 shear_y 0 | equalize 0 translate_y 0 shear_y 0 translate_x -0 posterize 4 rotate 0 "
        "translate_y -0 solarize 255 posterize 4 translate_y -0 | solarize 255 equalize 0 rotate -0 "
        "posterize 4 rotate -0 translate_y 0 shear_x 0 rotate 0 translate_y -0 autocontrast 0 shear_y -0 "
        "shear_x 0"
    ),
]


def drawn_text(made: toolkit.Chain, key: int) -> str:
    """Return what a policy draws, in words: rotate -9 sharpness 1.27."""
    policy = policy_of(made)
    chains = drawn_chains(policy, key) if isinstance(policy, AugMix) else [drawn_leaves(made.steps, key)]
    leaves = [leaf for each in chains for leaf in each]
    return " ".join(f"{leaf[0].word} {amount(leaf):.4g}" for leaf in leaves)


def amount(leaf: Leaf) -> float:
    return 0.0 if leaf[0].word in ("autocontrast", "equalize", "invert") else magnitude_of(leaf, (1, 1))


@pytest.mark.parametrize("made", POLICIES, ids=repr)
def test_draws_are_golden(made: toolkit.Chain) -> None:
    """They are what test_a_policy_is_what_pil_makes_of_its_draws finds in pictures, and must never change."""
    assert " | ".join(drawn_text(made, key) for key in range(5)).split() == GOLDEN[POLICIES.index(made)].split()


# --- what they say ---------------------------------------------------------------------------------------------------


def one(made: toolkit.Chain) -> toolkit.Slot:
    return slot("image").decode_image().then(made)


def test_describe_follows_the_policy_and_its_arguments() -> None:
    described = {toolkit.pipeline(one(made)).describe() for made in POLICIES}
    assert len(described) == len(POLICIES)
    assert (
        toolkit.pipeline(one(chain().rand_augment(2, 9.0))).describe()
        == toolkit.pipeline(one(chain().rand_augment())).describe()
    )


def test_sizes_stay() -> None:
    for made in [*POLICIES, chain().three_augment()]:
        states = one(chain().center_crop((8, 9)).then(made)).states(State(ValueKind.STORED))
        assert states[-1] == states[-2]
        assert compiled(*chain().center_crop((8, 9)).then(made).steps).shape == (8, 9, 3)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (
            lambda: chain().auto_augment("imagnet"),
            "policy must be one of imagenet, cifar10, svhn, .*Did you mean 'imagenet'",
        ),
        (lambda: chain().auto_augment(3), "policy must be one of"),
        (lambda: chain().rand_augment(ops="tim"), "ops must be one of torchvision, .*Did you mean 'timm'"),
        (lambda: chain().rand_augment(0), "num_ops must be an int in 1..32, got 0"),
        (lambda: chain().rand_augment(2, 31), "magnitude must be a bin, an int in 0..30, got 31"),
        (lambda: chain().rand_augment(2, 10, num_magnitude_bins=10), "magnitude must be a bin, an int in 0..9"),
        (lambda: chain().rand_augment(2, 8.5), "magnitude must be a bin"),
        (lambda: chain().rand_augment(2, -1), "magnitude must be 0 or more"),
        (lambda: chain().rand_augment(2, float("nan")), "magnitude must be a finite number, got nan"),
        (lambda: chain().rand_augment(2, 10.5, ops="timm"), "magnitude must be within 0..10 with timm's"),
        (lambda: chain().rand_augment(magnitude_std=0.5), 'magnitude_std goes with ops="timm"'),
        (lambda: chain().rand_augment(ops="timm", magnitude_std=float("nan")), "magnitude_std must be a finite"),
        (lambda: chain().rand_augment(ops="timm", num_magnitude_bins=10), "num_magnitude_bins goes with torchvision"),
        (lambda: chain().rand_augment(p=1.2), "p must be within 0..1, got 1.2"),
        (lambda: chain().rand_augment(filter="lanczos"), "filter must be one of nearest, bilinear, bicubic, random"),
        (lambda: chain().rand_augment(fill=256), "fill must be"),
        (lambda: chain().rand_augment(num_magnitude_bins=1), "num_magnitude_bins must be an int in 2..256"),
        (lambda: chain().trivial_augment_wide(1), "num_magnitude_bins must be an int in 2..256"),
        (lambda: chain().aug_mix(11), "severity must be an int in 1..10, got 11"),
        (lambda: chain().aug_mix(mixture_width=0), "mixture_width must be an int in 1..16"),
        (lambda: chain().aug_mix(chain_depth=0), "chain_depth must be 1 or more, or -1"),
        (lambda: chain().aug_mix(alpha=0.0), "alpha must be within 0.001..1000"),
        (lambda: chain().aug_mix(alpha=float("nan")), "alpha must be a finite number"),
        (lambda: one(chain().aug_mix(mixture_width=16, chain_depth=9)), "at most 64 steps on pixels, got 161"),
        (lambda: one(chain().rand_augment(32).rand_augment(32).hflip()), "at most 64 steps on pixels, got 65"),
        (
            lambda: slot("x").decode_image(mode="rgba").rand_augment(),
            "expected red, green and blue, or gray, got .* alpha",
        ),
        (lambda: slot("x").decode_image(mode="gray").rand_augment(fill=(1, 2, 3)), "say fill=1, one number"),
        (lambda: slot("x").decode_image(mode="gray").three_augment(), "expected 3 channels"),
        (lambda: one(chain().normalize("half").rand_augment()), "expected uint8"),
        (lambda: slot("x").rand_augment(), "put .decode_image\\(\\) first"),
    ],
)
def test_what_cannot_be_is_refused_where_it_is_written(build: Callable[[], Any], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        build()


@pytest.mark.parametrize("made", [POLICIES[i] for i in (0, 3, 6, 9, 11)], ids=repr)
def test_slots_of_gray_pictures_take_them(made: toolkit.Chain) -> None:
    states = slot("image").decode_image(mode="gray").then(made).states(State(ValueKind.STORED))
    assert states[-1] == states[-2]


def test_policies_lie_in_branches() -> None:
    tree = chain().maybe(
        chain().aug_mix().one_of(chain().rand_augment(name="a"), chain().trivial_augment_wide()), p=0.8
    )
    program = compiled(*tree.steps)
    image = policy_picture()
    assert len({program.apply(np.asarray(image), Scratch(), key).tobytes() for key in range(20)}) > 12
    assert Image.fromarray(program.apply(np.asarray(image), Scratch(), 1)).size == image.size
