"""Rows of splits of several shard tables, alone and joined: found by number, each table read when a row of it is."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from conftest import _commit_rows
from hypothesis import given, settings
from hypothesis import strategies as st
from keyed_rows import keyed

import toolkit
from toolkit.errors import CorruptTableError


def shards_of(sizes: Sequence[int], first: int) -> list[list[pa.RecordBatch]]:
    """Shards of so many rows each, with numbers from `first` on; a shard may have none."""
    shards = []
    for size in sizes:
        rows = keyed({"x": pa.array(range(first, first + size), pa.int64())})
        keys = pa.array([f"k{number}" for number in range(first, first + size)], pa.string())
        shards.append([rows.set_column(0, rows.schema.field(0), keys)])
        first += size
    return shards


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root, found, first = tmp_path_factory.mktemp("tables"), [], 0
    for name, sizes, most in (("a", [3, 1, 0, 4, 2], 2), ("b", [5], 1), ("c", [1, 1, 0, 0, 6, 1, 1], 3)):
        with mock.patch("toolkit.format.commit.MOST_SHARDS", most):
            _commit_rows(root / name, {"train": shards_of(sizes, first)}, batch_body_bytes=300)
        found.append(root / name)
        first += sum(sizes)
    return found


ROWS, TABLES = (10, 5, 10), (3, 1, 3)


def numbers(ds: toolkit.Dataset) -> list[int]:
    return [ds[row]["x"] for row in range(len(ds))]


def test_all_rows_of_each_and_of_all_of_them(made: list[Path]) -> None:
    parts = [toolkit.open(path) for path in made]
    assert [len(ds) for ds in parts] == list(ROWS)
    assert [len(ds.index) for ds in parts] == list(TABLES)
    assert [number for ds in parts for number in numbers(ds)] == list(range(25))
    joined = toolkit.concat(parts)
    assert numbers(joined) == list(range(25))
    assert numbers(joined[::-1]) == list(range(25))[::-1]
    assert joined.keys() == [f"k{row}" for row in range(25)]
    got = [number for batch in joined.loader(batch_size=4, shuffle="full") for number in batch["x"].tolist()]
    assert sorted(got) == list(range(25))
    assert numbers(joined.filter(pc.field("x") > 7)) == [*range(8, 25)]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_rows_in_any_order(made: list[Path], data: st.DataObject) -> None:
    parts = [toolkit.open(path) for path in data.draw(st.permutations(made))]
    model = np.concatenate([numbers(ds) for ds in parts])
    joined = toolkit.concat(parts)
    rows = np.array(data.draw(st.lists(st.integers(0, 24), max_size=30)), np.int64)
    located = joined.stored.fetcher.locate(rows)
    out = np.empty(8 * len(rows), np.uint8)
    assert not joined.stored.fetcher.fixed("x", located, out).any()
    assert out.view(np.int64).tolist() == model[rows].tolist()


def test_a_damaged_table_takes_its_own_rows_from_a_joined_dataset(made: list[Path], tmp_path: Path) -> None:
    copies = [Path(shutil.copytree(path, tmp_path / path.name)) for path in made]
    table = toolkit.open(copies[2]).manifest.splits["train"].tables[1].sha256
    path = copies[2] / f"tables/{table}.arrow"
    path.write_bytes(path.read_bytes()[:-1])
    joined = toolkit.concat([toolkit.open(copy) for copy in copies])
    of_table = range(17, 24)  # the fourth shard to the sixth: 0, 6 and 1 rows
    for row in range(25):
        if row in of_table:
            with pytest.raises(CorruptTableError, match=table):
                joined[row]
        else:
            assert joined[row]["x"] == row
    with pytest.raises(CorruptTableError, match=table):
        list(joined.loader(batch_size=5))
    for outside in (25, -26):
        with pytest.raises(IndexError):
            joined[outside]
