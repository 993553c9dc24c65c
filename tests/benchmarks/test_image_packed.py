"""The comparison of shaped packs: every side gives every photograph."""

from __future__ import annotations

from pathlib import Path

import image_packed as benchmark
import pytest
from pictures import encode, picture


def test_every_side_is_measured(tmp_path: Path) -> None:
    folder = tmp_path / "in/train/ant"
    folder.mkdir(parents=True)
    for number in range(6):
        (folder / f"{number}.jpg").write_bytes(encode(picture(number, 300, 280)))
    found = benchmark.measure(tmp_path / "in", 6, 1)
    assert list(found) == list(benchmark.SIDES)
    assert all(len(rates) == 1 and rates[0] > 0 for side in found.values() for rates in side.values())
    assert len(list(benchmark.table(found))) == len(found) + 1


def test_too_few_photographs_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert benchmark.main([str(tmp_path), "--count", "3"]) == 1
    assert "has 0 photographs" in capsys.readouterr().err
