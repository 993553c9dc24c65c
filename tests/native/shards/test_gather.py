"""Values and windows gathered into a batch: against slices, in any parts, and what damage leaves."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from bodies import body_over, laid_out
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit._native.shards.body import (
    CHUNK_BYTES,
    READ_CRC,
    READ_FAULT,
    READ_NULL,
    READ_OK,
    READ_RANGE,
    Body,
)
from toolkit._native.shards.gather import find_values, gather_values, gather_windows


class Gathered:
    """Values of buffers (..., offsets, data) of one body, found at once and copied in parts."""

    def __init__(self, body: Body, rows: list[int], validity: list[int], width: int = 4, part: int = 7) -> None:
        n, last = len(rows), body.buffer_count - 1
        inner, valid = np.array(rows, np.int64), np.array(validity, np.int32)
        self.statuses, self.chunks = np.empty(n, np.int32), np.empty(n, np.int64)
        starts, lengths = np.empty(n, np.int64), np.empty(n, np.int64)
        find_values([body] * n, inner, valid, last - 1, last, width, starts, lengths, self.statuses, self.chunks)
        self.places = np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths)))
        self.out = np.full(int(self.places[-1]), 0xAA, np.uint8)
        self.failed = 0
        for at in range(0, n, part):
            run = slice(at, min(n, at + part))
            self.failed += gather_values(
                [body] * (run.stop - at),
                inner[run],
                starts[run],
                self.places[at : run.stop + 1],
                self.statuses[run],
                self.chunks[run],
                self.out,
            )

    @property
    def values(self) -> list[bytes | None]:
        return [
            self.out[start:end].tobytes() if status == READ_OK else None
            for start, end, status in zip(self.places[:-1], self.places[1:], self.statuses, strict=True)
        ]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    width=st.sampled_from([4, 8]),
    part=st.integers(1, 50),
    largest=st.sampled_from([1, 40, 5000, 3 * CHUNK_BYTES]),
    remember=st.booleans(),
)
def test_values_equal_slices(
    tmp_path_factory: pytest.TempPathFactory, seed: int, width: int, part: int, largest: int, remember: bool
) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.bytes(int(size)) for size in rng.integers(0, largest + 1, 20)]
    valid = rng.random(20) < 0.8
    offsets = np.cumsum([0, *map(len, values)]).astype(f"<i{width}")
    data, places = laid_out(np.packbits(valid, bitorder="little").tobytes(), offsets.tobytes(), b"".join(values))
    body = body_over(tmp_path_factory.mktemp("g") / "s", data, places, rows=20, remember=remember)
    rows = rng.integers(0, 20, 50).tolist()
    for _ in range(2):  # not checked yet, and checked
        found = Gathered(body, rows, [0], width, part)
        assert found.values == [values[row] if valid[row] else None for row in rows]
        assert found.failed == 0
        assert set(found.statuses.tolist()) <= {READ_OK, READ_NULL}


def test_what_is_not_readable_becomes_zeros(tmp_path: Path) -> None:
    values = [bytes([i + 1]) * CHUNK_BYTES for i in range(4)]
    data, places = laid_out(b"", np.arange(0, 5 * CHUNK_BYTES, CHUNK_BYTES, dtype="<i4").tobytes(), b"".join(values))
    body = body_over(tmp_path / "s", data, places, rows=4)
    damaged = bytearray((tmp_path / "s").read_bytes())
    damaged[places[2][0] + 3 * CHUNK_BYTES // 2] ^= 1
    (tmp_path / "s").write_bytes(damaged)
    found = Gathered(body, [3, 1, 0], [0])
    # Values are not aligned to chunks: the flip is in value 1, and in a chunk of value 0 or 2 beside it.
    assert found.statuses.tolist()[:2] == [READ_OK, READ_CRC]
    assert found.failed == sum(status == READ_CRC for status in found.statuses.tolist())
    zeros = found.out[found.places[1] : found.places[2]]
    assert len(zeros) == CHUNK_BYTES
    assert not zeros.any()
    os.truncate(tmp_path / "s", 0)
    assert Gathered(body, [0], [0]).statuses.tolist() == [READ_FAULT]


def test_offsets_outside_their_buffer_give_no_bytes(tmp_path: Path) -> None:
    data, places = laid_out(b"", np.array([0, 5, 5, 7, 2], "<i4").tobytes(), b"abcdef")
    found = Gathered(body_over(tmp_path / "s", data, places, rows=4), [0, 1, 2, 3], [0])
    assert found.values == [b"abcde", b"", None, None]
    assert found.statuses.tolist() == [READ_OK, READ_OK, READ_RANGE, READ_RANGE]
    assert found.failed == 2


@pytest.mark.parametrize("width", [4, 8])
def test_rows_whose_place_wraps_give_no_bytes(tmp_path: Path, width: int) -> None:
    data, places = laid_out(b"", np.array([0, 5, 5, 6], f"<i{width}").tobytes(), b"abcdef")
    row = 2**64 // width  # its place is that of row 0
    body = body_over(tmp_path / "s", data, places, rows=2**63 - 1)
    rows = [0, row, row + 1, 2**63 // width, 2**63 // width - 1, 2**63 - 2]
    found = Gathered(body, rows, [0], width)
    assert found.statuses.tolist() == [READ_OK, *[READ_RANGE] * 5]
    assert found.values == [b"abcde", *[None] * 5]


def test_places_outside_the_block_are_refused(tmp_path: Path) -> None:
    data, places = laid_out(b"", np.array([0, 3], "<i4").tobytes(), b"abc")
    body = body_over(tmp_path / "s", data, places)
    zero, status, chunk = np.zeros(1, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int64)
    for wrong in ([0, 4], [-1, 2], [2, 1]):
        with pytest.raises(ValueError, match="no place"):
            gather_values([body], zero, zero, np.array(wrong, np.int64), status, chunk, np.empty(3, np.uint8))
    with pytest.raises(ValueError, match="fit the rows"):
        gather_values([body], zero, zero, np.zeros(1, np.int64), status, chunk, np.empty(3, np.uint8))


def windows(
    body: Body, starts: list[int], strides: list[int], inside: list[tuple[int, ...]], shape: tuple[int, int]
) -> tuple[np.ndarray, list[int]]:
    n = len(starts)
    out = np.full((n, *shape), 0xAA, np.uint8)
    statuses, chunks = np.empty(n, np.int32), np.empty(n, np.int64)
    failed = gather_windows(
        [body] * n,
        np.zeros(n, np.int64),
        np.array(starts, np.int64),
        np.array(strides, np.int64),
        np.array(inside, np.int64).reshape(n, 4),
        statuses,
        chunks,
        out,
    )
    assert failed == sum(status != READ_OK for status in statuses)
    return out, statuses.tolist()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_windows_equal_slices(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    height, width = data.draw(st.integers(1, 200)), data.draw(st.integers(1, 400))
    picture = np.random.default_rng(height).integers(0, 256, (height, width), np.uint8)
    remember = data.draw(st.booleans())
    body = body_over(tmp_path_factory.mktemp("w") / "s", bytes(99) + picture.tobytes(), [], remember=remember)
    shape = data.draw(st.integers(1, 220)), data.draw(st.integers(1, 420))
    tops, lefts = st.integers(0, height), st.integers(0, width)
    top, left = data.draw(tops), data.draw(lefts)
    rows = data.draw(st.integers(0, min(height - top, shape[0])))
    columns = data.draw(st.integers(0, min(width - left, shape[1])))
    down, right = data.draw(st.integers(0, shape[0] - rows)), data.draw(st.integers(0, shape[1] - columns))
    expected = np.zeros(shape, np.uint8)
    expected[down : down + rows, right : right + columns] = picture[top : top + rows, left : left + columns]
    for _ in range(2):  # not checked yet, and checked
        out, statuses = windows(body, [99 + top * width + left], [width], [(down, right, rows, columns)], shape)
        assert statuses == [READ_OK]
        assert np.array_equal(out[0], expected)


def test_windows_that_are_damaged_or_outside(tmp_path: Path) -> None:
    content = np.random.default_rng(0).bytes(4 * CHUNK_BYTES)
    body = body_over(tmp_path / "s", content, [])
    whole = (0, 0, 64, 1024)
    for start, stride in ((1, 1024), (-1, 1024), (0, 1041), (2**62, 1024), (0, 2**58)):
        assert windows(body, [start], [stride], [whole], (64, 1024))[1] == [READ_RANGE]
    assert windows(body, [0], [1023], [whole], (64, 1024))[1] == [READ_RANGE]  # rows that overlap
    damaged = bytearray(content + b"#")
    damaged[2 * CHUNK_BYTES] ^= 1
    (tmp_path / "s").write_bytes(damaged)
    upper = (0, 0, 32, 1024)
    assert windows(body, [0, 0], [1024] * 2, [upper, whole], (64, 1024))[1] == [READ_OK, READ_CRC]
    os.truncate(tmp_path / "s", 0)
    assert windows(body, [0], [1024], [upper], (64, 1024))[1] == [READ_FAULT]
    for wrong in ((-1, 0, 1, 1), (0, 0, 65, 1), (1, 0, 64, 1), (0, 1, 1, 1024), (0, 0, 1, -1)):
        with pytest.raises(ValueError, match="beyond out"):
            windows(body, [0], [1024], [wrong], (64, 1024))


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_body_that_remembers_nothing_sees_a_flip_in_any_chunk_it_reads(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """And in no other: rows far apart skip the chunks between them."""
    size = data.draw(st.integers(1, 5 * CHUNK_BYTES))
    content = bytearray(np.random.default_rng(size).bytes(size))
    path = tmp_path_factory.mktemp("f") / "s"
    body = body_over(path, bytes(content), [], remember=False)
    width = data.draw(st.integers(1, min(size, 40_000)))
    stride = data.draw(st.integers(width, width + 50_000))
    rows = data.draw(st.integers(1, 1 + (size - width) // stride))
    start = data.draw(st.integers(0, size - width - (rows - 1) * stride))
    window = [start], [stride], [(0, 0, rows, width)], (rows, width)
    expected = np.stack(
        [np.frombuffer(content[at : at + width], np.uint8) for at in range(start, start + rows * stride, stride)]
    )
    for _ in range(2):
        out, statuses = windows(body, *window)
        assert statuses == [READ_OK]
        assert np.array_equal(out[0], expected)
    flipped = data.draw(st.integers(0, size - 1))
    with path.open("r+b") as file:
        file.seek(flipped)
        file.write(bytes([content[flipped] ^ 4]))
    touched = {
        at // CHUNK_BYTES for row in range(rows) for at in range(start + row * stride, start + row * stride + width)
    }
    assert windows(body, *window)[1] == [READ_CRC if flipped // CHUNK_BYTES in touched else READ_OK]
