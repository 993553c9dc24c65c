"""Batch steps as data: what is refused when they are written, how they read, golden draws, and their distribution."""

from __future__ import annotations

import pickle
from typing import Any

import mixing_oracle as oracle
import numpy as np
import pytest

import toolkit
from toolkit import slot
from toolkit.errors import PipelineError
from toolkit.pipelines.batch.mix import make_boxes
from toolkit.pipelines.batch.pairs import symmetric_beta


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: toolkit.mixup(0), "batch step mixup: alpha must be above 0, got 0: leave the step out to mix nothing"),
        (lambda: toolkit.mixup(-1), "alpha must be 0 or more, got -1"),
        (lambda: toolkit.mixup(float("nan")), "alpha must be a finite number, got nan"),
        (lambda: toolkit.mixup("0.2"), "alpha must be a finite number"),  # type: ignore[arg-type]
        (lambda: toolkit.cutmix(1, prob=1.2), r"batch step cutmix: prob must be within 0\.\.1, got 1.2"),
        (lambda: toolkit.mixup(1, mode="pairs"), "mode must be one of pair, batch, got 'pairs'. Did you mean 'pair'"),
        (lambda: toolkit.mixup(1, labels="hard"), "labels must be one of soft, pair"),
        (lambda: toolkit.mixup(1, classes=0), "classes must be a positive int, got 0"),
        (lambda: toolkit.mixup(1, smoothing=1), "smoothing must be below 1"),
        (lambda: toolkit.mixup(1, smoothing=-0.1), "smoothing must be within 0..1"),
        (lambda: toolkit.mixup(1, smoothing=0.1, labels="pair"), "smoothing is for soft labels"),
        (lambda: toolkit.mixup(1, columns=[]), "columns must be names of columns, each once"),
        (lambda: toolkit.mixup(1, columns=["x", "x"]), "columns must be names of columns, each once"),
        (lambda: toolkit.mixup(1, columns=["x", 3]), "columns must be a text, got 3"),  # type: ignore[list-item]
        (lambda: toolkit.mixup(1, columns=["x", "y"], label="y"), "columns has 'y', which label= says"),
        (lambda: toolkit.mixup(1, name=""), "name must be a text, got ''"),
        (lambda: toolkit.mixup_or_cutmix(1, 1, switch_prob=2), "batch step mixup_or_cutmix: switch_prob must be"),
        (lambda: toolkit.mixup_or_cutmix(1, 0), "cutmix_alpha must be above 0"),
    ],
)
def test_what_can_not_be_is_refused_when_it_is_written(make: Any, says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        make()


def test_steps_read_as_they_are_written() -> None:
    steps = [
        toolkit.mixup(0.2),
        toolkit.cutmix(1, columns=["image", "mask"], label=None, prob=0.5, name="cut"),
        toolkit.mixup_or_cutmix(0.8, 1, switch_prob=0.3, classes=10, smoothing=0.1, mode="batch", labels="soft"),
    ]
    assert repr(steps[0]) == "mixup(0.2)"
    assert repr(steps[1]) == "cutmix(1.0, columns=('image', 'mask'), label=None, prob=0.5, name=\"cut\")"
    for step in steps:
        assert eval(f"toolkit.{step!r}") == step
        assert pickle.loads(pickle.dumps(step)) == step
        assert isinstance(step, toolkit.BatchStep)
    made = toolkit.pipeline(slot("image").decode_image().resize((8, 8)), batch_maps=[steps[0], max])
    assert "    batch_maps=[mixup(0.2), max],\n" in repr(made)
    assert made.explain().endswith("└─ batch maps\n   ├─ mixup(0.2)  native, random, by pair\n   └─ max")
    assert pickle.loads(pickle.dumps(made)) == made


def test_describe_tells_steps_apart() -> None:
    steps = [
        toolkit.mixup(0.2),
        toolkit.mixup(0.3),
        toolkit.cutmix(0.2),
        toolkit.mixup(0.2, mode="batch"),
        toolkit.mixup(0.2, name="x"),
        toolkit.mixup(0.2, smoothing=0.1),
    ]
    assert len({toolkit.pipeline(batch_maps=[step]).describe() for step in steps}) == len(steps)
    assert (
        toolkit.pipeline(batch_maps=[toolkit.mixup(1)]).describe()
        == toolkit.pipeline(batch_maps=[toolkit.mixup(1.0)]).describe()
    )


def test_golden_draws() -> None:
    key = oracle.key(7, 3, 64, "Mixup#0")
    u, v = (np.array([oracle.draw(key, number)]) for number in (2, 3))
    assert key == 11849843450866515564
    np.testing.assert_array_equal(symmetric_beta(0.2, u, v), np.float32([0.9992917776107788]))
    assert symmetric_beta(0.2, u, v)[0] == np.float32(oracle.beta(0.2, key))


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.5, 1.0, 2.0, 32.0])
def test_shares_are_of_a_beta_distribution(alpha: float) -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    shares = symmetric_beta(alpha, rng.random(50_000), rng.random(50_000)).astype(np.float64)
    assert ((shares >= 0) & (shares <= 1)).all()
    # Near 1 float32 has too few numbers for an alpha of 0.1: that half is compared as coarsely.
    low = shares[shares <= 0.5]
    assert abs(len(low) / len(shares) - 0.5) < 0.01
    assert stats.kstest(low, lambda x: 2 * stats.beta(alpha, alpha).cdf(x)).pvalue > 0.01
    high = shares[shares > 0.5]
    assert (
        stats.ks_2samp(np.float32(1) - high.astype(np.float32), np.float32(1) - (1 - low).astype(np.float32)).pvalue
        > 0.01
    )


def test_shares_of_the_ends() -> None:
    ends = np.array([0.0, 2.0**-53, 0.5, 1 - 2.0**-53])
    u, v = (made.ravel() for made in np.meshgrid(ends, ends))
    for alpha in (1e-300, 1e-3, 1.0, 1e300):
        shares = symmetric_beta(alpha, u, v)
        assert ((shares >= 0) & (shares <= 1)).all()


def test_middles_of_boxes_are_everywhere_alike() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    down, across = rng.random(40_000), rng.random(40_000)
    boxes = make_boxes(np.full(40_000, 0.9, np.float32), down, across, 20, 30)
    whole = boxes[(boxes[:, 1] - boxes[:, 0] == 6) & (boxes[:, 3] - boxes[:, 2] == 8)]
    rows = np.bincount((whole[:, 0] + 3), minlength=20)[3:18]
    columns = np.bincount((whole[:, 2] + 4), minlength=30)[4:27]
    for counts in (rows, columns):
        assert stats.chisquare(counts).pvalue > 0.01
