"""benchmarks/writer.py: sides run in turns and are told when they fail."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from pictures import make_folder

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "writer.py"


def test_a_side_that_is_not_installed_is_told(tmp_path: Path) -> None:
    make_folder(tmp_path / "photos", {"train/cat": 2})
    command = [sys.executable, SCRIPT, tmp_path / "photos", "--peer-python", sys.executable, "--repeats", "1"]
    done = subprocess.run([*map(str, command), "--records", "10"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "mds: ModuleNotFoundError" in done.stderr
    (tmp_path / "empty").mkdir()
    command[2] = tmp_path / "empty"
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "has no train/<class>/*.jpg" in done.stderr
