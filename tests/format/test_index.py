"""The shards of a split by number: against lists of records, over tables of any size, read when something is asked."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from itertools import accumulate

import numpy as np
import pytest
from format.shard_indexes import index_of, ref_of
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.errors import CorruptTableError
from toolkit.format.index import BatchInfo, ShardIndex, ShardInfo
from toolkit.format.shard import BatchPlace, ShardRecord
from toolkit.format.tables import ShardTable, encode_shard_table, parse_shard_table

COUNTS = st.integers(0, 2**31 - 1)
HASHES = st.binary(min_size=32, max_size=32)
PLACES = st.builds(BatchPlace, COUNTS, COUNTS, COUNTS, COUNTS, st.integers(0, 6), st.integers(0, 99), HASHES)


@st.composite
def records(draw: st.DrawFn) -> ShardRecord:
    batches = tuple(draw(st.lists(PLACES, max_size=4)))
    return ShardRecord(
        path=draw(st.text(max_size=5)),
        rows=sum(batch.rows for batch in batches),
        file_bytes=draw(st.integers(0, 2**50)),
        sha256=draw(HASHES),
        nonbody_sha256=draw(HASHES),
        batches=batches,
    )


TABLES = st.lists(st.lists(records(), max_size=4), max_size=5)


@dataclass
class Model:
    """The same by counting up: every shard, every record batch, and of each row its record batch."""

    shards: list[ShardInfo]
    batches: list[BatchInfo]
    batch_of: list[int]

    @classmethod
    def of(cls, tables: list[list[ShardRecord]]) -> Model:
        model, rows, tokens = cls([], [], []), 0, 0
        for record in (record for table in tables for record in table):
            first = len(model.batches)
            for number, place in enumerate(record.batches):
                info = BatchInfo(
                    shard=len(model.shards), number=number, start=rows, token_start=tokens, **asdict(place)
                )
                model.batch_of += [len(model.batches)] * place.rows
                model.batches.append(info)
                rows, tokens = rows + place.rows, tokens + place.tokens
            numbers = range(first, len(model.batches))
            model.shards.append(
                ShardInfo(
                    path=record.path,
                    rows=record.rows,
                    file_bytes=record.file_bytes,
                    tokens=sum(place.tokens for place in record.batches),
                    sha256=record.sha256,
                    nonbody_sha256=record.nonbody_sha256,
                    batches=numbers,
                )
            )
        return model


@settings(max_examples=150, deadline=None)
@given(TABLES)
def test_every_number_is_found(tables: list[list[ShardRecord]]) -> None:
    """Tables without shards, shards without record batches and record batches without rows among them."""
    index, model = index_of(*tables), Model.of(tables)
    assert (len(index), index.shards, index.batches) == (len(tables), len(model.shards), len(model.batches))
    assert (index.rows, index.tokens) == (len(model.batch_of), sum(batch.tokens for batch in model.batches))
    assert index.bytes == sum(shard.file_bytes for shard in model.shards)
    assert [index.shard(number) for number in range(index.shards)] == model.shards
    assert [index.batch(number) for number in range(index.batches)] == model.batches
    assert [index.batch_of(row) for row in range(index.rows)] == model.batch_of
    assert list(index.paths()) == [shard.path for shard in model.shards]
    assert index.shard_tokens().tolist() == [shard.tokens for shard in model.shards]
    assert index.shard_tokens().dtype == np.int64
    assert [table.shards for table in index.tables()] == [len(table) for table in tables]


@settings(deadline=None)
@given(TABLES)
def test_what_begins_where_is_known_without_a_table(tables: list[list[ShardRecord]]) -> None:
    read: list[int] = []
    index = index_of(*tables, on_read=read.append)
    model = Model.of(tables)
    for starts, sizes in (
        (index.table_shard, [len(table) for table in tables]),
        (index.table_batch, [sum(len(record.batches) for record in table) for table in tables]),
        (index.table_row, [sum(record.rows for record in table) for table in tables]),
        (index.table_token, [sum(record.tokens for record in table) for table in tables]),
    ):
        assert starts.tolist() == list(accumulate(sizes, initial=0))
        assert starts.dtype == np.int64
    assert (index.rows, index.shards, len(index)) == (len(model.batch_of), len(model.shards), len(tables))
    assert read == []


@settings(deadline=None)
@given(TABLES.filter(lambda tables: any(record.rows for table in tables for record in table)), st.data())
def test_only_the_table_of_what_is_asked_for_is_read_and_once(
    tables: list[list[ShardRecord]], data: st.DataObject
) -> None:
    read: list[int] = []
    index, model = index_of(*tables, on_read=read.append), Model.of(tables)
    owner = [number for number, table in enumerate(tables) for _ in table]
    expected = set()
    for row in data.draw(st.lists(st.integers(0, index.rows - 1), max_size=6)):
        batch = index.batch_of(row)
        info = index.batch(batch)
        assert info.start <= row < info.start + info.rows
        assert batch in index.shard(info.shard).batches
        assert info == model.batches[batch]
        expected.add(owner[info.shard])
        assert set(read) == expected
    assert len(read) == len(expected)


def place(offset: int, rows: int, tokens: int = 0) -> BatchPlace:
    return BatchPlace(offset, 8, 8, 64, rows, tokens, bytes([offset % 256]) * 32)


def shard(path: str, *sizes: int) -> ShardRecord:
    places = tuple(place(8 * number, rows, 10 * rows) for number, rows in enumerate(sizes))
    return ShardRecord(path, sum(sizes), 1000, bytes(32), bytes(32), places)


def test_borders() -> None:
    index = index_of([], [shard("a", 2, 1), shard("b", 3)], [], [shard("c", 1), shard("d"), shard("e", 0, 4)], [])
    assert [index.batch_of(row) for row in range(11)] == [0, 0, 1, 2, 2, 2, 3, 5, 5, 5, 5]
    assert [index.batch(batch).start for batch in range(6)] == [0, 2, 3, 6, 7, 7]
    assert [index.batch(batch).token_start for batch in range(6)] == [0, 20, 30, 60, 70, 70]
    assert [index.batch(batch).number for batch in range(6)] == [0, 1, 0, 0, 0, 1]
    assert [index.shard(number).batches for number in range(5)] == [
        range(2),
        range(2, 3),
        range(3, 4),
        range(4, 4),
        range(4, 6),
    ]
    assert [index.shard(number).path for number in range(5)] == list("abcde")
    assert index.batch(3).body_offset == 8
    assert index.shard_tokens().tolist() == [30, 30, 10, 0, 40]


def test_nothing_at_all() -> None:
    for index in (index_of(), index_of([]), index_of([], [])):
        assert (index.rows, index.shards, index.batches, index.tokens, index.bytes) == (0, 0, 0, 0, 0)
        assert list(index.paths()) == []
        assert index.shard_tokens().tolist() == []


def test_a_table_that_can_not_be_read_is_asked_for_again() -> None:
    data, failing = encode_shard_table([shard("a", 2)]), [True]

    def read(number: int) -> ShardTable:
        if failing:
            raise CorruptTableError("gone")
        return parse_shard_table(data, "t")

    index = ShardIndex([ref_of([shard("a", 2)])], read)
    for ask in (lambda: index.shard(0), lambda: index.batch(0), lambda: index.batch_of(1), index.shard_tokens):
        with pytest.raises(CorruptTableError, match="gone"):
            ask()
    with pytest.raises(CorruptTableError, match="gone"):
        list(index.paths())
    failing.clear()
    assert (index.batch_of(1), index.shard(0).path) == (0, "a")


def test_threads_that_ask_for_one_table_get_the_same() -> None:
    barrier, found = threading.Barrier(8, timeout=30), []
    index = index_of([shard("a", 2)], on_read=lambda number: barrier.wait())
    threads = [threading.Thread(target=lambda: found.append(index.table(0))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(table is found[0] for table in found)
    assert index.table(0) is found[0]
