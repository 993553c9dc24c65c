"""The comparison of loaders: every side delivers every byte, and too little input is said."""

from __future__ import annotations

import platform
from pathlib import Path

import loader as benchmark
import numpy as np
import pytest

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="the loop in C uses x86's CRC32C instruction")


def test_sides_deliver_the_same_bytes(tmp_path: Path) -> None:
    files = tmp_path / "in"
    files.mkdir()
    (files / "a.bin").write_bytes(np.random.default_rng(1).bytes(50_000))
    sides = benchmark.measure(files, records=40, batch_size=16, repeats=1, peer_paths=[], work=tmp_path)
    assert [side.key for side in sides][:3] == ["toolkit", "gather", "gather_crc"]
    assert all(side.first and side.later for side in sides[:3])
    assert sides[0].single[0] > 0
    lines = list(benchmark.table(sides))
    assert len(lines) == len(sides) + 1
    assert lines[1].startswith("toolkit")


def test_nothing_to_cut_from_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "in").mkdir()
    assert benchmark.main([str(tmp_path / "in"), "--records", "4", "--repeats", "1", "--work", str(tmp_path)]) == 1
    assert "has no files" in capsys.readouterr().err
