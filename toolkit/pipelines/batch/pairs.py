"""Which samples of a batch are mixed with each other, and what each two of them draw."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toolkit.pipelines.batch.step import BatchFaultError, FilledColumns
from toolkit.pipelines.randomness import draws, sample_keys, step_id, step_keys

__all__ = ["Mode", "Pairs", "find_pairs", "symmetric_beta"]


class Mode(enum.Enum):
    """Who is whose partner.

    PAIR: positions 2k and 2k+1, and each two draw for themselves, by the even position.
    BATCH: the batch and the batch turned round, with one draw for all, by its first position.
    """

    PAIR = "pair"
    BATCH = "batch"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of samples.

    Attributes:
        places: int64 (k, 2): their places in the batch.
        keys: uint64 (k,): what each draws from.
    """

    places: NDArray[np.int64]
    keys: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.places)

    def draw(self, number: int) -> NDArray[np.float64]:
        """Return float64 (k,): draw `number` of each, in [0, 1)."""
        return draws(self.keys, number)

    def those(self, which: NDArray[np.bool_]) -> Pairs:
        """Return some of them."""
        return Pairs(self.places[which], self.keys[which])


def find_pairs(batch: FilledColumns, mode: Mode, able: NDArray[np.bool_]) -> Pairs:
    """Return the pairs of a batch, of samples that are `able` alone: one whose partner isn't has none.

    Raises:
        BatchFaultError: A pair lies in two batches; or by mode BATCH, one sample is all there is.
    """
    if mode is Mode.PAIR:
        # The last of an odd number is alone.
        first = np.arange(0, len(able) - 1, 2, dtype=np.int64)
        first = first[able[first] & able[first + 1]]
        places, positions = np.stack((first, first + 1), axis=1), batch.positions[first]
        odd = np.flatnonzero(positions % 2)
        if len(odd):
            raise BatchFaultError(
                f"position {positions[odd[0]]} is the second of its pair, and the first isn't in this batch: go on "
                "from a state that was taken with an even batch size"
            )
    else:
        if np.count_nonzero(batch.there) == 1:
            raise BatchFaultError(
                "one sample is all that this batch has, and it can't be mixed with itself: take another batch size, "
                "remainder='drop', or mode='pair', which leaves such a sample as it is"
            )
        those = np.flatnonzero(able)
        half = len(those) // 2  # the middle one of an odd number is its own partner
        places = np.stack((those[:half], those[::-1][:half]), axis=1).astype(np.int64)
        positions = np.full(half, batch.positions[0])
    group = sample_keys(batch.seed, batch.epoch, "#batch", positions)
    return Pairs(np.ascontiguousarray(places), step_keys(group, step_id(batch.name)))


def symmetric_beta(alpha: float, u: NDArray[np.float64], v: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return Beta(alpha, alpha) of two draws of [0, 1) each, rounded to float32: 1/2 + t / (2 sqrt(2 alpha + t^2)).

    t has Student's distribution of 2 alpha degrees of freedom, by Bailey's polar method (1994): t^2 = 2 alpha
    (w - 1) cos^2(2 pi v), w = (1 - u)^(-1/alpha), with the sign of the cosine. Two draws always do, so nothing is
    rejected, and a share is the same whatever else is drawn. float32 hides the last bits, in which libraries differ.
    """
    rest = np.exp(np.log1p(-u) / alpha)  # 1/w
    cosine = np.cos(2 * np.pi * v)
    far = -np.expm1(np.log1p(-u) / alpha) * cosine**2
    # The smaller of share and 1 - share first: taken from 1 it would lose its digits.
    smaller = rest / (rest + far) / (2 * (1 + np.sqrt(far / (rest + far))))
    shares: NDArray[np.float64] = np.where(cosine < 0, smaller, 1 - smaller)
    return shares.astype(np.float32)
