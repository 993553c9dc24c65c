"""CRC32C and chunk sums: against known vectors and a slow oracle."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import sums_of
from format.pure_reader import crc32c as oracle
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit._native.shards.body import CHUNK_BYTES
from toolkit._native.shards.sums import ChunkSums, chunk_sums, crc32c, crc32c_backend

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


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0, 1, 7, 8, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 40_000]), max_size=6))
def test_chunk_sums_of_pieces_of_any_size(sizes: list[int]) -> None:
    sums, rng, everything = ChunkSums(), np.random.default_rng(0), b""
    for size in sizes:
        piece = rng.bytes(size)
        sums.update(piece)
        everything += piece
        assert sums.digest() == sums_of(everything)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 40_000]), max_size=6))
def test_chunk_sums_of_values(sizes: list[int]) -> None:
    data = np.random.default_rng(1).bytes(7 + sum(sizes))
    starts = 5 + np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
    expected = b"".join(sums_of(data[start : start + size]) for start, size in zip(starts, sizes, strict=False))
    found = np.empty(len(expected) // 4, np.uint32)
    chunk_sums(starts, data, found)
    assert found.astype("<u4").tobytes() == expected


@pytest.mark.parametrize(
    ("starts", "chunks"), [([0, 11], 1), ([-1, 4], 1), ([4, 2], 0), ([0, 4], 0), ([0, 4], 2), ([0, 1 << 62], 1)]
)
def test_chunk_sums_outside_of_the_data(starts: list[int], chunks: int) -> None:
    with pytest.raises(ValueError, match="don't lie in the data"):
        chunk_sums(np.array(starts, np.int64), bytes(10), np.empty(chunks, np.uint32))
    with pytest.raises(ValueError, match="one number more"):
        chunk_sums(np.empty(0, np.int64), bytes(10), np.empty(chunks, np.uint32))
