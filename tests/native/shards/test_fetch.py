"""Values fetched out of bodies: against numpy and slices; damage becomes a status."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from bodies import body_over, laid_out

from toolkit._native.shards.body import CHUNK_BYTES, READ_FAULT, READ_NULL, READ_OK, READ_RANGE, Body
from toolkit._native.shards.fetch import FetchBuffer, fetch_binary, fetch_fixed


def fetched_fixed(
    body: Body, rows: list[int], validity: list[int], data: int, width: int
) -> tuple[np.ndarray, list[int]]:
    out = np.full(len(rows) * width, 0xAA, np.uint8)
    statuses, chunks = np.empty(len(rows), np.int32), np.empty(len(rows), np.int64)
    failed = fetch_fixed(
        [body] * len(rows), np.array(rows, np.int64), np.array(validity, np.int32), data, width, out, statuses, chunks
    )
    assert failed == sum(status not in (READ_OK, READ_NULL) for status in statuses)
    return out, statuses.tolist()


def fetched_binary(body: Body, rows: list[int], validity: list[int], width: int = 4) -> list[bytes | int]:
    """Values of buffers (..., offsets, data); a status in the place of one that isn't there."""
    n = len(rows)
    into, addresses, lengths = FetchBuffer(), np.empty(n, np.uint64), np.empty(n, np.int64)
    statuses, chunks = np.empty(n, np.int32), np.empty(n, np.int64)
    places = body.buffer_count
    failed = fetch_binary(
        [body] * n, np.array(rows, np.int64), np.array(validity, np.int32), places - 2, places - 1, width,
        into, addresses, lengths, statuses, chunks,
    )  # fmt: skip
    assert failed == sum(status not in (READ_OK, READ_NULL) for status in statuses)
    return [
        into.take(int(addresses[i]), int(lengths[i])) if statuses[i] == READ_OK else int(statuses[i]) for i in range(n)
    ]


def test_fixed_equals_numpy(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(-(2**63), 2**63, 5000, np.int64)
    valid = np.random.default_rng(1).random(5000) < 0.8
    data, places = laid_out(np.packbits(valid, bitorder="little").tobytes(), values.tobytes())
    body = body_over(tmp_path / "s", data, places, rows=5000)
    rows = np.random.default_rng(2).integers(0, 5000, 800).tolist()
    out, statuses = fetched_fixed(body, rows, [0], 1, 8)
    assert [status == READ_OK for status in statuses] == valid[rows].tolist()
    assert np.array_equal(out.view(np.int64), np.where(valid[rows], values[rows], 0))


@pytest.mark.parametrize("width", [4, 8])
def test_binary_equals_slices(tmp_path: Path, width: int) -> None:
    rng = np.random.default_rng(0)
    values = [rng.bytes(int(size)) for size in rng.integers(0, 3000, 60)] + [rng.bytes(3 * CHUNK_BYTES), b""]
    offsets = np.cumsum([0, *map(len, values)]).astype(f"<i{width}")
    data, places = laid_out(b"", offsets.tobytes(), b"".join(values))
    body = body_over(tmp_path / "s", data, places, rows=len(values))
    rows = rng.integers(0, len(values), 300).tolist()
    assert fetched_binary(body, rows, [0], width) == [values[row] for row in rows]
    assert fetched_binary(body, [], [0], width) == []


def test_null_at_any_level_is_null(tmp_path: Path) -> None:
    outer, inner, offsets = b"\x0d", b"\x0b", np.arange(5, dtype="<i4").tobytes()
    data, places = laid_out(outer, inner, offsets, b"abcd")
    body = body_over(tmp_path / "s", data, places, rows=4)
    assert fetched_binary(body, [0, 1, 2, 3], [0, 1]) == [b"a", READ_NULL, READ_NULL, b"d"]


@pytest.mark.parametrize("offsets", [[0, 5], [-1, 2], [3, 2], [2**31 - 1, 2**31 - 1], [-(2**31), 2**31 - 1], [5, 5]])
def test_offsets_outside_their_buffer(tmp_path: Path, offsets: list[int]) -> None:
    data, places = laid_out(b"", np.array(offsets, "<i4").tobytes(), b"abcd")
    assert fetched_binary(body_over(tmp_path / "s", data, places), [0], [0]) == [READ_RANGE]


def test_buffers_that_are_too_short_for_their_rows(tmp_path: Path) -> None:
    data, places = laid_out(b"\xff", np.arange(3, dtype="<i4").tobytes(), b"ab")
    body = body_over(tmp_path / "s", data, places, rows=20)
    assert fetched_binary(body, [1, 2, 7, 8, 19], [0]) == [b"b", *[READ_RANGE] * 4]
    assert fetched_fixed(body, [0, 2, 3, 19], [0], 1, 4)[1] == [READ_OK, READ_OK, READ_RANGE, READ_RANGE]


def test_calls_that_are_refused(tmp_path: Path) -> None:
    data, places = laid_out(b"", np.arange(3, dtype="<i4").tobytes(), b"ab")
    body = body_over(tmp_path / "s", data, places, rows=2)
    for row in (-1, 2):
        with pytest.raises(ValueError, match="of a record batch of 2 rows"):
            fetched_binary(body, [row], [0])
    with pytest.raises(ValueError, match="buffer 3 of 3"):
        fetched_fixed(body, [0], [0], 3, 4)
    with pytest.raises(ValueError, match="buffer"):
        fetched_fixed(body, [0], [-1], 1, 4)
    with pytest.raises(ValueError, match="4 or 8"):
        fetched_binary(body, [0], [0], 2)
    with pytest.raises(ValueError, match="not a value"):
        FetchBuffer().take(4096, 1)


def test_a_file_that_is_cut_short_while_open(tmp_path: Path) -> None:
    body = body_over(tmp_path / "s", bytes(5 * CHUNK_BYTES), [(0, 5 * CHUNK_BYTES)], rows=9000)
    os.truncate(tmp_path / "s", 0)
    assert fetched_fixed(body, [0, 8191], [], 0, 8)[1] == [READ_FAULT, READ_FAULT]


def test_a_width_that_wraps_is_refused(tmp_path: Path) -> None:
    body = body_over(tmp_path / "s", bytes(64), [(0, 64)], rows=4)
    none, rows = np.empty(0, np.int32), np.zeros(4, np.int64)
    statuses, chunks = np.zeros(4, np.int32), np.zeros(4, np.int64)
    with pytest.raises(ValueError, match="must fit the rows"):
        fetch_fixed([body] * 4, rows, none, 0, 2**62, np.empty(0, np.uint8), statuses, chunks)
