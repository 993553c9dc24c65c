"""benchmarks/mix.py: both sides of toolkit run, and a peer that is missing is told. Nothing about speed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "mix.py"


def run(tmp_path: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--rows", "600", "--sources", "2", "--repeats", "1"]
    return subprocess.run([*command, "--work", str(tmp_path), *more], capture_output=True, text=True, timeout=120)


def test_a_mix_and_one_source_are_measured(tmp_path: Path) -> None:
    done = run(tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    runs = json.loads(done.stdout)["runs"]
    assert list(runs) == ["mix", "one"]
    assert all(value > 0 for found in runs.values() for run in found for value in run.values())
    assert not list(tmp_path.iterdir())


def test_a_peer_that_is_missing_is_told(tmp_path: Path) -> None:
    done = run(tmp_path, "--peer-python", str(tmp_path / "python"))
    assert done.returncode == 1
    assert "python" in done.stderr
    done = run(tmp_path, "--sources", "1")
    assert done.returncode == 1
    assert "two sources" in done.stderr
