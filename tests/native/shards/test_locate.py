"""Rows to record batches: against numpy's search, with few kept at hand, and when a file changes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit._native.shards.body import Body, ShardMap
from toolkit._native.shards.locate import FileIdentity, Locator


def identity(path: Path) -> FileIdentity:
    stat = path.stat()
    return FileIdentity(os.fsencode(path), stat)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> tuple[ShardMap, FileIdentity]:
    path = tmp_path_factory.mktemp("locate") / "file"
    path.write_bytes(bytes(64))
    with path.open("rb") as file:
        return ShardMap(file.fileno(), 64), identity(path)


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    keep=st.integers(1, 4),
    draws=st.lists(st.integers(0, 10**6), max_size=40),
)
def test_it_finds_what_numpys_search_finds(
    opened: tuple[ShardMap, FileIdentity], sizes: list[int], keep: int, draws: list[int]
) -> None:
    shard, file = opened
    starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    bodies = [Body(shard, 0, 64, size, bytes(4), np.empty((0, 2), np.int64)) for size in sizes]
    locator = Locator(starts, lambda batch: (bodies[batch], file), keep)
    rows = np.array([draw % starts[-1] for draw in draws], np.int64)
    inner = np.empty(len(rows), np.int64)
    found = locator.locate(rows, inner)
    batches = np.searchsorted(starts, rows, side="right") - 1
    assert found == [bodies[batch] for batch in batches]
    assert (inner == rows - starts[batches]).all()


def test_rows_outside_are_refused(opened: tuple[ShardMap, FileIdentity]) -> None:
    shard, file = opened
    body = Body(shard, 0, 64, 5, bytes(4), np.empty((0, 2), np.int64))
    locator = Locator(np.array([0, 5, 9], np.int64), lambda batch: (body, file), 2)
    for rows in ([-1], [9], [0, 9]):
        with pytest.raises(IndexError):
            locator.locate(np.array(rows, np.int64), np.empty(len(rows), np.int64))
    with pytest.raises(ValueError, match="inner"):
        locator.locate(np.array([0], np.int64), np.empty(2, np.int64))
    short = Body(shard, 0, 64, 2, bytes(4), np.empty((0, 2), np.int64))
    locator = Locator(np.array([0, 5], np.int64), lambda batch: (short, file), 2)
    with pytest.raises(IndexError, match="record batch of 2 rows"):
        locator.locate(np.array([3], np.int64), np.empty(1, np.int64))


def test_a_changed_file_is_opened_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(64))
    with path.open("rb") as file:
        shard = ShardMap(file.fileno(), 64)
    bodies: list[Body] = []

    def open_batch(batch: int) -> tuple[Body, FileIdentity]:
        bodies.append(Body(shard, 0, 64, 5, bytes(4), np.empty((0, 2), np.int64)))
        return bodies[-1], identity(path)

    locator = Locator(np.array([0, 5], np.int64), open_batch, 2)
    rows, inner = np.array([1, 2], np.int64), np.empty(2, np.int64)
    assert locator.locate(rows, inner) == [bodies[0], bodies[0]]
    path.write_bytes(bytes(65))
    assert locator.locate(rows, inner)[0] is bodies[1]
    assert len(bodies) == 2
