"""Rows to record batches: against numpy's search, with few kept at hand, and when a file changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

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


def starts_of(sizes: Sequence[int]) -> NDArray[np.int64]:
    return np.concatenate(([0], np.cumsum(np.array(sizes, np.int64))))


def one_table(sizes: Sequence[int], open_batch: Callable[[int], tuple[Body, FileIdentity]], keep: int) -> Locator:
    starts = starts_of(sizes)
    return Locator(starts[[0, -1]], lambda number: (starts, 0), open_batch, len, keep)


@given(
    tables=st.lists(st.lists(st.integers(0, 9), max_size=5), max_size=6).filter(lambda all: sum(map(sum, all)) > 0),
    keep=st.integers(1, 4),
    draws=st.lists(st.integers(0, 10**6), max_size=40),
)
def test_it_finds_what_numpys_search_finds(
    opened: tuple[ShardMap, FileIdentity], tables: list[list[int]], keep: int, draws: list[int]
) -> None:
    """Tables may have no rows, and record batches too; a table is read when a row of it is looked for, and once."""
    shard, file = opened
    bodies = [Body(shard, 0, 64, size, bytes(4), np.empty((0, 2), np.int64)) for table in tables for size in table]
    firsts, read = starts_of([len(table) for table in tables]), []

    def open_table(number: int) -> tuple[NDArray[np.int64], int]:
        read.append(number)
        return starts_of(tables[number]), int(firsts[number])

    table_starts = starts_of([sum(table) for table in tables])
    wanted: list[list[int]] = []
    locator = Locator(table_starts, open_table, lambda batch: (bodies[batch], file), wanted.append, keep)
    assert read == []
    rows = np.array([draw % table_starts[-1] for draw in draws], np.int64)
    inner = np.empty(len(rows), np.int64)
    found = locator.locate(rows, inner)
    starts = starts_of([size for table in tables for size in table])
    batches = np.searchsorted(starts, rows, side="right") - 1
    assert found == [bodies[batch] for batch in batches]
    assert (inner == rows - starts[batches]).all()
    distinct = list(dict.fromkeys(batches.tolist()))
    assert wanted == ([distinct] if len(distinct) > 1 else [])
    needed = np.searchsorted(table_starts, rows, side="right") - 1
    assert read == list(dict.fromkeys(needed.tolist()))


def test_every_row_at_a_border_is_found(opened: tuple[ShardMap, FileIdentity]) -> None:
    shard, file = opened
    sizes = [[3, 1], [], [2, 0, 4], [0], [5]]
    flat = [size for table in sizes for size in table]
    bodies = [Body(shard, 0, 64, size, bytes(4), np.empty((0, 2), np.int64)) for size in flat]
    firsts = starts_of([len(table) for table in sizes])
    locator = Locator(
        starts_of([sum(table) for table in sizes]),
        lambda number: (starts_of(sizes[number]), int(firsts[number])),
        lambda batch: (bodies[batch], file),
        len,
        2,
    )
    expected = [(batch, row) for batch, size in enumerate(flat) for row in range(size)]
    for row, (batch, at) in enumerate(expected):
        inner = np.empty(1, np.int64)
        assert locator.locate(np.array([row], np.int64), inner) == [bodies[batch]]
        assert inner.tolist() == [at]


def test_a_table_that_can_not_be_read_is_asked_for_again(opened: tuple[ShardMap, FileIdentity]) -> None:
    shard, file = opened
    body = Body(shard, 0, 64, 5, bytes(4), np.empty((0, 2), np.int64))
    answers: list[object] = [OSError("gone"), (np.array([0], np.int64), 0), (np.array([1, 5], np.int64), 0)]

    def open_table(number: int) -> tuple[NDArray[np.int64], int]:
        answer = answers.pop(0) if answers else (np.array([0, 5], np.int64), 0)
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[return-value]

    locator = Locator(np.array([0, 5], np.int64), open_table, lambda batch: (body, file), len, 2)
    row, inner = np.array([4], np.int64), np.empty(1, np.int64)
    with pytest.raises(OSError, match="gone"):
        locator.locate(row, inner)
    for _ in range(2):
        with pytest.raises(ValueError, match="table 0 has no record batches"):
            locator.locate(row, inner)
    assert locator.locate(row, inner) == [body]
    assert inner.tolist() == [4]


def test_rows_outside_are_refused(opened: tuple[ShardMap, FileIdentity]) -> None:
    shard, file = opened
    body = Body(shard, 0, 64, 5, bytes(4), np.empty((0, 2), np.int64))
    locator = one_table([5, 4], lambda batch: (body, file), 2)
    for rows in ([-1], [9], [0, 9]):
        with pytest.raises(IndexError):
            locator.locate(np.array(rows, np.int64), np.empty(len(rows), np.int64))
    with pytest.raises(ValueError, match="inner"):
        locator.locate(np.array([0], np.int64), np.empty(2, np.int64))
    short = Body(shard, 0, 64, 2, bytes(4), np.empty((0, 2), np.int64))
    locator = one_table([5], lambda batch: (short, file), 2)
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

    locator = one_table([5], open_batch, 2)
    rows, inner = np.array([1, 2], np.int64), np.empty(2, np.int64)
    assert locator.locate(rows, inner) == [bodies[0], bodies[0]]
    path.write_bytes(bytes(65))
    assert locator.locate(rows, inner)[0] is bodies[1]
    assert len(bodies) == 2
