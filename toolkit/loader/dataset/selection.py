"""Which rows a view has, and in which order: position in the view -> row. Frozen, picklable, shared by threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bits", "Chained", "Joined", "Listed", "Repeated", "Selection", "Span", "Spans", "joined"]

_BLOCK_BITS = 64


@dataclass(frozen=True, slots=True)
class Selection(ABC):
    """`samples` positions, each with its row."""

    samples: int

    @abstractmethod
    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row at each position (int64, within 0..samples-1)."""

    def row(self, position: int) -> int:
        """Return the row at one position."""
        return int(self.rows(np.array([position], np.int64))[0])

    def then(self, inner: Selection) -> Selection:
        """Return the selection that takes `inner`, positions of this one, out of it."""
        return Chained(inner.samples, self, inner)


@dataclass(frozen=True, slots=True)
class Span(Selection):
    """Rows start, start + step …: a slice, in constant memory."""

    start: int
    step: int

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row at each position."""
        if self.start == 0 and self.step == 1:
            return positions.copy()
        return positions * self.step + self.start

    def row(self, position: int) -> int:
        """Return the row at one position."""
        return position * self.step + self.start

    def then(self, inner: Selection) -> Selection:
        """Return the selection of a selection; of spans, a span."""
        if self.start == 0 and self.step == 1:
            return inner
        if isinstance(inner, Span):
            return Span(inner.samples, self.start + self.step * inner.start, self.step * inner.step)
        return Selection.then(self, inner)


@dataclass(frozen=True, slots=True, eq=False)
class Listed(Selection):
    """Any rows: int64 (samples,)."""

    listed: NDArray[np.int64]

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row at each position."""
        return self.listed[positions]

    def row(self, position: int) -> int:
        """Return the row at one position."""
        return int(self.listed[position])


@dataclass(frozen=True, slots=True, eq=False)
class Bits(Selection):
    """Rows whose bit is set, in their order: a quarter of a byte a row, with the counts to find them by.

    Attributes:
        blocks: uint8 (blocks, 8): the bits, least significant first.
        ranks: int64 (blocks,): bits set before each block.
    """

    blocks: NDArray[np.uint8]
    ranks: NDArray[np.int64]

    @classmethod
    def of(cls, mask: NDArray[np.bool_]) -> Bits:
        """Return the selection of the rows where `mask` (bool, one a row) is True."""
        return cls.of_bits(np.packbits(mask, bitorder="little"))

    @classmethod
    def of_bits(cls, bits: NDArray[np.uint8]) -> Bits:
        """Return the selection of the rows whose bit is set, in bytes, least significant first."""
        blocks = np.zeros((-(-len(bits) * 8 // _BLOCK_BITS), _BLOCK_BITS // 8), np.uint8)
        blocks.reshape(-1)[: len(bits)] = bits
        counts = _bits_set(blocks.reshape(-1).view(np.uint64))
        return cls(int(counts.sum()), blocks, np.cumsum(counts) - counts)

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row at each position."""
        blocks: NDArray[np.int64] = np.searchsorted(self.ranks, positions, side="right") - 1
        bits = np.unpackbits(self.blocks[blocks], axis=1, bitorder="little")
        seen = np.cumsum(bits, axis=1, dtype=np.int16)
        inside: NDArray[np.int64] = (seen > (positions - self.ranks[blocks])[:, None]).argmax(axis=1)
        return blocks * _BLOCK_BITS + inside

    def mask(self, rows: int) -> NDArray[np.bool_]:
        """Return bool (rows,): True where the row is selected."""
        return np.unpackbits(self.blocks.reshape(-1), count=rows, bitorder="little").astype(np.bool_)

    def has(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return for each row whether it is selected."""
        bits: NDArray[np.uint8] = self.blocks.reshape(-1)[rows >> 3] >> (rows & 7).astype(np.uint8)
        return (bits & 1).astype(np.bool_)


@dataclass(frozen=True, slots=True)
class Repeated(Selection):
    """The rows 0..once-1, over and over."""

    once: int

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row at each position."""
        return positions % self.once


@dataclass(frozen=True, slots=True, eq=False)
class Joined(Selection):
    """Selections one after the other; the rows of part k begin at bases[k].

    Attributes:
        parts: The selections.
        starts, bases: int64 (parts,): the first position and the first row of each.
    """

    parts: tuple[Selection, ...]
    starts: NDArray[np.int64]
    bases: NDArray[np.int64]

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row at each position."""
        owners = np.searchsorted(self.starts, positions, side="right") - 1
        out = np.empty_like(positions)
        for owner in np.flatnonzero(np.bincount(owners)).tolist():
            here = owners == owner
            out[here] = self.parts[owner].rows(positions[here] - self.starts[owner]) + self.bases[owner]
        return out


@dataclass(frozen=True, slots=True, eq=False)
class Spans(Selection):
    """Spans one after the other: however many they are, rows are arithmetic.

    Attributes:
        starts: int64 (parts,): the first position of each.
        offsets, steps: int64 (parts,): position p of part k is row p * steps[k] + offsets[k].
    """

    starts: NDArray[np.int64]
    offsets: NDArray[np.int64]
    steps: NDArray[np.int64]

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row at each position."""
        if not self.offsets.any() and (self.steps == 1).all():  # whole datasets
            return positions.copy()
        owners = np.searchsorted(self.starts, positions, side="right") - 1
        rows: NDArray[np.int64] = positions * self.steps[owners] + self.offsets[owners]
        return rows


def joined(parts: Sequence[Selection], starts: NDArray[np.int64], bases: NDArray[np.int64]) -> Selection:
    """Return selections one after the other: see Joined for what `starts` and `bases` are."""
    samples = sum(part.samples for part in parts)
    spans = [part for part in parts if isinstance(part, Span)]
    if len(spans) < len(parts):
        return Joined(samples, tuple(parts), starts, bases)
    steps = np.array([span.step for span in spans], np.int64)
    return Spans(samples, starts, bases + [span.start for span in spans] - starts * steps, steps)


@dataclass(frozen=True, slots=True)
class Chained(Selection):
    """A selection `inner` of the positions of a selection `outer`."""

    outer: Selection
    inner: Selection

    def rows(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the row at each position."""
        return self.outer.rows(self.inner.rows(positions))


def _bits_set(words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return how many bits of each word are set: in pairs of bits, in fours, in bytes, and of all bytes together."""
    pairs = words - (words >> np.uint64(1) & np.uint64(0x5555555555555555))
    low = np.uint64(0x3333333333333333)
    fours = (pairs & low) + (pairs >> np.uint64(2) & low)
    each = fours + (fours >> np.uint64(4)) & np.uint64(0x0F0F0F0F0F0F0F0F)
    counts: NDArray[np.int64] = (each * np.uint64(0x0101010101010101) >> np.uint64(56)).astype(np.int64)
    return counts
