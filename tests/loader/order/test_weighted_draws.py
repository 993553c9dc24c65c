from __future__ import annotations

import numpy as np
import pytest

from toolkit.errors import UsageError
from toolkit.loader.order.draws import WeightedOrder, balanced_weights


def draws(weights: list[float], samples: int, *, seed: int = 0, epoch: int = 0) -> np.ndarray:
    return WeightedOrder(weights, samples, seed).rows(epoch, np.arange(samples, dtype=np.int64))


def test_the_first_order_version_never_changes() -> None:
    assert draws([1, 0, 3.5, 2], 12, seed=5, epoch=2).tolist() == [2, 2, 0, 3, 2, 3, 2, 2, 0, 3, 0, 3]


def test_samples_come_as_often_as_their_weights_say() -> None:
    weights = np.array([1.0, 0.0, 4.0, 0.5, 2.5, 0.0])
    counts = np.bincount(draws(weights.tolist(), 80_000), minlength=6)
    assert counts[1] == counts[5] == 0
    expected = 80_000 * weights[weights > 0] / weights.sum()
    assert ((counts[weights > 0] - expected) ** 2 / expected).sum() < 3 + 5 * np.sqrt(6)


def test_a_position_can_be_asked_alone_and_follows_seed_and_epoch() -> None:
    order = WeightedOrder([1, 2, 3], 10**12, 1)
    far = np.array([10**12 - 1, 0, 7], np.int64)
    assert order.rows(3, far).tolist() == [int(order.rows(3, far[i : i + 1])[0]) for i in range(3)]
    base = draws([1] * 100, 1000).tolist()
    assert draws([1] * 100, 1000, seed=1).tolist() != base
    assert draws([1] * 100, 1000, epoch=1).tolist() != base


def test_weights_are_part_of_the_name() -> None:
    assert WeightedOrder([1, 2], 5, 0).name != WeightedOrder([1, 3], 5, 0).name
    assert WeightedOrder([1, 2], 5, 0).name == WeightedOrder(np.array([1, 2], np.int8), 9, 4).name


@pytest.mark.parametrize("weights", [[1.0, -1.0], [0.0, 0.0], [1.0, np.nan], [1.0, np.inf], [[1.0]], []])
def test_impossible_weights_are_refused(weights: list[float]) -> None:
    with pytest.raises(UsageError, match="weights must be"):
        WeightedOrder(weights, 5, 0)
    with pytest.raises(UsageError, match="beyond float64"):
        WeightedOrder([1e308, 1e308], 5, 0)


def test_balanced_classes_are_drawn_equally_often() -> None:
    labels = np.array([0] * 90 + [2] * 9 + [3], np.int64)  # class 1 has no sample
    found = labels[draws(balanced_weights(labels, ("a", "b", "c", "d")).tolist(), 30_000)]
    counts = np.bincount(found, minlength=4)
    assert counts[1] == 0
    assert (np.abs(counts[[0, 2, 3]] - 10_000) < 5 * np.sqrt(10_000)).all()
