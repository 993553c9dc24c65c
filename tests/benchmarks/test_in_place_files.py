"""The comparison of data where it lies runs, with its own side alone and few files."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from pictures import make_folder

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import in_place_files
from turns import BenchmarkError

import toolkit


def test_sides_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    photos = make_folder(tmp_path / "photos" / "train", {"cat": 3, "dog": 3}).parent
    toolkit.pack(photos, tmp_path / "pack")
    toolkit.index(photos, tmp_path / "index")
    for case, sides, source in (
        ("read_bytes", ("references", "packed"), tmp_path),
        ("read_decoded", ("references", "packed"), tmp_path),
        ("index", ("index", "sha256"), photos),
    ):
        for side in sides:
            assert in_place_files.main(["--worker", case, side, str(source), "2", str(tmp_path)]) == 0
            seconds, processor = map(float, capsys.readouterr().out.split())
            assert seconds > 0
            assert processor >= 0


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--cases", "open", "--repeats", "1", "--files", "200", "--work", str(tmp_path), "--json"]
    assert in_place_files.main(command) == 0
    [case] = json.loads(capsys.readouterr().out)["cases"]
    assert (case["name"], list(case["seconds"]), case["ratios"]) == ("open", ["toolkit"], {})
    assert list(tmp_path.iterdir()) == []


def test_what_can_not_be_measured(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="unknown cases or peers"):
        in_place_files.measure(None, None, ["close"])
    with pytest.raises(BenchmarkError, match="PHOTOS is missing"):
        in_place_files.measure(None, None, ["index"])
    with pytest.raises(BenchmarkError, match="must be positive"):
        in_place_files.measure(tmp_path, None, repeats=0)


def test_the_files_are_always_the_same(tmp_path: Path) -> None:
    for name in ("a", "b"):
        in_place_files.make_files(tmp_path / name, 120)
    first, second = (sorted(path.relative_to(tmp_path / n) for path in (tmp_path / n).rglob("*.jpg")) for n in "ab")
    assert first == second
    assert len(first) == 120
    assert all((tmp_path / "a" / path).read_bytes() == (tmp_path / "b" / path).read_bytes() for path in first[:9])
    in_place_files.make_tar(tmp_path / "a", tmp_path / "a.tar")
    assert (tmp_path / "a.tar").stat().st_size > 120 * 1024
