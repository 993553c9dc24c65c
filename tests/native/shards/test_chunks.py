"""CRC32C, chunk sums and checked reads: against known vectors, a slow oracle and numpy; damage becomes a status."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from bodies import body_over, laid_out, sums_of
from format.pure_reader import crc32c as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit._native.shards.chunks import (
    CHUNK_BYTES,
    READ_CRC,
    READ_FAULT,
    READ_NULL,
    READ_OK,
    READ_RANGE,
    Body,
    ChunkSums,
    FetchBuffer,
    ShardMap,
    crc32c,
    crc32c_backend,
    fetch_binary,
    fetch_fixed,
)

# RFC 3720, appendix B.4, and the text that Google's crc32c repeats.
VECTORS = [
    (b"", 0),
    (b"123456789", 0xE3069283),
    (bytes(32), 0x8A9136AA),
    (b"\xff" * 32, 0x62A8AB43),
    (bytes(range(32)), 0x46DD794E),
    (bytes(range(31, -1, -1)), 0x113FDB5C),
    (
        bytes.fromhex(
            "01c000000000000000000000000000001400000000000400000000140000001828000000000000000200000000000000"
        ),
        0xD9963A56,
    ),
]


@pytest.mark.parametrize(("data", "expected"), VECTORS)
@pytest.mark.parametrize("table", [False, True])
def test_crc32c_vectors(data: bytes, expected: int, table: bool) -> None:
    assert crc32c(data, table=table) == expected


@given(st.binary(max_size=300), st.integers(0, 300), st.integers(0, 9))
def test_crc32c_equals_the_oracle_and_continues(data: bytes, cut: int, start: int) -> None:
    view = memoryview(data)[start:]
    assert crc32c(view) == crc32c(view, table=True) == oracle(bytes(view))
    assert crc32c(view[cut:], crc32c(view[:cut])) == crc32c(view)


@pytest.mark.parametrize(
    "size", [2047, 2048, 6143, 6144, 6145, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES]
)
def test_crc32c_of_long_data(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert crc32c(data) == crc32c(data, table=True) == oracle(data)


def test_the_backend_has_a_name() -> None:
    assert crc32c_backend() in ("sse4.2", "armv8-crc", "table")


# --- chunk sums -----------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 7, 8, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 40_000]), max_size=6))
def test_chunk_sums_of_pieces_of_any_size(sizes: list[int]) -> None:
    sums, rng, everything = ChunkSums(), np.random.default_rng(0), b""
    for size in sizes:
        piece = rng.bytes(size)
        sums.update(piece)
        everything += piece
        assert sums.digest() == sums_of(everything)


# --- bodies ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_reads_equal_slices(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([1, 100, CHUNK_BYTES, 3 * CHUNK_BYTES + 5]))
    content = np.random.default_rng(size).bytes(size)
    body = body_over(tmp_path_factory.mktemp("b") / "s", content, [], lead=data.draw(st.integers(0, 9)))
    for _ in range(4):
        start = data.draw(st.integers(0, size))
        out = np.zeros(data.draw(st.integers(0, size - start)), np.uint8)
        assert body.read(start, out)[0] == READ_OK
        assert out.tobytes() == content[start : start + len(out)]


def test_every_chunk_is_checked_once_and_when_it_is_touched(tmp_path: Path) -> None:
    content = bytes(range(256)) * 256
    body = body_over(tmp_path / "s", content, [])
    assert body.checked_chunks == 0
    body.read(CHUNK_BYTES - 1, np.empty(2, np.uint8))
    assert body.checked_chunks == 2
    body.read(0, np.empty(len(content), np.uint8))
    assert body.checked_chunks == 4


@pytest.mark.parametrize("at", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, 2 * CHUNK_BYTES + 99])
def test_a_flip_is_a_status_wherever_the_chunk_is_touched(tmp_path: Path, at: int) -> None:
    content = np.random.default_rng(3).bytes(2 * CHUNK_BYTES + 100)
    body = body_over(tmp_path / "s", content, [])
    damaged = bytearray(content + b"#")
    damaged[at] ^= 16
    (tmp_path / "s").write_bytes(damaged)  # in place: the map sees it
    bad = at // CHUNK_BYTES
    for start in range(0, len(content), 1000):
        out = np.empty(min(1000, len(content) - start), np.uint8)
        status, chunk = body.read(start, out)
        touched = range(start // CHUNK_BYTES, (start + len(out) - 1) // CHUNK_BYTES + 1)
        assert status == (READ_CRC if bad in touched else READ_OK)
        assert status == READ_OK or chunk == bad
        if status == READ_OK:
            assert out.tobytes() == content[start : start + len(out)]
    status, chunk = body.read(0, np.empty(len(content), np.uint8))
    assert (status, chunk) == (READ_CRC, bad)


def test_reads_outside_the_body(tmp_path: Path) -> None:
    body = body_over(tmp_path / "s", b"abc", [])
    for start, size in ((-1, 1), (0, 4), (3, 1), (4, 1), (2**62, 1)):
        assert body.read(start, np.empty(size, np.uint8))[0] == READ_RANGE


@pytest.mark.parametrize(
    ("offset", "length", "sums", "buffers"),
    [
        (-1, 3, 1, []),
        (0, -1, 0, []),
        (0, 99, 1, []),
        (99, 0, 0, []),
        (2**62, 2**62, 1, []),
        (0, 3, 0, []),
        (0, 3, 2, []),
        (0, 3, 1, [(0, 4)]),
        (0, 3, 1, [(-1, 1)]),
        (0, 3, 1, [(1, -1)]),
        (0, 3, 1, [(4, 0)]),
        (0, 3, 1, [(2**62, 2**62)]),
    ],
)
def test_bodies_that_are_refused(
    tmp_path: Path, offset: int, length: int, sums: int, buffers: list[tuple[int, int]]
) -> None:
    (tmp_path / "s").write_bytes(b"abcd")
    with (tmp_path / "s").open("rb") as file:
        shard = ShardMap(file.fileno(), 4)
    with pytest.raises(ValueError, match=r"outside|chunk sums"):
        Body(shard, offset, length, 1, bytes(4 * sums), np.array(buffers, np.int64).reshape(-1, 2))


def test_maps_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(b"abcd")
    with (tmp_path / "s").open("rb") as file, pytest.raises(ValueError, match="at least one byte"):
        ShardMap(file.fileno(), 0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        ShardMap(-1, 4)


# --- fetches --------------------------------------------------------------------------------------------------


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


def test_threads_share_a_body(tmp_path: Path) -> None:
    content = np.random.default_rng(0).bytes(40 * CHUNK_BYTES)
    body, wrong = body_over(tmp_path / "s", content, []), []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(300):
            start = int(rng.integers(0, len(content) - 70_000))
            out = np.empty(int(rng.integers(1, 70_000)), np.uint8)
            if body.read(start, out)[0] != READ_OK or out.tobytes() != content[start : start + len(out)]:
                wrong.append(start)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert body.checked_chunks == 40


def test_a_file_that_is_cut_short_while_open(tmp_path: Path) -> None:
    body = body_over(tmp_path / "s", bytes(5 * CHUNK_BYTES), [(0, 5 * CHUNK_BYTES)], rows=9000)
    os.truncate(tmp_path / "s", 0)
    assert body.read(0, np.empty(4, np.uint8)) == (READ_FAULT, 0)
    assert fetched_fixed(body, [0, 8191], [], 0, 8)[1] == [READ_FAULT, READ_FAULT]


def test_a_width_that_wraps_is_refused(tmp_path: Path) -> None:
    body = body_over(tmp_path / "s", bytes(64), [(0, 64)], rows=4)
    none, rows = np.empty(0, np.int32), np.zeros(4, np.int64)
    statuses, chunks = np.zeros(4, np.int32), np.zeros(4, np.int64)
    with pytest.raises(ValueError, match="must fit the rows"):
        fetch_fixed([body] * 4, rows, none, 0, 2**62, np.empty(0, np.uint8), statuses, chunks)


def test_a_body_whose_end_wraps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(bytes(64))
    with (tmp_path / "s").open("rb") as file:
        shard = ShardMap(file.fileno(), 64)
    for offset, length in ((1, 2**63 - 1), (2**63 - 1, 2**63 - 1), (65, 0), (0, 65), (-1, 1), (0, -1)):
        with pytest.raises(ValueError, match="lies outside a file of 64 bytes"):
            Body(shard, offset, length, 1, b"", np.empty((0, 2), np.int64))
