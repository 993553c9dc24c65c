from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.loader.dataset.selection import Bits, Joined, Listed, Repeated, Selection, Span, Spans, joined


def listed(selection: Selection) -> list[int]:
    return selection.rows(np.arange(selection.samples, dtype=np.int64)).tolist()


@settings(deadline=None)
@given(st.lists(st.booleans(), max_size=3000), st.integers(0, 2**32))
def test_bits_are_the_rows_of_the_mask(mask: list[bool], seed: int) -> None:
    # Long runs of either kind too: blocks with no bit, and with all of them.
    given_mask = np.repeat(np.array(mask, np.bool_), 1 + seed % 3)
    bits = Bits.of(given_mask)
    assert listed(bits) == np.flatnonzero(given_mask).tolist()
    assert bits.mask(len(given_mask)).tolist() == given_mask.tolist()
    rows = np.arange(len(given_mask), dtype=np.int64)
    assert bits.has(rows).tolist() == given_mask.tolist()


def test_empty_and_full_blocks() -> None:
    mask = np.zeros(5000, np.bool_)
    mask[600:1600] = True
    mask[4999] = True
    assert listed(Bits.of(mask)) == [*range(600, 1600), 4999]
    assert listed(Bits.of(np.zeros(1000, np.bool_))) == []


spans = st.tuples(st.integers(-30, 30), st.integers(-30, 30), st.sampled_from([-3, -1, 1, 2, 5]))


@settings(deadline=None)
@given(st.integers(0, 40), st.lists(spans, max_size=4))
def test_slices_of_slices_are_those_of_a_list(samples: int, slices: list[tuple[int, int, int]]) -> None:
    expected = list(range(samples))
    selection: Selection = Span(samples, 0, 1)
    for start, stop, step in slices:
        expected = expected[start:stop:step]
        start, stop, step = slice(start, stop, step).indices(selection.samples)
        selection = selection.then(Span(len(range(start, stop, step)), start, step))
    assert isinstance(selection, Span)
    assert listed(selection) == expected


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=5), st.integers(1, 3))
def test_joined_and_repeated(parts: list[list[int]], times: int) -> None:
    sizes = np.array([len(part) for part in parts], np.int64)
    selections = tuple(Listed(len(part), np.array(part, np.int64)) for part in parts)
    found = joined(selections, np.cumsum(sizes) - sizes, 10 * np.arange(len(parts), dtype=np.int64))
    assert isinstance(found, Joined)
    expected = [row + 10 * number for number, part in enumerate(parts) for row in part]
    assert listed(found) == expected
    repeated = found.then(Repeated(found.samples * times, max(found.samples, 1)))
    assert listed(repeated) == expected * times
    assert listed(pickle.loads(pickle.dumps(repeated))) == expected * times


@settings(deadline=None)
@given(st.lists(spans, min_size=1, max_size=5), st.integers(0, 20), st.data())
def test_joined_spans_are_those_of_a_list(slices: list[tuple[int, int, int]], rows: int, data: st.DataObject) -> None:
    parts, expected = [], []
    for number, one in enumerate(slices):
        # Whole ones, and one at the very start that skips rows, are where a short way may go wrong.
        chosen = range(*slice(*one).indices(rows)) if data.draw(st.booleans()) else range(rows)
        parts.append(Span(len(chosen), chosen.start, chosen.step))
        expected += [row + rows * number for row in chosen]
    sizes = np.array([part.samples for part in parts], np.int64)
    found = joined(parts, np.cumsum(sizes) - sizes, rows * np.arange(len(parts), dtype=np.int64))
    assert isinstance(found, Spans)
    assert found.samples == len(expected)
    assert listed(found) == expected
    assert [found.row(position) for position in range(found.samples)] == expected
    assert listed(pickle.loads(pickle.dumps(found))) == expected
