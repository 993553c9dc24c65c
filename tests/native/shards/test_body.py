"""Checked reads of bodies: against slices; damage becomes a status."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from bodies import body_over
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit._native.shards.body import (
    CHUNK_BYTES,
    READ_CRC,
    READ_FAULT,
    READ_OK,
    READ_RANGE,
    Body,
    ShardMap,
)


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
    body = body_over(tmp_path / "s", bytes(5 * CHUNK_BYTES), [])
    os.truncate(tmp_path / "s", 0)
    assert body.read(0, np.empty(4, np.uint8)) == (READ_FAULT, 0)


def test_a_body_whose_end_wraps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(bytes(64))
    with (tmp_path / "s").open("rb") as file:
        shard = ShardMap(file.fileno(), 64)
    for offset, length in ((1, 2**63 - 1), (2**63 - 1, 2**63 - 1), (65, 0), (0, 65), (-1, 1), (0, -1)):
        with pytest.raises(ValueError, match="lies outside a file of 64 bytes"):
            Body(shard, offset, length, 1, b"", np.empty((0, 2), np.int64))
