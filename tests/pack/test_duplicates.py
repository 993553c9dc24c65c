"""Keys that occur twice are found however many there are, in memory that doesn't grow with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from toolkit.pack import duplicates


def first_repeated(hashes: list[tuple[int, int]]) -> tuple[int, int] | None:
    """The oracle: go through all rows."""
    seen: dict[tuple[int, int], int] = {}
    for number, one in enumerate(hashes):
        if one in seen:
            return seen[one], number
        seen[one] = number
    return None


def arrays(parts: list[list[tuple[int, int]]]) -> list[NDArray[np.uint64]]:
    return [np.array(part, np.uint64).reshape(-1, 2) for part in parts]


HASHES = st.tuples(st.sampled_from([0, 1, 2**63, 2**64 - 1]), st.integers(0, 6))


@pytest.mark.parametrize("at_a_time", [1, 3, 1000])
@given(parts=st.lists(st.lists(HASHES, max_size=8), max_size=4))
def test_the_first_row_that_repeats_another(
    tmp_path_factory: pytest.TempPathFactory, at_a_time: int, parts: list[list[tuple[int, int]]]
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(duplicates, "_ROWS_AT_A_TIME", at_a_time)
        found = duplicates._first_repeated(arrays(parts), str(folder))
    assert found == first_repeated([one for part in parts for one in part])
    assert not list(folder.iterdir())


def test_random_hashes_spread_over_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duplicates, "_ROWS_AT_A_TIME", 1000)
    hashes = np.random.default_rng(0).integers(0, 2**64, (20_000, 2), np.uint64)
    assert duplicates._first_repeated([hashes[:7], hashes[7:]], str(tmp_path)) is None
    hashes[15_000] = hashes[3]
    assert duplicates._first_repeated([hashes[:7], hashes[7:]], str(tmp_path)) == (3, 15_000)
