from __future__ import annotations

import os
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.format import key_repeats as repeats
from toolkit.format.key_repeats import KnownKeys, find_repeats, first_repeat

KEYS = st.lists(st.lists(st.sampled_from([f"k{i}" for i in range(30)]), max_size=25), min_size=1, max_size=5)


def write(folder: Path, parts: list[list[str]]) -> list[str]:
    paths = []
    for number, keys in enumerate(parts):
        path = folder / f"{number}.keys"
        path.write_bytes(b"".join(xxhash.xxh3_128_digest(key.encode()) for key in keys))
        paths.append(str(path))
    return paths


@settings(deadline=None)
@given(KEYS, st.sampled_from([1, 3, 1 << 21]))
def test_repeats_are_found_in_any_number_of_parts(parts: list[list[str]], rows_at_a_time: int) -> None:
    seen: dict[str, int] = {}
    expected = []
    for row, key in enumerate(key for keys in parts for key in keys):
        if key in seen:
            expected.append((row, seen[key]))
        seen.setdefault(key, row)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(repeats, "_ROWS_AT_A_TIME", rows_at_a_time),
    ):
        paths = write(Path(folder), parts)
        found = find_repeats(paths, folder)
        assert list(zip(found.rows.tolist(), found.firsts.tolist(), strict=True)) == expected
        assert first_repeat(paths, folder) == (expected[0] if expected else None)
        assert sorted(os.listdir(folder)) == sorted(os.path.basename(path) for path in paths)
        if seen:
            known = KnownKeys(paths, folder)
            assert all(key in known for key in seen)
            assert not any(key in known for key in ("K", "", *{f"k{i}" for i in range(30)} - set(seen)))


def test_half_a_hash_in_common_is_no_repeat(tmp_path: Path) -> None:
    (tmp_path / "a.keys").write_bytes(b"12345678ABCDEFGH" + b"12345678abcdefgh" + b"12345678ABCDEFGH")
    found = find_repeats([str(tmp_path / "a.keys")], str(tmp_path))
    assert (found.rows.tolist(), found.firsts.tolist()) == ([2], [0])


@pytest.mark.parametrize("parts", [[[]], [[], []]])
def test_no_keys_at_all(tmp_path: Path, parts: list[list[str]]) -> None:
    assert len(find_repeats(write(tmp_path, parts), str(tmp_path)).rows) == 0


def test_random_hashes_are_spread_over_files(tmp_path: Path) -> None:
    """Of both words of a hash, leading bits set and not: what hashes of a few keys don't have."""
    hashes = np.random.default_rng(0).integers(0, 2**64, (20_000, 2), np.uint64)
    paths = [str(tmp_path / name) for name in ("a.keys", "b.keys")]
    with mock.patch.object(repeats, "_ROWS_AT_A_TIME", 1000):
        for expected in ([], [(15_000, 3)]):
            for rows, _ in expected:
                hashes[rows] = hashes[3]
            hashes[:7].tofile(paths[0])
            hashes[7:].tofile(paths[1])
            found = find_repeats(paths, str(tmp_path))
            assert list(zip(found.rows.tolist(), found.firsts.tolist(), strict=True)) == expected
        KnownKeys(paths, str(tmp_path))
    words = np.fromfile(tmp_path / "keys.sorted", np.uint64)
    assert np.array_equal(words, np.sort(hashes[:, 0]))
