from __future__ import annotations

import tempfile
from pathlib import Path
from unittest import mock

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from toolkit.pack import repeats
from toolkit.pack.repeats import KnownKeys, find_repeats

KEYS = st.lists(st.lists(st.sampled_from([f"k{i}" for i in range(30)]), max_size=25), min_size=1, max_size=5)


def write(folder: Path, parts: list[list[str]]) -> list[str]:
    paths = []
    for number, keys in enumerate(parts):
        path = folder / f"{number}.keys"
        path.write_bytes(b"".join(xxhash.xxh3_128_digest(key.encode()) for key in keys))
        paths.append(str(path))
    return paths


@settings(deadline=None)
@given(KEYS, st.sampled_from([3, 1 << 21]), st.sampled_from([1, 4, 1 << 20]))
def test_repeats_are_found_in_any_number_of_parts(parts: list[list[str]], part_rows: int, read_rows: int) -> None:
    seen: dict[str, int] = {}
    expected = []
    for row, key in enumerate(key for keys in parts for key in keys):
        if key in seen:
            expected.append((row, seen[key]))
        seen.setdefault(key, row)
    with (
        tempfile.TemporaryDirectory() as folder,
        mock.patch.object(repeats, "_PART_ROWS", part_rows),
        mock.patch.object(repeats, "_READ_ROWS", read_rows),
    ):
        paths = write(Path(folder), parts)
        found = find_repeats(paths)
        assert list(zip(found.rows.tolist(), found.firsts.tolist(), strict=True)) == expected
        if seen:
            known = KnownKeys(paths, f"{folder}/sorted")
            assert all(key in known for key in seen)
            assert not any(key in known for key in ("K", "", *{f"k{i}" for i in range(30)} - set(seen)))


def test_half_a_hash_in_common_is_no_repeat(tmp_path: Path) -> None:
    (tmp_path / "a.keys").write_bytes(b"12345678ABCDEFGH" + b"12345678abcdefgh" + b"12345678ABCDEFGH")
    found = find_repeats([str(tmp_path / "a.keys")])
    assert (found.rows.tolist(), found.firsts.tolist()) == ([2], [0])


@pytest.mark.parametrize("parts", [[[]], [[], []]])
def test_no_keys_at_all(tmp_path: Path, parts: list[list[str]]) -> None:
    assert len(find_repeats(write(tmp_path, parts)).rows) == 0
