"""Randomness as arithmetic: a draw follows from seed, epoch, position, sync group, step and its number, and no more.

Generator version 2. fold() adds a part to a 64-bit state and mixes it by splitmix64's finaliser. A sample's key folds
(version, seed, epoch, group, position), a step's key folds the step's id into that, and draw k of the step is the upper
53 bits of fold(step's key, k) as a float64 in [0, 1). Batch size, threads and ranks don't occur in it.

A step's id is xxh3_64 of the UTF-8 of its draw name: toolkit.pipelines.draw_names says what that is. Version 1 had no
names and no branches; its draws of the same steps are others, for the version is folded into every key.
"""

from __future__ import annotations

import numpy as np
import xxhash
from numpy.typing import NDArray

__all__ = [
    "RANDOM_VERSION",
    "batch_key",
    "draw",
    "draws",
    "first_draws",
    "fold",
    "fold_all",
    "generator",
    "sample_keys",
    "step_id",
    "step_keys",
]

RANDOM_VERSION = 2
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


def fold(state: int, part: int) -> int:
    """Return 64 bits that follow from `state` and `part`."""
    state = (state + part + _GOLDEN) & _MASK
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
    return state ^ (state >> 31)


def fold_all(*parts: int) -> int:
    """Fold integers into 64 bits, one after the other, so that (1, 2) is not (2, 1)."""
    state = 0
    for part in parts:
        state = fold(state, part)
    return state


def sample_keys(seed: int, epoch: int, group: str, positions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return uint64 (n,): the key of the sample at each position of the epoch's order, in a sync group."""
    return _fold_arrays(np.uint64(fold_all(RANDOM_VERSION, seed, epoch, _text_id(group))), positions.astype(np.uint64))


def batch_key(seed: int, epoch: int, place: int, first_position: int) -> int:
    """Return the key of batch map number `place` for the batch that begins at a position of the epoch's order."""
    return fold_all(RANDOM_VERSION, seed, epoch, _text_id(f"BatchMap#{place}"), first_position)


def step_id(name: str) -> int:
    """Return the id of a step by its draw name."""
    return _text_id(name)


def step_keys(keys: NDArray[np.uint64], step: int) -> NDArray[np.uint64]:
    """Return uint64 (n,): the samples' keys for the step with that id."""
    return _fold_arrays(keys, np.uint64(step))


def first_draws(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return float64 (n,): draw 0 of each of a step's keys."""
    return draws(keys, 0)


def draws(keys: NDArray[np.uint64], number: int) -> NDArray[np.float64]:
    """Return float64 (n,): draw `number` of each of a step's keys."""
    return (_fold_arrays(keys, np.uint64(number)) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def draw(key: int, number: int) -> float:
    """Return draw `number` of a step's key: float64 in [0, 1)."""
    return float(fold(key, number) >> 11) * 2.0**-53


def generator(key: int) -> np.random.Generator:
    """Return a numpy generator of the stream that begins at `key`: cheap to make, and no two keys share a stream."""
    return np.random.Generator(np.random.Philox(key=key))


def _fold_arrays(state: NDArray[np.uint64] | np.uint64, part: NDArray[np.uint64] | np.uint64) -> NDArray[np.uint64]:
    # Of arrays, for numpy warns of scalars that wrap around.
    mixed = np.atleast_1d(state) + np.atleast_1d(part) + np.uint64(_GOLDEN)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def _text_id(text: str) -> int:
    return xxhash.xxh3_64_intdigest(text.encode())
