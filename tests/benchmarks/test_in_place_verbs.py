"""benchmarks/in_place.py --case verbs: sides run in turns, and find equally many rows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "in_place.py"


def test_every_side_answers(tmp_path: Path) -> None:
    command = [
        sys.executable,
        SCRIPT,
        "--case",
        "verbs",
        "--cases",
        "filter",
        "--rows",
        "2000",
        "--repeats",
        "1",
        "--work",
        tmp_path,
    ]
    done = subprocess.run([*map(str, command), "--json"], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    cases = json.loads(done.stdout)["cases"]
    assert [case["name"] for case in cases] == ["filter"]
    assert list(cases[0]["seconds"]) == ["toolkit", "polars_ipc", "ipc_numbers", "polars_parquet"]
    assert 0 < cases[0]["rows"] < 2000
    assert list(tmp_path.iterdir()) == []


def test_a_case_that_is_none_is_told() -> None:
    done = subprocess.run([sys.executable, SCRIPT, "--case", "verb"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "begin with --case verbs|query|read_bytes|" in done.stderr
