"""What is read ahead comes in order, ends as the reading ends, and is given up when nobody wants it any more."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from toolkit.pack.ahead import read_ahead
from toolkit.sources.base import Rows


def piece(number: int) -> Rows:
    return Rows(pa.RecordBatch.from_pydict({"n": [number]}), (), number)


def test_everything_in_order() -> None:
    assert [rows.read_bytes for rows in read_ahead(map(piece, range(50)))] == list(range(50))
    assert list(read_ahead(iter(()))) == []


def test_an_error_comes_where_it_was() -> None:
    def pieces() -> Iterator[Rows]:
        yield from map(piece, range(3))
        raise OSError("the disk fails")

    seen: list[int] = []
    with pytest.raises(OSError, match="the disk fails"):
        seen.extend(rows.read_bytes for rows in read_ahead(pieces()))
    assert seen == [0, 1, 2]


def test_a_consumer_that_stops_closes_the_reading() -> None:
    closed, asked = threading.Event(), []

    def pieces() -> Iterator[Rows]:
        try:
            for number in range(1_000_000):
                asked.append(number)
                yield piece(number)
        finally:
            closed.set()

    before = threading.active_count()
    ahead = read_ahead(pieces())
    assert next(ahead).read_bytes == 0
    ahead.close()
    assert closed.is_set()
    assert len(asked) <= 4
    assert threading.active_count() == before
